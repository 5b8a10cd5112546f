// Package stage makes the two tiny programs around silk-sentry: [New] makes the one that runs before it in the same
// process and takes everything away from it, [Init] makes process 1 inside the sandbox.
//
// A stage is a list of system calls that a dozen instructions work through, one thread, no memory: so the Sentry begins
// its life in an empty root without a capability. Done by the Sentry itself, in Go and on every thread, the same took
// 5 ms, needed /proc and a helper that unmounts it, and left a large program with rights for a while.
package stage

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors in the process that executes a stage. Ones that are free below MadeFD would change what a stage opens.
const (
	MadeFD  = 5   // the first free one: the stage opens and closes files there
	BirthFD = 252 // a socket of packets, see [Stage]; closed
	SelfFD  = 253 // the stage's own executable; closed
	OtherFD = 254 // what it executes in the end, with its own arguments and environment
)

// A Stage is a static executable for amd64 Linux. It is started without any namespace of its own, makes the process that it is
// about, in new namespaces and with the same parent, writes that one's id or a negative errno, a native int32, to BirthFD, and ends.
// The new process waits for a packet, which says that its ids are mapped.
//
// That the caller does not make the process itself is for speed: Go forks for a new user namespace, where else it shares its memory
// until the child executes. A fork copies the page tables of a large process, and makes each page that it writes afterwards fault: 10
// ms and more beside a run that takes 20.
type Stage struct {
	ELF   []byte
	calls []call
}

// call is one system call; what says what it does to whom. Arguments are integers, strings and bytes.
type call struct {
	what string
	nr   uint64
	args []any
}

// mayFail in a call's number keeps its failure from ending the stage.
const mayFail = 1 << 32

// File is a file that the empty root has, such as gVisor's packages read when they are initialised.
type File struct {
	Path    string // without leading slash
	Content string
}

// Config is what a stage depends on.
type Config struct {
	Dirs    []string // of the empty root
	Files   []File
	LastCap int // the highest capability that the host's kernel knows

	// Groups says that the process may leave its caller's groups, which it does then: root's may.
	Groups bool

	nested bool // tests: user namespaces below its own are not forbidden
}

// Nobody is the only user and the only group in the process's user namespace.
const Nobody = 65534

// namespaces are those that the process gets of its own.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET

// New makes a stage for a process that leads a session, is Nobody, and dies with the thread that started it. Its mounts are
// private, its root is an empty read-only tmpfs (nosuid, nodev, noexec) with dirs and files, the host's root is detached. It
// has no capability, none up to LastCap in its bounding set, no_new_privs, and neither the host's name nor the caller's session
// keyring.
//
// It can make no user namespace below its own, in which it would have capabilities again: they give nothing of the host (see
// the package's tests), but let code reach much of the host's kernel that is for root. Where /proc/sys is read-only, as in
// most containers, this is left out.
func New(c Config) Stage {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	const hostname = "silk"
	const at = "/proc" // exists on every host that can write user namespace maps
	needed := uint32(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_SETPCAP)
	if !c.nested {
		needed |= 1 << unix.CAP_SYS_RESOURCE
	}
	version := binary.LittleEndian.AppendUint64(nil, unix.LINUX_CAPABILITY_VERSION_3) // struct __user_cap_header_struct: version, pid 0
	diesWithParent := call{"set parent-death signal", unix.SYS_PRCTL, []any{unix.PR_SET_PDEATHSIG, int(unix.SIGKILL)}}
	calls := []call{
		// Without room for it the packet is received and thrown away. The end of the socket is taken for one; no id is mapped then.
		{"wait until ids are mapped", unix.SYS_RECVFROM, []any{BirthFD, 0, 0, 0, 0}},
		{"close the socket", unix.SYS_CLOSE, []any{BirthFD}},
		diesWithParent,
		{"lead a session", unix.SYS_SETSID, nil},
		{"keep capabilities", unix.SYS_PRCTL, []any{unix.PR_SET_KEEPCAPS, 1, 0, 0, 0}},
	}
	if c.Groups {
		calls = append(calls, call{"leave the caller's groups", unix.SYS_SETGROUPS, []any{0, 0}})
	}
	calls = append(calls, []call{
		{"become nobody's group", unix.SYS_SETGID, []any{Nobody}},
		{"become nobody", unix.SYS_SETUID, []any{Nobody}},
		{"take the stage's capabilities", unix.SYS_CAPSET, []any{version, capabilities(needed)}},
		{"close the stage", unix.SYS_CLOSE, []any{SelfFD}},
		{"make mounts private", unix.SYS_MOUNT, []any{"", "/", "", unix.MS_SLAVE | unix.MS_REC, 0}},
		// A limit of this user namespace, namespaces(7): the kernel takes it from whose process opens the file.
		{"open the limit of user namespaces", mayFail | unix.SYS_OPEN, []any{"/proc/sys/user/max_user_namespaces", unix.O_WRONLY, 0}},
		{"forbid user namespaces", mayFail | unix.SYS_WRITE, []any{MadeFD, "0", 1}},
		{"close the limit of user namespaces", mayFail | unix.SYS_CLOSE, []any{MadeFD}},
		{"forget the host's name", unix.SYS_SETHOSTNAME, []any{hostname, len(hostname)}},
		{"forget the host's domain", unix.SYS_SETDOMAINNAME, []any{"", 0}},
		// Whoever has a session keyring may use the keys in it, whatever namespaces are around, keyrings(7). A kernel
		// without keys, and most containers, refuse; there are none then.
		{"leave the session keyring", mayFail | unix.SYS_KEYCTL, []any{unix.KEYCTL_JOIN_SESSION_KEYRING, 0}},
		{"mount an empty root", unix.SYS_MOUNT, []any{"silk-root", at, "tmpfs", flags, "mode=0755,size=1M"}},
		{"enter the empty root", unix.SYS_CHDIR, []any{at}},
		{"set the mask of new files", unix.SYS_UMASK, []any{0o022}}, // the caller's may keep even us out of what is made here
	}...)
	for _, dir := range c.Dirs {
		calls = append(calls, call{"make /" + dir, unix.SYS_MKDIR, []any{dir, 0o755}})
	}
	for _, f := range c.Files {
		calls = append(calls,
			call{"create /" + f.Path, unix.SYS_OPEN, []any{f.Path, unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL, 0o444}},
			call{"write /" + f.Path, unix.SYS_WRITE, []any{MadeFD, f.Content, len(f.Content)}},
			call{"close /" + f.Path, unix.SYS_CLOSE, []any{MadeFD}})
	}
	calls = append(calls,
		call{"make the root read-only", unix.SYS_MOUNT, []any{"", ".", "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | flags, 0}},
		call{"leave the host's root", unix.SYS_PIVOT_ROOT, []any{".", "."}}, // pivot_root(2): the old root is then on top of the new one
		call{"detach the host's root", unix.SYS_UMOUNT2, []any{".", unix.MNT_DETACH}})
	for c := range c.LastCap + 1 {
		calls = append(calls, call{"drop capability " + strconv.Itoa(c) + " from the bounding set", unix.SYS_PRCTL, []any{unix.PR_CAPBSET_DROP, c}})
	}
	calls = append(calls,
		call{"drop capabilities", unix.SYS_CAPSET, []any{version, capabilities(0)}}, // the ambient ones go with them, capabilities(7)
		call{"set no_new_privs", unix.SYS_PRCTL, []any{unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0}},
		diesWithParent, // again: a change of credentials clears it, prctl(2)
	)
	return Stage{ELF: tinyELF(assemble(calls)), calls: calls}
}

// capabilities is what capset(2) takes: two structs of effective, permitted and inheritable capabilities.
func capabilities(set uint32) []byte {
	b := make([]byte, 24)
	binary.LittleEndian.PutUint32(b, set)
	binary.LittleEndian.PutUint32(b[4:], set)
	return b
}

// Explain words what a stage wrote to stderr when a call failed; false if report is nothing of its own.
func (s Stage) Explain(report string) (string, bool) {
	if len(report) != reportBytes || report[:4] != mark {
		return "", false
	}
	index, errno := binary.LittleEndian.Uint32([]byte(report[4:])), syscall.Errno(binary.LittleEndian.Uint32([]byte(report[8:])))
	what := "execute the sandbox kernel"
	if int(index) < len(s.calls) {
		what = s.calls[index].what
	}
	return fmt.Sprintf("%s: %v", what, errno), true
}

// A report is the mark, the index of the call, its errno.
const (
	mark        = "silk"
	reportBytes = 12
)

// assemble lays out the instructions, the table of calls, and what their arguments point to.
func assemble(calls []call) []byte {
	le := binary.LittleEndian
	const entry = 6 * 8 // number and five arguments
	const sigchld = 17
	const flags = namespaces | unix.CLONE_PARENT | sigchld
	code := []byte{
		0x49, 0x89, 0xe6, // mov r14, rsp: argc, arguments, environment (AMD64 ABI 3.4.1)
		0xb8, 56, 0, 0, 0, // mov eax, SYS_clone
		0xbf, flags & 0xff, flags >> 8 & 0xff, flags >> 16 & 0xff, flags >> 24, // mov edi, flags
		0x31, 0xf6, // xor esi, esi: the same stack, copied
		0x31, 0xd2, // xor edx, edx
		0x45, 0x31, 0xd2, // xor r10d, r10d
		0x45, 0x31, 0xc0, // xor r8d, r8d
		0x0f, 0x05, // syscall
		0x85, 0xc0, // test eax, eax
		0x74, 0, // je born
		0x41, 0x89, 0x46, 0xf8, // mov [r14-8], eax
		0xb8, 1, 0, 0, 0, // mov eax, SYS_write
		0xbf, BirthFD, 0, 0, 0, // mov edi, BirthFD
		0x49, 0x8d, 0x76, 0xf8, // lea rsi, [r14-8]
		0xba, 4, 0, 0, 0, // mov edx, 4
		0x0f, 0x05, // syscall
		0xb8, 231, 0, 0, 0, // mov eax, SYS_exit_group
		0x31, 0xff, // xor edi, edi
		0x0f, 0x05, // syscall
		// born:
		0x48, 0x8d, 0x1d, 0, 0, 0, 0, // lea rbx, [table]
		0x45, 0x31, 0xe4, // xor r12d, r12d: the index
		// each:
		0x8b, 0x03, // mov eax, [rbx]
		0x48, 0x8b, 0x7b, 8, // mov rdi, [rbx+8]
		0x48, 0x8b, 0x73, 16, // mov rsi, [rbx+16]
		0x48, 0x8b, 0x53, 24, // mov rdx, [rbx+24]
		0x4c, 0x8b, 0x53, 32, // mov r10, [rbx+32]
		0x4c, 0x8b, 0x43, 40, // mov r8, [rbx+40]
		0x0f, 0x05, // syscall
		0x48, 0x85, 0xc0, // test rax, rax
		0x79, 6, // jns next
		0x83, 0x7b, 4, 0, // cmp dword [rbx+4], 0: may it fail?
		0x74, 0, // je fail
		// next:
		0x41, 0xff, 0xc4, // inc r12d
		0x48, 0x83, 0xc3, entry, // add rbx, entry
		0x48, 0x83, 0x3b, 0xff, // cmp qword [rbx], -1
		0x75, 0, // jne each
		0xb8, 0x42, 1, 0, 0, // mov eax, SYS_execveat
		0xbf, OtherFD, 0, 0, 0, // mov edi, OtherFD
		0x48, 0x8d, 0x35, 0, 0, 0, 0, // lea rsi, [""]
		0x49, 0x8d, 0x56, 8, // lea rdx, [r14+8]: the arguments
		0x49, 0x8b, 0x0e, // mov rcx, [r14]
		0x4d, 0x8d, 0x54, 0xce, 16, // lea r10, [r14+rcx*8+16]: the environment
		0x41, 0xb8, 0, 0x10, 0, 0, // mov r8d, AT_EMPTY_PATH
		0x0f, 0x05, // syscall
		// fail:
		0xf7, 0xd8, // neg eax
		0x41, 0x89, 0x46, 0xf8, // mov [r14-8], eax
		0x45, 0x89, 0x66, 0xf4, // mov [r14-12], r12d
		0x41, 0xc7, 0x46, 0xf0, mark[0], mark[1], mark[2], mark[3], // mov dword [r14-16], mark
		0xb8, 1, 0, 0, 0, // mov eax, SYS_write
		0xbf, 2, 0, 0, 0, // mov edi, 2
		0x49, 0x8d, 0x76, 0xf0, // lea rsi, [r14-16]
		0xba, reportBytes, 0, 0, 0, // mov edx, reportBytes
		0x0f, 0x05, // syscall
		0xb8, 231, 0, 0, 0, // mov eax, SYS_exit_group
		0xbf, 1, 0, 0, 0, // mov edi, 1
		0x0f, 0x05, // syscall
	}
	const born = 63
	const each, fail = born + 10, born + 95
	patchJump(code, 27, 0x74, born)
	patchJump(code, born+43, 0x74, fail)
	patchJump(code, born+56, 0x75, each)
	table := len(code)
	data := table + len(calls)*entry + 8
	patchLea(code, born, table)
	patchLea(code, born+68, data) // the data begin with a zero

	numbers, bytes := []byte{}, []byte{0}
	pointTo := func(b []byte) uint64 {
		at := entryPoint + uint64(data+len(bytes))
		bytes = append(append(bytes, b...), 0)
		return at
	}
	for _, c := range calls {
		words := [entry / 8]uint64{c.nr}
		for i, arg := range c.args {
			switch arg := arg.(type) {
			case int:
				words[i+1] = uint64(arg)
			case string:
				words[i+1] = pointTo([]byte(arg))
			case []byte:
				words[i+1] = pointTo(arg)
			default:
				panic(fmt.Sprintf("argument %d of %q is a %T", i, c.what, arg))
			}
		}
		for _, w := range words {
			numbers = le.AppendUint64(numbers, w)
		}
	}
	numbers = le.AppendUint64(numbers, ^uint64(0))
	return append(append(code, numbers...), bytes...)
}

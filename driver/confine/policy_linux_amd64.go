package confine

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
)

// Policy is what of a spec decides about calls.
type Policy struct {
	Network driver.Network
	NoSpawn bool
	Trees   []string // that may be read, besides those that everybody may
}

// PolicyOf is that of a spec.
func PolicyOf(spec driver.Spec) Policy {
	return Policy{Network: spec.Network, NoSpawn: spec.NoSpawn, Trees: readable(spec)}
}

// readable are the files that a program may read besides those that everybody may.
func readable(spec driver.Spec) []string {
	trees := slices.Clone(spec.Trees)
	for _, f := range spec.Files {
		trees = append(trees, f.Path)
	}
	return trees
}

// Call is a system call that waits for an answer, with what its arguments point to.
type Call struct {
	Name string
	Args [6]uint64
	Self int // the process that calls, as it numbers itself

	Object Object         // of those that open a file: what it leads to
	To     netip.AddrPort // of those with an address: the one that is not the sandbox's own, if there is one
	Raises bool           // of capset: it asks for a capability
	First  bool           // of execve: it is how the program begins
}

// Judge says which rule a call breaks, and what it is about. A rule without a name is none: the call goes on.
func (p Policy) Judge(c Call) (rule rules.Rule, argument string) {
	if c.opens() {
		return p.judgeFile(c), c.Object.Path
	}
	for _, r := range rules.All() {
		if slices.Contains(r.Calls, c.Name) && p.breaks(c, r.Name) {
			return r, c.argument()
		}
	}
	if c.executes() && !c.First {
		return p.judgeFile(c), c.argument()
	}
	return rules.Rule{}, c.argument()
}

// judgeFile is about what is opened or executed. Of what is not there, and would not be forbidden, the kernel says so.
func (p Policy) judgeFile(c Call) rules.Rule {
	r := judged(c.Object, c.Self, p.Trees)
	if r.Action == rules.Allow || c.Object.Absent && r.Name == rules.FileUnlisted {
		return rules.Rule{}
	}
	return r
}

func (c Call) opens() bool { return c.Name == "open" || c.Name == "openat" || c.Name == "creat" }

func (c Call) executes() bool { return c.Name == "execve" || c.Name == "execveat" }

// New namespaces, clone(2) and unshare(2).
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

const socketTypes = 0xf // SOCK_TYPE_MASK, include/linux/net.h

func (p Policy) breaks(c Call, rule string) bool {
	switch rule {
	case rules.NetworkInet, rules.NetworkRaw, rules.NetworkPacket, rules.NetworkVsock, rules.NetworkFamily:
		return p.breaksSocket(c, rule)
	case rules.NetworkOutside:
		return p.Network != driver.NetworkLink && c.To.IsValid()
	case rules.PrivilegeNamespace:
		switch c.Name {
		case "clone":
			return c.Args[0]&newNamespaces != 0
		case "unshare":
			return c.Args[0]&(newNamespaces|unix.CLONE_NEWTIME) != 0
		}
	case rules.PrivilegeIdentity:
		return becomesAnother(c)
	case rules.PrivilegeGroups: // leaving all is the kernel's to refuse
		return uint32(c.Args[0]) != 0
	case rules.PrivilegeCapset:
		return c.Raises
	case rules.PrivilegePtrace: // who traces its own child was asked by it (PTRACE_TRACEME)
		return c.Args[0] == unix.PTRACE_ATTACH || c.Args[0] == unix.PTRACE_SEIZE
	case rules.PrivilegeProcessVM:
		return int(int32(c.Args[0])) != c.Self
	case rules.ProcessSpawn:
		thread := c.Name == "clone" && c.Args[0]&unix.CLONE_THREAD != 0
		return p.NoSpawn && !thread && !c.First
	case rules.SystemClock: // reading is free; the kernel refuses the rest
		return c.Name != "adjtimex" && c.Name != "clock_adjtime"
	case rules.SystemNode:
		mode := c.Args[1]
		if c.Name == "mknodat" {
			mode = c.Args[2]
		}
		return mode&unix.S_IFMT == unix.S_IFCHR || mode&unix.S_IFMT == unix.S_IFBLK
	case rules.SystemRealtime:
		if c.Name == "setpriority" { // below that of the beginning, which is 0
			return int32(c.Args[2]) < 0
		}
		class := c.Args[1] &^ unix.SCHED_RESET_ON_FORK
		return c.Name == "sched_setscheduler" && (class == unix.SCHED_FIFO || class == unix.SCHED_RR || class == unix.SCHED_DEADLINE) // the kernel looks at the others
	case rules.ResourceFallocate, rules.ResourceMincore: // about a kernel in user space; this one has its own limits
		return false
	}
	return true
}

func (p Policy) breaksSocket(c Call, rule string) bool {
	family, kind := uint32(c.Args[0]), c.Args[1]&socketTypes
	inet := family == unix.AF_INET || family == unix.AF_INET6
	switch rule {
	case rules.NetworkInet:
		return inet && kind != unix.SOCK_RAW && p.Network == driver.NetworkDeny
	case rules.NetworkRaw:
		return inet && kind == unix.SOCK_RAW
	case rules.NetworkPacket:
		return family == unix.AF_PACKET
	case rules.NetworkVsock:
		return family == unix.AF_VSOCK
	}
	return !inet && family != unix.AF_UNIX
}

// becomesAnother says whether a call of the setuid family names another id than the program's own; -1 leaves what is.
func becomesAnother(c Call) bool {
	n := map[string]int{"setreuid": 2, "setregid": 2, "setresuid": 3, "setresgid": 3}[c.Name]
	for _, id := range c.Args[:max(n, 1)] {
		if uint32(id) != User && uint32(id) != 1<<32-1 {
			return true
		}
	}
	return false
}

// argument says what a call is about, as watch.Event does.
func (c Call) argument() string {
	switch c.Name {
	case "socket":
		return fmt.Sprintf("%s %s %d", familyName(c.Args[0]), kindName(c.Args[1]), int32(c.Args[2]))
	case "connect", "sendto", "sendmsg", "sendmmsg":
		if c.To.IsValid() {
			return c.To.String()
		}
	case "execve", "execveat":
		return c.Object.Path
	case "clone":
		if c.Args[0]&unix.CLONE_THREAD != 0 {
			return "thread"
		}
		return fmt.Sprintf("process, flags %#x", c.Args[0])
	case "fork", "vfork":
		return "process"
	case "setuid", "setgid", "setfsuid", "setfsgid":
		return fmt.Sprint(int32(c.Args[0]))
	case "setreuid", "setregid":
		return fmt.Sprint(int32(c.Args[0]), int32(c.Args[1]))
	case "setresuid", "setresgid":
		return fmt.Sprint(int32(c.Args[0]), int32(c.Args[1]), int32(c.Args[2]))
	case "process_vm_readv", "process_vm_writev":
		return fmt.Sprintf("process %d", int32(c.Args[0]))
	case "unshare":
		return fmt.Sprintf("flags %#x", c.Args[0])
	}
	return ""
}

func familyName(n uint64) string {
	name, ok := map[uint32]string{
		unix.AF_UNIX: "AF_UNIX", unix.AF_INET: "AF_INET", unix.AF_INET6: "AF_INET6", unix.AF_NETLINK: "AF_NETLINK", unix.AF_PACKET: "AF_PACKET",
		unix.AF_VSOCK: "AF_VSOCK", unix.AF_ALG: "AF_ALG",
	}[uint32(n)]
	if !ok {
		return fmt.Sprintf("AF_%d", uint32(n))
	}
	return name
}

func kindName(n uint64) string {
	name, ok := map[uint64]string{
		unix.SOCK_STREAM: "SOCK_STREAM", unix.SOCK_DGRAM: "SOCK_DGRAM", unix.SOCK_RAW: "SOCK_RAW", unix.SOCK_SEQPACKET: "SOCK_SEQPACKET",
	}[n&socketTypes]
	if !ok {
		return fmt.Sprintf("SOCK_%d", n&socketTypes)
	}
	return name
}

// Errno is what a call that a rule refuses fails with. An unknown name denies.
func Errno(r rules.Rule) unix.Errno {
	if e, ok := errnos[r.Errno]; ok {
		return e
	}
	return unix.EPERM
}

// errnos are those of the table.
var errnos = map[string]unix.Errno{"EPERM": unix.EPERM, "EACCES": unix.EACCES, "ENOENT": unix.ENOENT, "ENOSYS": unix.ENOSYS, "EAFNOSUPPORT": unix.EAFNOSUPPORT, "ENOSPC": unix.ENOSPC, "ENOMEM": unix.ENOMEM}

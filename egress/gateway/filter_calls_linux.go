package gateway

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A call is one system call that is permitted: if it has forms, in these only.
type call struct {
	nr    uint32
	forms [][]arg
}

// arg says what an argument is, apart from the bits that are free.
type arg struct {
	at         int
	free, want uint64
}

// goThread are the flags of Go's threads (runtime/os_linux.go, cloneFlags).
const goThread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD

// calls are those of Go's runtime, of sockets that connect, and of files that are read. There is no bind, listen or accept, nothing that writes to a file
// system, starts a program or signals another process, and no memory that is executed.
func calls() (list []call) {
	is := func(at int, want uint64) arg { return arg{at: at, want: want} }
	without := func(at int, bits uint64) arg { return arg{at: at, free: ^bits} }
	kind := func(want uint64) arg { return arg{1, unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC, want} }
	option := func(level, name uint64) []arg { return []arg{is(1, level), is(2, name)} }
	for _, nr := range append(ofHardware(),
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_CLOSE, unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_GETDENTS64, unix.SYS_READLINKAT,
		unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_GETTIMEOFDAY,
		unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETRANDOM, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETUID,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_PPOLL, unix.SYS_EVENTFD2, unix.SYS_PIPE2,
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
		unix.SYS_CONNECT, unix.SYS_SHUTDOWN, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT,
		unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG,
	) {
		list = append(list, call{nr: nr})
	}
	return append(
		list,
		call{unix.SYS_MMAP, [][]arg{{without(2, unix.PROT_EXEC)}}},
		call{unix.SYS_CLONE, [][]arg{{is(0, goThread)}, {is(0, goThread|unix.CLONE_SETTLS)}}}, // with it on amd64, runtime/sys_linux_amd64.s
		call{unix.SYS_TGKILL, [][]arg{{is(0, uint64(os.Getpid()))}}},
		call{unix.SYS_PRCTL, [][]arg{{is(0, unix.PR_SET_VMA)}}}, // names of memory, runtime/set_vma_name_linux.go
		call{unix.SYS_OPENAT, [][]arg{{without(2, unix.O_ACCMODE|unix.O_CREAT|unix.O_TRUNC|unix.O_APPEND|unix.O_TMPFILE&^unix.O_DIRECTORY)}}},
		call{unix.SYS_FCNTL, [][]arg{{is(1, unix.F_GETFL)}, {is(1, unix.F_SETFL)}, {is(1, unix.F_GETFD)}}},
		call{unix.SYS_SOCKET, [][]arg{
			{is(0, unix.AF_INET), kind(unix.SOCK_STREAM), is(2, 0)},
			{is(0, unix.AF_INET), kind(unix.SOCK_DGRAM), is(2, 0)},
			{is(0, unix.AF_INET6), kind(unix.SOCK_STREAM), is(2, 0)},
			{is(0, unix.AF_INET6), kind(unix.SOCK_DGRAM), is(2, 0)},
			{is(0, unix.AF_NETLINK), kind(unix.SOCK_RAW), is(2, unix.NETLINK_ROUTE)}, // the host's own addresses
		}},
		call{unix.SYS_SETSOCKOPT, [][]arg{ // what package net sets, and cut
			option(unix.SOL_SOCKET, unix.SO_LINGER), option(unix.SOL_SOCKET, unix.SO_KEEPALIVE), option(unix.SOL_SOCKET, unix.SO_BROADCAST), option(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY),
			option(unix.IPPROTO_TCP, unix.TCP_NODELAY), option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL), option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT),
		}},
	)
}

// fatal are calls that neither Go nor this program ever makes after its start, and that would get further.
var fatal = []uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_BPF, unix.SYS_IO_URING_SETUP, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
}

// Fields of struct seccomp_data (include/uapi/linux/seccomp.h); those that this reads are of a little-endian machine.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// program is the filter. A call that is not permitted is said to be not permitted; a fatal one ends the process.
func program() ([]bpf.RawInstruction, error) {
	load := func(off uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: off, Size: 4} }
	allow, refuse, kill := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}, bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}, bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	p := []bpf.Instruction{
		load(dataArch),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		kill,
		load(dataNr),
	}
	for _, nr := range fatal {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: 1}, kill)
	}
	for _, c := range calls() {
		var body []bpf.Instruction
		for _, form := range c.forms {
			var tests []bpf.Instruction
			for i, a := range form {
				left := 6*(len(form)-1-i) + 1 // the other arguments, and the verdict
				for half, skip := range []int{left + 3, left} {
					shift := 32 * half
					tests = append(tests, load(uint32(dataArgs+8*a.at+4*half)), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(^a.free >> shift)},
						bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(a.want >> shift), SkipTrue: uint8(skip)})
				}
			}
			body = append(append(body, tests...), allow)
		}
		verdict := refuse
		if c.forms == nil {
			verdict = allow
		}
		if body = append(body, verdict); len(body) > 255 {
			return nil, fmt.Errorf("filter of system call %d has %d instructions", c.nr, len(body))
		}
		p = append(append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: c.nr, SkipTrue: uint8(len(body))}), body...)
	}
	return bpf.Assemble(append(p, refuse))
}

// filter installs the filter in all threads, which must have been refused new privileges.
func filter() error {
	p, err := program()
	if err != nil {
		return fmt.Errorf("make filter of system calls: %w", err)
	}
	list := unix.SockFprog{Len: uint16(len(p)), Filter: (*unix.SockFilter)(unsafe.Pointer(&p[0]))} // the same four fields
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&list)))
	runtime.KeepAlive(p)
	switch {
	case errno != 0:
		return fmt.Errorf("install filter of system calls: %w", errno)
	case thread != 0:
		return fmt.Errorf("install filter of system calls: thread %d has another one", thread)
	}
	return nil
}

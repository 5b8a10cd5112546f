package main

import (
	"encoding/binary"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// step is one system call of a process in a user namespace of its own, in which it has all capabilities.
type step struct {
	what string
	nr   uintptr
	args [5]uintptr
}

func text(s string) uintptr {
	b := append([]byte(s), 0)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// kept are the strings that steps point to.
var kept [][]byte

func steps() []step {
	attr := make([]byte, 72) // union bpf_attr: a program without instructions
	rlimit := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 1<<40), 1<<40)
	address := append(binary.BigEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, unix.AF_INET), 80), 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0)
	handle := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, 8), 1)
	handle = append(handle, make([]byte, 8)...)
	kept = append(kept, attr, rlimit, address, handle)
	at := func(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
	tmpfs, proc, root := text("tmpfs"), text("proc"), text("/")
	here := uintptr(uint64(0xffffffffffffff9c)) // AT_FDCWD
	return []step{
		{"host name", unix.SYS_SETHOSTNAME, [5]uintptr{root, 1}},
		{"more files than allowed", unix.SYS_SETRLIMIT, [5]uintptr{unix.RLIMIT_NOFILE, at(rlimit)}},
		{"become root", unix.SYS_SETUID, [5]uintptr{0}},
		{"own mount namespace", unix.SYS_UNSHARE, [5]uintptr{unix.CLONE_NEWNS}},
		{"own tmpfs", unix.SYS_MOUNT, [5]uintptr{tmpfs, text("/a"), tmpfs, 0, 0}},
		{"a block device", unix.SYS_MKNOD, [5]uintptr{text("/a/sda"), unix.S_IFBLK | 0o600, 8 << 8}},
		{"proc", unix.SYS_MOUNT, [5]uintptr{proc, text("/a"), proc, 0, 0}},
		{"sysfs", unix.SYS_MOUNT, [5]uintptr{text("sysfs"), text("/a"), text("sysfs"), 0, 0}},
		{"root writable again", unix.SYS_MOUNT, [5]uintptr{tmpfs, root, 0, unix.MS_REMOUNT | unix.MS_BIND, 0}},
		{"below the root", unix.SYS_UMOUNT2, [5]uintptr{root, unix.MNT_DETACH}},
		{"a file of the host", unix.SYS_OPENAT, [5]uintptr{here, text("/etc/passwd"), unix.O_RDONLY}},
		{"a file by its handle", unix.SYS_OPEN_BY_HANDLE_AT, [5]uintptr{here, at(handle), 0}},
		{"own cgroup namespace", unix.SYS_UNSHARE, [5]uintptr{unix.CLONE_NEWCGROUP}},
		{"control groups", unix.SYS_MOUNT, [5]uintptr{text("cgroup2"), text("/a"), text("cgroup2"), 0, 0}},
		{"write to its control group", unix.SYS_OPENAT, [5]uintptr{here, text("/a/cgroup.procs"), unix.O_WRONLY}},
		{"make a control group", unix.SYS_MKDIR, [5]uintptr{text("/a/intruder"), 0o755}},
		{"own network namespace", unix.SYS_UNSHARE, [5]uintptr{unix.CLONE_NEWNET}},
		{"socket", unix.SYS_SOCKET, [5]uintptr{unix.AF_INET, unix.SOCK_DGRAM, 0}},
		{"the network", unix.SYS_CONNECT, [5]uintptr{socketFD, at(address), 16}},
		{"a BPF program", unix.SYS_BPF, [5]uintptr{unix.BPF_PROG_LOAD, at(attr), uintptr(len(attr))}},
		{"system log", unix.SYS_SYSLOG, [5]uintptr{3, root, 1}},
	}
}

// socketFD is where the socket of the steps will be: all below are taken by a copy of stdin.
const socketFD = 200

// nested makes a user namespace and tries the steps in it. It returns the error of each, or that of the namespace.
func nested() map[string]string {
	all := steps()
	results := make([]uintptr, len(all))
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&results[0])), len(results)*8)
	var pipe [2]int
	_ = unix.Pipe(pipe[:])
	for fd := range socketFD {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			_ = unix.Dup2(0, fd)
		}
	}
	runtime.LockOSThread()
	pid, errno := try(all, results, memory, pipe[1])
	seen := map[string]string{}
	if errno != 0 {
		seen["user namespace"] = errno.Error()
		return seen
	}
	_, _ = unix.Read(pipe[0], memory)
	_, _ = unix.Wait4(int(pid), nil, 0, nil)
	for i, s := range all {
		seen[s.what] = syscall.Errno(results[i]).Error()
		if results[i] == 0 {
			seen[s.what] = "done"
		}
	}
	return seen
}

// try forks. The child makes no call of the runtime, whose other threads it does not have.
//
//go:norace
func try(all []step, results []uintptr, memory []byte, to int) (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	for i := range all {
		a := &all[i].args
		_, _, errno := syscall.RawSyscall6(all[i].nr, a[0], a[1], a[2], a[3], a[4], 0)
		results[i] = uintptr(errno)
	}
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(to), uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory)))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

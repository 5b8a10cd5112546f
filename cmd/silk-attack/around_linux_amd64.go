package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// aroundAttacks make system calls by other entries, numbers and hands than usual: a policy that knows only the usual ones
// does not see them.
func aroundAttacks() map[string]attack {
	return map[string]attack{
		"compat":       compat,
		"x32":          x32,
		"unknown":      unknown,
		"trace-change": traceChange,
		"traced":       traced,
		"flood-read":   floodRead,
		"filter":       filter,
	}
}

// rawCompat makes a system call by the 32-bit entry; see raw_linux_amd64.s.
func rawCompat(nr uintptr) (result uintptr)

// compat asks for the process id by the 32-bit entry.
func compat([]string) {
	reached()
	if got := int32(rawCompat(20)); int(got) == os.Getpid() {
		effect("a 32-bit system call said that this is process", strconv.Itoa(int(got)))
		return
	}
	answer(unix.ENOSYS)
}

// x32 asks for the process id by the number that the x32 ABI has for it.
func x32([]string) {
	reached()
	pid, err := call(0x40000000 | unix.SYS_GETPID)
	if err == nil && int(pid) == os.Getpid() {
		effect("an x32 system call said that this is process", strconv.Itoa(int(pid)))
		return
	}
	answer(err)
}

// unknown makes calls that no kernel had when this was written.
func unknown([]string) {
	const bad = ^uintptr(0)
	last := error(unix.ENOSYS)
	reached()
	for _, part := range [][2]uintptr{{340, 423}, {500, 1100}} { // syscall_64.tbl has neither
		for nr := part[0]; nr < part[1]; nr++ {
			if _, err := call(nr, bad, bad, bad, bad, bad, bad); !errors.Is(err, unix.ENOSYS) {
				say("number", strconv.Itoa(int(nr)))
				last = err
			}
		}
	}
	answer(last)
}

// traceChange traces its child and turns a call of the child, which it has already begun, into another.
func traceChange([]string) {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"silk-attack", "traced"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Ptrace: true}})
	must("start a traced child", err)
	stopped := func() {
		var status unix.WaitStatus
		for {
			_, err := unix.Wait4(pid, &status, unix.WALL, nil)
			if err == unix.EINTR {
				continue
			}
			must("wait for the child", err)
			if !status.Stopped() {
				setup("the child has ended")
			}
			return
		}
	}
	stopped() // at its exec
	var regs unix.PtraceRegs
	for { // until it is about to ask for its parent, which Go's runtime never does
		must("let the child go on", unix.PtraceSyscall(pid, 0))
		stopped()
		must("read registers", unix.PtraceGetRegs(pid, &regs))
		if regs.Orig_rax == unix.SYS_GETPPID {
			break
		}
	}
	regs.Orig_rax, regs.Rdi, regs.Rsi, regs.Rdx = unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0
	must("write registers", unix.PtraceSetRegs(pid, &regs))
	reached()
	must("let the child go on", unix.PtraceSyscall(pid, 0))
	stopped()
	must("read registers", unix.PtraceGetRegs(pid, &regs))
	if result := int64(regs.Rax); result < 0 {
		answer(unix.Errno(-result))
	} else {
		effect("the child has descriptor", strconv.FormatInt(result, 10), "of", linkOf("/proc/"+strconv.Itoa(pid)+"/fd/"+strconv.FormatInt(result, 10)))
	}
	_ = unix.Kill(pid, unix.SIGKILL)
}

// traced is the child.
func traced([]string) {
	for {
		unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	}
}

// floodRead is refused very often, and then does what is forbidden: that must be seen all the same.
func floodRead(args []string) {
	name := [2]byte{'x'}
	for range 30000 {
		_, _ = call(unix.SYS_OPENAT2, atCwd, uintptr(unsafe.Pointer(&name)), 0, 0)
		if fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			_ = unix.Close(fd)
		}
	}
	read(unix.AT_FDCWD, args[0], unix.O_RDONLY)
}

// filter puts a filter of its own on system calls, one that says yes to everything, and then does what is forbidden.
func filter(args []string) {
	allow := unix.SockFilter{Code: 6, K: 0x7fff0000} // BPF_RET, SECCOMP_RET_ALLOW
	program := unix.SockFprog{Len: 1, Filter: &allow}
	_, err := call(unix.SYS_SECCOMP, 1, 0, uintptr(unsafe.Pointer(&program)))
	must("install a filter", err)
	read(unix.AT_FDCWD, args[0], unix.O_RDONLY)
}

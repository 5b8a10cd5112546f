package main

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// stay prepares to outlive the engine: it ignores what can be ignored and leaves a process that has left its parent,
// session and process group. The way "orphan" does no more. "init" also takes the parent-death signal away, and nobody
// waits for the end of the engine's socket.
func stay(way string) {
	signal.Ignore()
	if way == "init" {
		_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0, 0) // it is each thread's own
		must(errnoError(errno))
	}
	fork()
}

//go:norace
func fork() {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		must(errnoError(errno))
		// Until it has ended it would be a third process of the sandbox. SIGCHLD is ignored: there is nothing to reap.
		_, err := unix.Wait4(int(pid), nil, 0, nil)
		for err == unix.EINTR {
			_, err = unix.Wait4(int(pid), nil, 0, nil)
		}
		if err != unix.ECHILD {
			must(err)
		}
		return
	}
	if pid, _, _ := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); pid != 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	for {
		syscall.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
	}
}

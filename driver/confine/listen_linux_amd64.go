package confine

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// listenFlags: a caller whose question was taken waits for its answer whatever signals come. Else a signal would take the question back
// and the call would ask anew when it is restarted: a timer that fires more often than the answer takes would keep it for ever. What kills still
// kills. seccomp(2); Linux 5.19.
const listenFlags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// Listen sets a filter for the calling thread, which may have no new privileges, and returns the descriptor at which its questions are answered. It
// makes no other system call.
func Listen(filter []unix.SockFilter) (listener int, err error) {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, listenFlags, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

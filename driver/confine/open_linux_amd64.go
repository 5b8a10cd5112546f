package confine

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// opener opens files of /proc for a program, as the program's user and without any right beyond: in a thread of its own, which
// has another user for file systems than this process, and ends with it. What it opens is what was judged, whoever changes names
// meanwhile; and since the program itself may open nothing in /proc, there is no other way to it.
type opener struct {
	asked   chan question
	stopped chan struct{}
}

type question struct {
	root   Root
	path   string // resolved
	flags  uint64
	answer chan<- opened
}

type opened struct {
	fd    int
	errno unix.Errno
}

func startOpener() *opener {
	o := &opener{asked: make(chan question), stopped: make(chan struct{})}
	go o.run()
	return o
}

func (o *opener) close() {
	close(o.asked)
	<-o.stopped
}

func (o *opener) run() {
	defer close(o.stopped)
	runtime.LockOSThread() // and never unlock it: the thread ends with this function
	failed := becomeUser()
	for q := range o.asked {
		if failed != 0 {
			q.answer <- opened{-1, unix.EACCES}
			continue
		}
		fd, err := q.root.named(q.path, q.flags&(unix.O_ACCMODE|unix.O_APPEND|unix.O_NONBLOCK|unix.O_DIRECTORY)|unix.O_NOCTTY)
		errno, _ := err.(unix.Errno) //nolint:errorlint // of the call itself
		if err != nil && errno == 0 {
			errno = unix.EACCES
		}
		q.answer <- opened{fd, errno}
	}
}

// becomeUser lets this thread, and no other, be the program's user for file systems, without capabilities. Its other ids
// stay: nobody of that user may signal this process.
func becomeUser() unix.Errno {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return errno
	}
	unix.RawSyscall(unix.SYS_SETFSGID, User, 0, 0) // they answer with what was before: setfsuid(2)
	unix.RawSyscall(unix.SYS_SETFSUID, User, 0, 0)
	const nobody = ^uintptr(0)
	if now, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, nobody, 0, 0); now != User {
		return unix.EPERM
	}
	if now, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, nobody, 0, 0); now != User {
		return unix.EPERM
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	return errno
}

// notifyAddFD is SECCOMP_IOCTL_NOTIF_ADDFD, seccomp_unotify(2). It does not answer as well (SECCOMP_ADDFD_FLAG_SEND): one that a signal interrupts would count as
// the answer, without a descriptor, and the call would return 0. The caller waits for no signal but its end in between (listenFlags).
const notifyAddFD = 0x40182103

// give opens a file for the caller of a call and puts it among its descriptors: the number there is what the call is to return.
func (s *Supervisor) give(id uint64, path string, flags uint64) (number uintptr, errno unix.Errno) {
	answer := make(chan opened, 1)
	s.opener.asked <- question{s.to.Root, path, flags, answer}
	got := <-answer
	if got.errno != 0 {
		return 0, got.errno
	}
	defer unix.Close(got.fd)
	add := struct { // struct seccomp_notif_addfd
		id                                  uint64
		flags, source, target, targetsFlags uint32
	}{id: id, source: uint32(got.fd), targetsFlags: uint32(flags & unix.O_CLOEXEC)}
	for {
		number, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(s.to.Listener), notifyAddFD, uintptr(unsafe.Pointer(&add)))
		if errno != unix.EINTR || s.closing.Load() { // then it has not been added
			return number, errno
		}
	}
}

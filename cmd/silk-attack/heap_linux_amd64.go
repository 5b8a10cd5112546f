package main

import (
	"encoding/binary"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// heapAttacks let the kernel keep things for them until it does not: what takes no memory of the program's own.
func heapAttacks() map[string]attack {
	return map[string]attack{
		"attributes": attributes,
		"symlinks":   symlinks,
		"locks":      locks,
		"mappings":   mappings,
		"signals":    signals,
		"in-flight":  inFlight,
		"messages":   messages,
		"events":     events,
	}
}

// until does something up to n times, until the kernel refuses.
func until(n int, do func(i int) error) {
	reached()
	for i := range n {
		if err := do(i); err != nil {
			say("stopped at", strconv.Itoa(i))
			answer(err)
			return
		}
	}
	answer(nil)
}

// attributes gives a file extended attributes, of 60 KiB each.
func attributes([]string) {
	put("/tmp/file", nil, 0o600)
	value := make([]byte, 60<<10)
	until(20000, func(i int) error { return unix.Setxattr("/tmp/file", "user."+strconv.Itoa(i), value, 0) })
}

// symlinks makes links that lead to very long names.
func symlinks([]string) {
	target := strings.Repeat("x", 4090)
	until(60000, func(i int) error { return unix.Symlink(target, "/tmp/"+strconv.Itoa(i)) })
}

// locks locks every other byte of a file.
func locks([]string) {
	fd, err := unix.Open("/tmp/file", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	must("make a file", err)
	until(20000, func(i int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(2 * i), Len: 1})
	})
}

// mappings changes every other page, so that each is a mapping of its own.
func mappings([]string) {
	const n = 60000
	b, err := unix.MmapPtr(-1, 0, nil, 2*n*4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	must("reserve addresses", err)
	until(n, func(i int) error {
		_, err := call(unix.SYS_MPROTECT, uintptr(unsafe.Add(b, 2*i*4096)), 4096, unix.PROT_READ)
		return err
	})
}

// signals sends itself real-time signals, which queue, and does not take them.
func signals([]string) {
	blocked := uint64(1) << (40 - 1)
	_, err := call(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&blocked)), 0, 8)
	must("block a signal", err)
	var info [128]byte                                  // siginfo_t, sigaction(2)
	binary.LittleEndian.PutUint32(info[8:], ^uint32(0)) // si_code: SI_QUEUE
	until(100000, func(int) error {
		_, err := call(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(unix.Getpid()), uintptr(unix.Gettid()), 40, uintptr(unsafe.Pointer(&info)))
		return err
	})
}

// inFlight sends descriptors to itself, 250 at a time, and does not take them.
func inFlight([]string) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must("make sockets", err)
	many := make([]int, 250)
	for i := range many {
		many[i] = fds[1]
	}
	rights := unix.UnixRights(many...)
	at := fds[0]
	until(20000, func(i int) error {
		err := unix.Sendmsg(at, []byte("x"), rights, nil, 0)
		if err == unix.EAGAIN {
			next, pairErr := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			at, err = next[0], pairErr
		}
		return err
	})
}

// messages fills System V queues.
func messages([]string) {
	message := make([]byte, 8+8192)
	message[0] = 1 // its type
	until(10000, func(int) error {
		id, err := call(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		_, err = call(unix.SYS_MSGSND, id, uintptr(unsafe.Pointer(&message[0])), 8192, unix.IPC_NOWAIT)
		return err
	})
}

// events watches two files and changes them by turns, and reads no event.
func events([]string) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	must("watch", err)
	_, err = unix.InotifyAddWatch(fd, "/tmp", unix.IN_ALL_EVENTS)
	must("watch", err)
	var files [2]int
	for i := range files {
		files[i], err = unix.Open("/tmp/file"+strconv.Itoa(i), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		must("make a file", err)
	}
	until(50000, func(i int) error { _, err := unix.Pwrite(files[i%2], []byte("x"), 0); return err })
}

package main

import (
	"errors"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Races change something while another thread lets the kernel look at it. Each has a number of rounds, in which an
// innocent file or a forbidden one may be meant. The effect is that the forbidden one was read; a run in which the
// forbidden one was never even tried has proved nothing and says so.
func raceAttacks() map[string]attack {
	return map[string]attack{
		"race-link":    raceLink,
		"race-name":    raceName,
		"race-shared":  raceShared,
		"flip":         flip,
		"race-dir":     raceDir,
		"race-dirfd":   raceDirfd,
		"race-cwd":     raceCwd,
		"race-creat":   raceCreat,
		"race-exec":    raceExec,
		"race-address": raceAddress,
		"race-message": raceMessage,
		"race-fd":      raceFD,
	}
}

const innocent = "innocent"

// patience is how many times its rounds a race goes on for until both files have been met: on a busy machine the other
// thread may have to wait for a processor.
const patience = 100

// race opens with open again and again while change runs in another thread.
func race(rounds int, change func(round int), open func() (int, error)) {
	runtime.GOMAXPROCS(4) // however few the sandbox shows
	put(innocent, []byte(innocent), 0o644)
	var over atomic.Bool
	changed := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(changed)
		for i := 0; !over.Load(); i++ {
			change(i)
		}
	}()
	var refusal error
	opened, refused := 0, 0
	var b [64]byte
	reached()
	for i := 0; i < rounds || (opened == 0 || refused == 0) && i < patience*rounds; i++ {
		fd, err := open()
		if err != nil {
			if !errors.Is(err, unix.ENOENT) { // a moment between two changes
				refusal = err
				refused++
			}
			continue
		}
		n, err := unix.Read(fd, b[:])
		if err == nil && n > 0 && string(b[:n]) != innocent {
			effect("read", quote(b[:n]))
			over.Store(true)
			<-changed
			return
		}
		opened++
		_ = unix.Close(fd)
	}
	over.Store(true)
	<-changed
	if opened == 0 || refused == 0 {
		setup("no race:", strconv.Itoa(opened), "rounds met the innocent file,", strconv.Itoa(refused), "the other")
	}
	answer(refusal)
}

func openFile(name string) func() (int, error) {
	return func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) }
}

// raceLink swaps the link that is being opened.
func raceLink(args []string) {
	race(number(args[0]), func(i int) {
		target := innocent
		if i%2 == 1 {
			target = args[1]
		}
		if unix.Symlink(target, "l.new") == nil {
			_ = unix.Rename("l.new", "l")
		}
	}, openFile("l"))
}

// raceName rewrites the name that is being opened: one byte of it, so that it is always whole.
func raceName(args []string) {
	makeLink(innocent, "a")
	makeLink(args[1], "b")
	name := []byte("a\x00")
	race(number(args[0]), func(i int) { name[0] = "ab"[i%2] }, func() (int, error) { return openAt(&name[0]) })
}

func openAt(name *byte) (int, error) {
	fd, err := call(unix.SYS_OPENAT, atCwd, uintptr(unsafe.Pointer(name)), unix.O_RDONLY|unix.O_CLOEXEC)
	return int(fd), err
}

// raceShared has the name in memory that another process rewrites.
func raceShared(args []string) {
	makeLink(innocent, "a")
	makeLink(args[1], "b")
	name := sharedPage()
	name[0] = 'a'
	pid := start([]string{"flip"}, nil)
	race(number(args[0]), func(int) { runtime.Gosched() }, func() (int, error) { return openAt(&name[0]) })
	_ = unix.Kill(pid, unix.SIGKILL)
}

// sharedPage is a page that all who call this share.
func sharedPage() []byte {
	fd, err := unix.Open("/dev/shm/page", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	must("make a shared page", err)
	must("make a shared page", unix.Ftruncate(fd, 4096))
	b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must("map a shared page", err)
	return b
}

// flip is the other process of raceShared.
func flip([]string) {
	word := (*uint32)(unsafe.Pointer(&sharedPage()[0]))
	for i := uint32(0); ; i++ {
		atomic.StoreUint32(word, 'a'+i%2)
	}
}

// raceDir swaps a directory on the way for a link to another.
func raceDir(args []string) {
	dir, base := path.Split(args[1])
	must("make a directory", unix.Mkdir("own", 0o755))
	put("own/"+base, []byte(innocent), 0o644)
	makeLink("own", "a")
	makeLink(path.Clean(dir), "b")
	race(number(args[0]), func(int) {
		if unix.Renameat2(unix.AT_FDCWD, "a", unix.AT_FDCWD, "b", unix.RENAME_EXCHANGE) != nil {
			_ = unix.Rename("a", "t")
			_ = unix.Rename("b", "a")
			_ = unix.Rename("t", "b")
		}
	}, openFile("a/"+base))
}

// raceDirfd puts another directory behind the descriptor that a name is opened at.
func raceDirfd(args []string) {
	dir, base := path.Split(args[1])
	put(base, []byte(innocent), 0o644)
	own, other := directory(".", unix.O_RDONLY|unix.O_DIRECTORY), directory(path.Clean(dir), unix.O_RDONLY|unix.O_DIRECTORY)
	at, err := unix.Dup(own)
	must("copy a descriptor", err)
	race(number(args[0]), func(i int) { _ = unix.Dup3([]int{own, other}[i%2], at, unix.O_CLOEXEC) },
		func() (int, error) { return unix.Openat(at, base, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
}

// raceCwd changes the working directory, which threads share.
func raceCwd(args []string) {
	dir, base := path.Split(args[1])
	put(base, []byte(innocent), 0o644)
	own, other := directory(".", unix.O_RDONLY|unix.O_DIRECTORY), directory(path.Clean(dir), unix.O_RDONLY|unix.O_DIRECTORY)
	race(number(args[0]), func(i int) { _ = unix.Fchdir([]int{own, other}[i%2]) }, openFile(base))
}

// raceFD opens a descriptor again while it is replaced by one of a directory that leads elsewhere.
func raceFD(args []string) {
	dir, base := path.Split(args[1])
	must("make a directory", unix.Mkdir("own", 0o755))
	put("own/"+base, []byte(innocent), 0o644)
	own, other := directory("own", unix.O_PATH), directory(path.Clean(dir), unix.O_PATH)
	at, err := unix.Dup(own)
	must("copy a descriptor", err)
	race(number(args[0]), func(i int) { _ = unix.Dup3([]int{own, other}[i%2], at, unix.O_CLOEXEC) }, openFile("/proc/self/fd/"+strconv.Itoa(at)+"/"+base))
}

// raceCreat makes a file through a link that is swapped.
func raceCreat(args []string) {
	makeLink(innocent, "l")
	race(number(args[0]), func(i int) {
		target := innocent
		if i%2 == 1 {
			target = args[1]
		}
		if unix.Symlink(target, "l.new") == nil {
			_ = unix.Rename("l.new", "l")
		}
	}, func() (int, error) { return unix.Open("l", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644) })
}

// raceExec executes through a link that leads to this program, and to one that may not be executed. In /tmp that is a copy
// of this one.
func raceExec(args []string) {
	runtime.GOMAXPROCS(4)
	target := args[1]
	if strings.HasPrefix(target, "/tmp/") {
		put(target, self(), 0o755)
	}
	var over atomic.Bool
	changed := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(changed)
		for i := 0; !over.Load(); i++ {
			if unix.Symlink([]string{"/proc/self/exe", target}[i%2], "l.new") == nil {
				_ = unix.Rename("l.new", "l")
			}
		}
	}()
	var refusal error
	started := 0
	reached()
	rounds := number(args[0])
	for i := 0; i < rounds || (started == 0 || refusal == nil) && i < patience*rounds; i++ {
		pid, err := forkExec("l", []string{"silk-attack", "ran-from", target}, nil)
		if err != nil {
			if !errors.Is(err, unix.ENOENT) {
				refusal = err
			}
			continue
		}
		started++
		if wait(pid) == won { // it has said so
			over.Store(true)
			<-changed
			return
		}
	}
	over.Store(true)
	<-changed
	if started == 0 || refusal == nil {
		setup("no race:", strconv.Itoa(started), "programs were started")
	}
	answer(refusal)
}

// raceAddress changes the address that is being connected to: 127.0.0.1 and 126.0.0.1 differ in one byte.
func raceAddress(args []string) {
	runtime.GOMAXPROCS(4)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must("make a socket", err)
	address := [4]uint32{0: unix.AF_INET | 9<<24, 1: 127 | 1<<24} // struct sockaddr_in, port 9, ip(7)
	go func() {
		runtime.LockOSThread()
		for i := uint32(0); ; i++ {
			atomic.StoreUint32(&address[1], 126+i%2|1<<24)
		}
	}()
	rounds := number(args[0])
	var last error
	reached()
	for i := 0; i < rounds || last == nil && i < patience*rounds; i++ {
		if _, err := call(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&address)), 16); err != nil {
			last = err
		}
		if peer, perr := unix.Getpeername(fd); perr == nil {
			if in4, ok := peer.(*unix.SockaddrInet4); ok && in4.Addr[0] == 126 {
				effect("connected to 126.0.0.1")
				return
			}
		}
	}
	answer(last)
}

// raceMessage changes where a message header says its address is.
func raceMessage(args []string) {
	runtime.GOMAXPROCS(4)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must("make a socket", err)
	text := []byte("x")
	vector := unix.Iovec{Base: &text[0], Len: 1}
	addresses := [2][16]byte{{0: unix.AF_INET, 3: 9, 4: 127, 7: 1}, {0: unix.AF_INET, 3: 9, 4: 126, 7: 1}}
	header := unix.Msghdr{Name: &addresses[0][0], Namelen: 16, Iov: &vector, Iovlen: 1}
	go func() {
		runtime.LockOSThread()
		for i := 0; ; i++ {
			header.Name = &addresses[i%2][0]
		}
	}()
	rounds := number(args[0])
	var last error
	reached()
	for i := 0; i < rounds || last == nil && i < patience*rounds; i++ {
		if _, err := call(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&header)), 0); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
			last = err
		}
	}
	answer(last)
}

// won is the exit status of a program that should not have been executed.
const won = 7

// ranFrom is what a program says that raceExec has started.
func ranFrom(args []string) {
	if linkOf("/proc/self/exe") == args[0] {
		effect("executed", args[0])
		unix.Exit(won)
	}
}

package main

import (
	"bytes"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func fileAttacks() map[string]attack {
	return map[string]attack{
		"read":       func(args []string) { read(unix.AT_FDCWD, args[0], unix.O_RDONLY) },
		"read-at":    func(args []string) { read(directory(args[0], unix.O_RDONLY|unix.O_DIRECTORY), args[1], unix.O_RDONLY) },
		"read-path":  func(args []string) { read(directory(args[0], unix.O_PATH), args[1], unix.O_RDONLY) },
		"open":       func(args []string) { open(args[1], flagsOf(args[0])) },
		"open-by":    openBy,
		"reopen":     reopen,
		"list":       list,
		"write":      write,
		"truncate":   truncate,
		"set":        set,
		"make":       makeAt,
		"stat":       stat,
		"handle":     handle,
		"handle-own": handleOwn,
		"keep":       keep,
		"keep-at":    keepAt,
		"anonymous":  anonymous,
	}
}

// read opens a file and reads from it: the evidence is its bytes.
func read(dir int, name string, flags int) {
	reached()
	fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		answer(err)
		return
	}
	said(fd, name)
}

// said reads from fd and says what it got.
func said(fd int, name string) {
	var b [256]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		answer(err)
		return
	}
	effect("read", strconv.Itoa(n), "bytes of", name+":", quote(b[:n]))
}

// directory opens a directory that may be opened.
func directory(name string, flags int) int {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
	must("open "+name, err)
	return fd
}

// flagsOf reads flags of open(2), separated by commas, such as "wronly,creat".
func flagsOf(text string) (flags int) {
	known := map[string]int{
		"rdonly": unix.O_RDONLY, "wronly": unix.O_WRONLY, "rdwr": unix.O_RDWR, "creat": unix.O_CREAT, "excl": unix.O_EXCL, "trunc": unix.O_TRUNC,
		"append": unix.O_APPEND, "path": unix.O_PATH, "directory": unix.O_DIRECTORY, "nofollow": unix.O_NOFOLLOW, "tmpfile": unix.O_TMPFILE,
		"nonblock": unix.O_NONBLOCK,
	}
	for word := range strings.SplitSeq(text, ",") {
		flag, ok := known[word]
		if !ok {
			setup("no flag is called", word)
		}
		flags |= flag
	}
	return flags
}

// open opens a file: the evidence is the descriptor and what it is of.
func open(name string, flags int) {
	reached()
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o666)
	if err != nil {
		answer(err)
		return
	}
	have(fd)
}

// have says of what a descriptor is.
func have(fd int) {
	var st unix.Stat_t
	must("stat the descriptor", unix.Fstat(fd, &st))
	effect("have a descriptor of", linkOf("/proc/self/fd/"+strconv.Itoa(fd)), "size", strconv.FormatInt(st.Size, 10), "mode", strconv.FormatUint(uint64(st.Mode), 8))
}

func linkOf(name string) string {
	var b [4096]byte
	n, err := unix.Readlink(name, b[:])
	if err != nil {
		return "?"
	}
	return string(b[:n])
}

// openBy opens a file with another system call than openat.
func openBy(args []string) {
	name, err := unix.BytePtrFromString(args[1])
	must("name", err)
	var fd uintptr
	reached()
	switch args[0] {
	case "open":
		fd, err = call(unix.SYS_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDONLY)
	case "creat":
		fd, err = call(unix.SYS_CREAT, uintptr(unsafe.Pointer(name)), 0o666)
	case "openat2":
		how := unix.OpenHow{Flags: unix.O_RDONLY}
		fd, err = call(unix.SYS_OPENAT2, atCwd, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how))
		runtime.KeepAlive(&how)
	case "uselib":
		_, err = call(unix.SYS_USELIB, uintptr(unsafe.Pointer(name)))
	default:
		setup("no call", args[0])
	}
	runtime.KeepAlive(name)
	if err != nil {
		answer(err)
		return
	}
	have(int(fd))
}

// atCwd is AT_FDCWD as an argument of a raw system call.
const atCwd = ^uintptr(99)

// reopen gets a descriptor that only names the file and opens that for reading.
func reopen(args []string) {
	reached()
	fd, err := unix.Open(args[0], unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		answer(err)
		return
	}
	read(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY)
}

// list opens a directory and reads its names.
func list(args []string) {
	reached()
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		answer(err)
		return
	}
	found := namesIn(fd)
	effect("listed", strconv.Itoa(len(found)), "names:", quote([]byte(strings.Join(found, " "))))
}

// names are the entries of a directory that may be listed.
func names(dir string) []string { return namesIn(directory(dir, unix.O_RDONLY|unix.O_DIRECTORY)) }

func namesIn(fd int) (found []string) {
	b := make([]byte, 8192)
	for {
		n, err := unix.Getdents(fd, b)
		must("read a directory", err)
		if n == 0 {
			return found
		}
		_, _, found = unix.ParseDirent(b[:n], -1, found)
	}
}

// write makes a file and reads back what it wrote.
func write(args []string) {
	const text = "written by an attack"
	reached()
	fd, err := unix.Open(args[0], unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o666)
	if err != nil {
		answer(err)
		return
	}
	if _, err = unix.Write(fd, []byte(text)); err != nil {
		answer(err)
		return
	}
	back, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		answer(err)
		return
	}
	b := make([]byte, 64)
	n, err := unix.Read(back, b)
	if err == nil && bytes.HasPrefix(b[:n], []byte(text)) {
		effect("wrote", args[0], "and read it back")
		return
	}
	answer(err)
}

// set writes a setting into a file of the kernel's. The effect is that it reads otherwise then.
func set(args []string) {
	before := lines(args[0])
	fd, err := unix.Open(args[0], unix.O_WRONLY|unix.O_CLOEXEC, 0)
	reached()
	if err == nil {
		_, err = unix.Write(fd, []byte(args[1]))
	}
	if after := lines(args[0]); strings.Join(after, "\n") != strings.Join(before, "\n") {
		effect(args[0], "was", quote([]byte(strings.Join(before, " "))), "and is", quote([]byte(strings.Join(after, " "))))
		return
	}
	answer(err)
}

// truncate makes a file empty by its name.
func truncate(args []string) {
	var before, after unix.Stat_t
	known := unix.Stat(args[0], &before) == nil
	reached()
	err := unix.Truncate(args[0], 0)
	if known && before.Size != 0 && unix.Stat(args[0], &after) == nil && after.Size == 0 {
		effect(args[0], "is empty")
		return
	}
	answer(err)
}

// makeAt makes, removes or renames something where nothing may be changed.
func makeAt(args []string) {
	how, name := args[0], args[1]
	var st unix.Stat_t
	var err error
	reached()
	switch how {
	case "dir":
		err = unix.Mkdir(name, 0o777)
	case "link":
		err = unix.Symlink("/workspace", name)
	case "fifo":
		err = unix.Mkfifo(name, 0o666)
	case "remove":
		err = unix.Unlink(name)
	case "move":
		err = unix.Rename(name, "/workspace/moved")
	case "mode":
		err = unix.Chmod(name, 0o777)
	case "owner":
		err = unix.Chown(name, 0, 0)
	default:
		setup("no way to make", how)
	}
	if err != nil {
		answer(err)
		return
	}
	there := unix.Lstat(name, &st) == nil
	switch how {
	case "remove", "move":
		if !there {
			effect(name, "is gone")
			return
		}
	case "mode":
		if st.Mode&0o777 == 0o777 {
			effect(name, "has another mode")
			return
		}
	case "owner":
		if st.Uid == 0 {
			effect(name, "has another owner")
			return
		}
	default:
		if there {
			effect(name, "is there")
			return
		}
	}
	answer(nil)
}

// stat asks for a file's size. It is an ordinary act, also for a file that may not be opened.
func stat(args []string) {
	var st unix.Stat_t
	reached()
	answer(unix.Stat(args[0], &st))
}

// handle names a file by a handle instead of a path, as two calls can.
func handle(args []string) {
	reached()
	h, mount, err := unix.NameToHandleAt(unix.AT_FDCWD, args[0], 0)
	if err != nil {
		answer(err)
		return
	}
	effect("have a handle of", args[0], "of", strconv.Itoa(h.Size()), "bytes on mount", strconv.Itoa(mount))
}

// handleOwn opens a handle that was made up, as who guesses inode numbers does.
func handleOwn(args []string) {
	mount := directory("/", unix.O_RDONLY|unix.O_DIRECTORY)
	reached()
	fd, err := unix.OpenByHandleAt(mount, unix.NewFileHandle(1, []byte{36, 0, 0, 0, 0, 0, 0, 0}), unix.O_RDONLY)
	if err != nil {
		answer(err)
		return
	}
	have(fd)
}

// keep writes a file in a place of its own and reads it back: the ordinary act that allow rules are about.
func keep(args []string) {
	name := args[0] + "/kept"
	write([]string{name})
}

// keepAt does so at a path whose directories it makes.
func keepAt(args []string) {
	for i, c := range args[0] {
		if c == '/' && i > 0 {
			_ = unix.Mkdir(args[0][:i], 0o777) // that one is missing shows when the file is made
		}
	}
	write(args)
}

// anonymous opens again, through /proc/self/fd, things that have no path: a pipe, an eventfd's like, a memfd.
func anonymous(args []string) {
	var fds [2]int
	switch args[0] {
	case "pipe":
		must("make a pipe", unix.Pipe2(fds[:], unix.O_CLOEXEC))
		_, err := unix.Write(fds[1], []byte("through the pipe"))
		must("write to a pipe", err)
	case "memfd":
		fd, err := unix.MemfdCreate("attack", unix.MFD_CLOEXEC)
		must("make a memfd", err)
		_, err = unix.Write(fd, []byte("through the memfd"))
		must("write to a memfd", err)
		fds[0] = fd
	default:
		setup("nothing is called", args[0])
	}
	read(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fds[0]), unix.O_RDONLY)
}

package main

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func execAttacks() map[string]attack {
	return map[string]attack{
		"exec":        func(args []string) { reached(); exec(args[0]) },
		"exec-link":   func(args []string) { makeLink(args[0], "l"); reached(); exec("l") },
		"exec-fd":     execFD,
		"exec-script": execScript,
		"exec-elf":    execELF,
		"exec-copy":   execCopy,
		"exec-memfd":  execMemfd,
		"exec-opened": execOpened,
		"exec-setuid": execSetuid,
		"map-exec":    mapExec,
		"ran":         ran,
		"ran-from":    ranFrom,
	}
}

// exec replaces this process by a program that says "EFFECT: ..." (see ran) if it is ours.
func exec(name string) {
	answer(syscall.Exec(name, []string{"silk-attack", "ran", name}, []string{}))
}

// ran is what a program that was executed says.
func ran(args []string) {
	effect("executed", args[0], "as", linkOf("/proc/self/exe"), "with uid", strconv.Itoa(unix.Geteuid()))
}

// forkExec starts a program.
func forkExec(name string, argv, env []string) (int, error) {
	return syscall.ForkExec(name, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}})
}

// execFD executes a descriptor that only names the file.
func execFD(args []string) {
	reached()
	fd, err := unix.Open(args[0], unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		answer(err)
		return
	}
	answer(execveat(fd, "", unix.AT_EMPTY_PATH))
}

func execveat(dir int, name string, flags int) error {
	path, err := unix.BytePtrFromString(name)
	must("name", err)
	argv, err := syscall.SlicePtrFromStrings([]string{"silk-attack", "ran", "descriptor " + strconv.Itoa(dir)})
	must("arguments", err)
	envv := []*byte{nil}
	_, err = call(unix.SYS_EXECVEAT, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])), uintptr(flags))
	return err
}

// execScript executes a script whose interpreter is the file.
func execScript(args []string) {
	put("script", []byte("#!"+args[0]+"\n"), 0o755)
	reached()
	exec("script")
}

// execELF executes a program whose dynamic loader is the file.
func execELF(args []string) {
	put("program", elfWithLoader(args[0]), 0o755)
	reached()
	exec("program")
}

// elfWithLoader is the smallest ELF executable (elf(5)) that asks for a loader.
func elfWithLoader(loader string) []byte {
	const header, segment, base = 64, 56, 0x400000
	le := func(b []byte, values ...any) []byte {
		for _, v := range values {
			switch v := v.(type) {
			case uint16:
				b = append(b, byte(v), byte(v>>8))
			case uint32:
				b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
			case uint64:
				for i := range 8 {
					b = append(b, byte(v>>(8*i)))
				}
			}
		}
		return b
	}
	at, size := uint64(header+2*segment), uint64(len(loader)+1)
	b := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	b = le(b, uint16(2), uint16(62), uint32(1), base+at+size, uint64(header), uint64(0), uint32(0), uint16(header), uint16(segment), uint16(2), uint16(0), uint16(0), uint16(0))
	b = le(b, uint32(3), uint32(4), at, base+at, base+at, size, size, uint64(1))                                   // PT_INTERP
	b = le(b, uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), at+size+16, at+size+16, uint64(0x1000)) // PT_LOAD
	b = append(append(b, loader...), 0)
	return append(b, make([]byte, 16)...)
}

// put makes a file in a place that may be written to.
func put(name string, content []byte, mode uint32) {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, mode)
	must("make "+name, err)
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		must("write "+name, err)
		content = content[n:]
	}
	must("close "+name, unix.Close(fd))
}

// self is this program's own bytes.
func self() []byte {
	b, err := os.ReadFile("/proc/self/exe")
	must("read this program", err)
	return b
}

// execCopy executes a copy of this program in a directory.
func execCopy(args []string) {
	name := args[0] + "/copy"
	put(name, self(), 0o755)
	reached()
	exec(name)
}

// execOpened executes a copy of this program in a directory by a descriptor that is open for reading.
func execOpened(args []string) {
	name := args[0] + "/copy"
	put(name, self(), 0o755)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must("open "+name, err)
	reached()
	answer(execveat(fd, "", unix.AT_EMPTY_PATH))
}

// execMemfd executes a copy of this program that has no name.
func execMemfd([]string) {
	fd, err := unix.MemfdCreate("attack", 0)
	must("make a memfd", err)
	for b := self(); len(b) > 0; {
		n, err := unix.Write(fd, b)
		must("write a memfd", err)
		b = b[n:]
	}
	reached()
	answer(execveat(fd, "", unix.AT_EMPTY_PATH))
}

// execSetuid gives a copy of this program the set-user-id bit and executes it. Being somebody else then is the effect.
func execSetuid([]string) {
	put("copy", self(), 0o755)
	reached()
	if err := unix.Chmod("copy", 0o6755); err != nil {
		answer(err)
		return
	}
	if err := unix.Chown("copy", 0, 0); err != nil {
		answer(err)
		return
	}
	exec("copy")
}

// mapExec maps a file of a directory to be executed: the way around noexec.
func mapExec(args []string) {
	name := args[0] + "/code"
	put(name, []byte{0xb8, 42, 0, 0, 0, 0xc3}, 0o755) // mov eax, 42; ret
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must("open "+name, err)
	reached()
	var b []byte
	if len(args) > 1 { // later
		if b, err = unix.Mmap(fd, 0, 6, unix.PROT_READ, unix.MAP_PRIVATE); err == nil {
			err = unix.Mprotect(b, unix.PROT_READ|unix.PROT_EXEC)
		}
	} else {
		b, err = unix.Mmap(fd, 0, 6, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	}
	if err != nil {
		answer(err)
		return
	}
	effect("mapped", name, "to be executed:", quote(b))
}

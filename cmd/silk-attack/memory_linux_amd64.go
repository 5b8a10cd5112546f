package main

import (
	"errors"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

func memoryAttacks() map[string]attack {
	return map[string]attack{
		"memory":      func([]string) { reached(); fillMemory(1 << 40); effect("no limit of memory") },
		"memory-many": memoryMany,
		"memfd":       fillMemfd,
		"shared":      sharedMemory,
		"fill":        fill,
		"page-tables": pageTables,
		"lock":        lock,
		"reserve":     reserve,
		"null-page":   nullPage,
		"fallocate":   fallocate,
		"mincore":     mincore,
		"buffers":     buffers,
		"pipes":       pipes,
		"sparse":      sparse,
	}
}

// fillMemory uses memory, page by page, until it has that much or is ended.
func fillMemory(bytes int) {
	const step = 8 << 20
	for n := 0; n < bytes; n += step {
		b, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			answer(err)
			return
		}
		for i := 0; i < step; i += 4096 {
			b[i] = 1
		}
	}
}

// memoryMany lets many children use a little each.
func memoryMany(args []string) {
	if len(args) == 1 { // a child
		fillMemory(number(args[0]))
		pause()
	}
	reached()
	for range 30 {
		_, err := forkExec("/proc/self/exe", []string{"silk-attack", "memory-many", strconv.Itoa(32 << 20)}, nil)
		if errors.Is(err, unix.EAGAIN) {
			break // as many as there may be; a few of them have more memory than there is
		}
		must("start a child", err)
	}
	pause()
}

// fillMemfd writes to a file that only memory holds.
func fillMemfd([]string) {
	fd, err := unix.MemfdCreate("attack", unix.MFD_CLOEXEC)
	must("make a memfd", err)
	b := make([]byte, 1<<20)
	reached()
	for range 1 << 14 {
		if _, err := unix.Write(fd, b); err != nil {
			answer(err)
			return
		}
	}
	effect("wrote 16 GiB of memory")
}

// sharedMemory uses a System V segment.
func sharedMemory([]string) {
	const size = 1 << 30
	reached()
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
	if err != nil {
		answer(err)
		return
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		answer(err)
		return
	}
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	effect("used a gigabyte of shared memory")
}

// fill writes to a file until it is refused; it says so if that much could be written.
func fill(args []string) {
	fd, err := unix.Open(args[0]+"/full", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	must("make a file", err)
	b := make([]byte, 1<<20)
	reached()
	for range number(args[1]) {
		if _, err := unix.Write(fd, b); err != nil {
			answer(err)
			return
		}
	}
	_, _ = unix.Ppoll(nil, &unix.Timespec{Sec: 1}, nil) // memory may be counted some times a second; the files are there as long as it takes
	effect("wrote", args[1], "MiB to", args[0])
}

// pageTables touches a byte every 2 MiB: each costs a page table besides the page.
func pageTables([]string) {
	const step, span = 2 << 20, 64 << 30
	reached()
	for i := 0; ; i++ {
		b, err := unix.MmapPtr(-1, 0, nil, span, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err != nil {
			answer(err)
			return
		}
		for at := 0; at < span; at += step {
			*(*byte)(unsafe.Add(b, at)) = 1
		}
		if i == 1<<10 {
			effect("touched 64 TiB")
			return
		}
	}
}

// lock keeps memory from being swapped, which takes it from everybody else.
func lock([]string) {
	b, err := unix.Mmap(-1, 0, 256<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	must("reserve memory", err)
	reached()
	if err := unix.Mlock(b); err != nil {
		answer(err)
		return
	}
	effect("locked 256 MiB")
}

// reserve asks for more addresses than a processor has.
func reserve([]string) {
	reached()
	_, err := unix.MmapPtr(-1, 0, nil, 1<<47, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		answer(err)
		return
	}
	effect("reserved 128 TiB")
}

// nullPage maps the page at address 0, where a kernel that follows a null pointer would find what the program has put.
func nullPage([]string) {
	reached()
	// The library would take address 0 for "anywhere".
	at, err := call(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED, ^uintptr(0))
	if err != nil {
		answer(err)
		return
	}
	effect("mapped a page at", strconv.Itoa(int(at)))
}

// fallocate reserves a terabyte in a file of memory.
func fallocate([]string) {
	fd, err := unix.MemfdCreate("attack", unix.MFD_CLOEXEC)
	must("make a memfd", err)
	reached()
	if err := unix.Fallocate(fd, 0, 0, 1<<40); err != nil {
		answer(err)
		return
	}
	effect("reserved a terabyte")
}

// mincore asks about 32 GiB of addresses, of which the answer has 8 MiB.
func mincore([]string) {
	const span = 32 << 30
	at, err := unix.MmapPtr(-1, 0, nil, span, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	must("reserve addresses", err)
	answerBytes := make([]byte, span/4096)
	reached()
	if _, err := call(unix.SYS_MINCORE, uintptr(at), span, uintptr(unsafe.Pointer(&answerBytes[0]))); err != nil {
		answer(err)
		return
	}
	effect("the kernel told about", strconv.Itoa(len(answerBytes)), "pages")
}

// buffers fills the buffers of sockets that nobody reads.
func buffers([]string) {
	b := make([]byte, 64<<10)
	total := 0
	reached()
	for {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			say("filled", strconv.Itoa(total>>20), "MiB")
			answer(err)
			return
		}
		_ = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20)
		for {
			n, err := unix.Write(fds[0], b)
			if err != nil {
				break
			}
			total += n
		}
	}
}

// pipes fills pipes that nobody reads, each as large as it may be.
func pipes([]string) {
	b := make([]byte, 64<<10)
	total := 0
	reached()
	for {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
			say("filled", strconv.Itoa(total>>20), "MiB")
			answer(err)
			return
		}
		_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, 1<<20)
		for {
			n, err := unix.Write(fds[1], b)
			if err != nil {
				break
			}
			total += n
		}
	}
}

// sparse makes a file that only seems large. It must cost nobody anything.
func sparse(args []string) {
	fd, err := unix.Open("huge", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	must("make a file", err)
	reached()
	if err := unix.Ftruncate(fd, int64(number(args[0]))); err != nil {
		answer(err)
		return
	}
	answer(nil)
}

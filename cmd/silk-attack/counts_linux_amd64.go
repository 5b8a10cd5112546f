package main

import (
	"runtime"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

func countAttacks() map[string]attack {
	return map[string]attack{
		"fork-bomb": forkBomb,
		"threads":   threads,
		"files":     files,
		"deep":      deep,
		"many":      many,
		"watches":   watches,
		"timers":    timers,
		"queues":    queues,
		"spin":      spin,
		"sleep":     sleep,
		"stop":      stop,
	}
}

// forkBomb makes processes that do nothing until it may not.
func forkBomb([]string) {
	alone()
	reached()
	for range 3000 {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			answer(errno)
			return
		}
		if pid == 0 {
			for {
				unix.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
			}
		}
	}
	effect("3000 processes")
}

// threads makes threads by the bare call, since Go's runtime ends the program when it may not make one.
func threads([]string) {
	stack := make([]byte, 4096) // they need none
	reached()
	for range 3000 {
		if errno := rawThread(uintptr(unsafe.Pointer(&stack[len(stack)-16]))); errno != 0 {
			answer(unix.Errno(errno))
			return
		}
	}
	effect("3000 threads")
}

// rawThread makes a thread that waits for signals; see raw_linux_amd64.s.
func rawThread(stack uintptr) (errno uintptr)

// files opens descriptors until it may not.
func files([]string) {
	reached()
	for range 1 << 17 {
		if _, err := unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
			answer(err)
			return
		}
	}
	effect("131072 descriptors")
}

// deep makes directories in each other. Whoever removes them must not recurse without end.
func deep(args []string) {
	reached()
	for i := range number(args[0]) {
		if err := unix.Mkdir("d", 0o755); err != nil {
			answer(err)
			return
		}
		if err := unix.Chdir("d"); err != nil {
			say("stopped at", strconv.Itoa(i))
			answer(err)
			return
		}
	}
	answer(nil)
}

// many makes that many empty files in a directory: names cost memory too.
func many(args []string) {
	must("go there", unix.Chdir(args[0]))
	reached()
	for i := range number(args[1]) {
		fd, err := unix.Open(strconv.Itoa(i), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			answer(err)
			return
		}
		_ = unix.Close(fd)
	}
	answer(nil)
}

// watches watches files until it may not, with many watchers of one directory each.
func watches([]string) {
	reached()
	for range 1 << 17 {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err == nil {
			_, err = unix.InotifyAddWatch(fd, "/workspace", unix.IN_ALL_EVENTS)
		}
		if err != nil {
			answer(err)
			return
		}
	}
	effect("131072 watches")
}

// timers makes timers until it may not.
func timers(args []string) {
	var id int32
	n := number(args[0])
	reached()
	for range n {
		if _, err := call(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id))); err != nil {
			answer(err)
			return
		}
	}
	answer(nil)
}

// queues makes sets of 32,000 semaphores, the most that Linux has by default (proc(5), sem), until it may not.
func queues([]string) {
	reached()
	for range 4000 {
		if _, err := call(unix.SYS_SEMGET, unix.IPC_PRIVATE, 32000, unix.IPC_CREAT|0o600); err != nil {
			answer(err)
			return
		}
	}
	effect("128 million semaphores")
}

// spin uses the processor without end, in four threads.
func spin([]string) {
	runtime.GOMAXPROCS(4)
	reached()
	for range 3 {
		go count()
	}
	count()
}

// count counts for ever.
func count() {
	for n := new(atomic.Int64); ; {
		n.Add(1)
	}
}

// sleep ignores whatever asks it to end, and waits.
func sleep([]string) {
	ignoreSignals()
	reached()
	pause()
}

// stop stops itself and everything that it has started.
func stop([]string) {
	start([]string{"pause"}, nil)
	reached()
	must("stop", unix.Kill(0, unix.SIGSTOP))
	pause()
}

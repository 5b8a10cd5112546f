package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func processAttacks() map[string]attack {
	return map[string]attack{
		"peek-mem":     peekMem,
		"peek":         func(args []string) { processVM(unix.SYS_PROCESS_VM_READV, args) },
		"poke":         func(args []string) { processVM(unix.SYS_PROCESS_VM_WRITEV, args) },
		"trace":        trace,
		"trace-me":     traceMe,
		"kill":         kill,
		"steal-fd":     stealFD,
		"signal-pidfd": signalPidfd,
		"limit":        limitOf,
		"compare":      compare,
		"process":      process,
		"spawn":        spawn,
		"threads-free": threadsFree,
	}
}

// secret lies at the same address in each process of this program, which is not relocatable.
var secret = [16]byte{'s', 'e', 'c', 'r', 'e', 't', ' ', 'i', 'n', ' ', 'm', 'e', 'm', 'o', 'r', 'y'}

// peekMem reads the memory of a process through /proc.
func peekMem(args []string) {
	reached()
	fd, err := unix.Open("/proc/"+args[0]+"/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		answer(err)
		return
	}
	var b [16]byte
	if _, err := unix.Pread(fd, b[:], int64(uintptr(unsafe.Pointer(&secret)))); err != nil {
		answer(err)
		return
	}
	effect("read the memory of", args[0]+":", quote(b[:]))
}

// processVM reads or writes the memory of a process at one call.
func processVM(nr uintptr, args []string) {
	mine := secret
	if nr == unix.SYS_PROCESS_VM_WRITEV {
		copy(mine[:], "other")
	} else {
		mine = [16]byte{}
	}
	local := unix.Iovec{Base: &mine[0], Len: 16}
	remote := unix.RemoteIovec{Base: uintptr(unsafe.Pointer(&secret)), Len: 16}
	reached()
	n, err := call(nr, uintptr(number(args[0])), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1)
	if err != nil {
		answer(err)
		return
	}
	effect("moved", strconv.Itoa(int(n)), "bytes to or from the memory of", args[0]+":", quote(mine[:]))
}

// trace traces a process: it is one's own tracer then.
func trace(args []string) {
	how := map[string]uintptr{"attach": unix.PTRACE_ATTACH, "seize": unix.PTRACE_SEIZE}[args[0]]
	pid := args[1]
	reached()
	if _, err := call(unix.SYS_PTRACE, how, uintptr(number(pid)), 0, 0); err != nil {
		answer(err)
		return
	}
	if status := field("/proc/"+pid+"/status", "TracerPid:"); status != "0" {
		effect("process", pid, "is traced by", status)
		return
	}
	answer(nil)
}

// field is the rest of a line of a file that may be read.
func field(name, key string) string {
	b, err := os.ReadFile(name)
	must("read "+name, err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// traceMe lets the parent trace this process, as a debugger's child does, and ends. Where the parent is the one that
// waits for the whole run, the run must end all the same.
func traceMe([]string) {
	reached()
	_, err := call(unix.SYS_PTRACE, unix.PTRACE_TRACEME)
	answer(err)
}

// kill sends a signal. The effect is that its receiver is gone.
func kill(args []string) {
	alone()
	pid := number(args[0])
	reached()
	if err := unix.Kill(pid, unix.Signal(number(args[1]))); err != nil {
		answer(err)
		return
	}
	if err := unix.Kill(max(pid, -pid), 0); err == unix.ESRCH {
		effect("process", args[0], "is gone")
		return
	}
	answer(nil)
}

// stealFD takes a descriptor out of another process.
func stealFD(args []string) {
	fd, err := unix.PidfdOpen(number(args[0]), 0)
	if err != nil {
		reached()
		answer(err)
		return
	}
	reached()
	got, err := unix.PidfdGetfd(fd, 0, 0)
	if err != nil {
		answer(err)
		return
	}
	have(got)
}

// signalPidfd ends a process through a descriptor of it.
func signalPidfd(args []string) {
	fd, err := unix.PidfdOpen(number(args[0]), 0)
	if err != nil {
		reached()
		answer(err)
		return
	}
	reached()
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		answer(err)
		return
	}
	effect("sent SIGKILL to process", args[0])
}

// limitOf sets a limit of another process.
func limitOf(args []string) {
	one, now := unix.Rlimit{Cur: 1, Max: 1}, unix.Rlimit{}
	reached()
	if err := unix.Prlimit(number(args[0]), unix.RLIMIT_NOFILE, &one, nil); err != nil {
		answer(err)
		return
	}
	if err := unix.Prlimit(number(args[0]), unix.RLIMIT_NOFILE, nil, &now); err == nil && now.Max == 1 {
		effect("process", args[0], "may open one file")
		return
	}
	answer(nil)
}

// compare asks the kernel how objects of two processes lie in its memory (kcmp(2)).
func compare(args []string) {
	reached()
	order, err := call(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(number(args[0])), 0, 0, 0)
	if err != nil {
		answer(err)
		return
	}
	effect("the order of two kernel objects is", strconv.Itoa(int(order)))
}

// process makes a process by a call of its own kind; the child says that it is there.
func process(args []string) {
	line := []byte("EFFECT: a process was made by " + args[0] + "\n")
	var pid uintptr
	var errno unix.Errno
	reached()
	switch args[0] {
	case "fork":
		pid, _, errno = unix.RawSyscall(unix.SYS_FORK, 0, 0, 0)
	case "vfork":
		pid, errno = vforkAndSay(line)
	case "clone":
		pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	case "clone3":
		a := cloneArgs{exitSignal: uint64(unix.SIGCHLD)}
		pid, _, errno = unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a), 0)
	default:
		setup("no process is made by", args[0])
	}
	if errno != 0 {
		answer(errno)
		return
	}
	if pid == 0 { // Go's runtime does not know of this process: it may do nothing but system calls
		rawSay(line)
		rawExit()
	}
	wait(int(pid))
}

// cloneArgs is struct clone_args of clone(2), in its first version.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
}

// rawVfork is vfork(2), after which child and parent use one stack; see raw_linux_amd64.s.
func rawVfork() (pid, errno uintptr)

// vforkAndSay makes a child that says line and ends. It must not grow the stack that both use.
//
//go:nosplit
func vforkAndSay(line []byte) (uintptr, unix.Errno) {
	pid, errno := rawVfork()
	if errno == 0 && pid == 0 {
		rawSay(line)
		rawExit()
	}
	return pid, unix.Errno(errno)
}

//go:nosplit
func rawSay(line []byte) {
	unix.RawSyscall(unix.SYS_WRITE, 1, uintptr(unsafe.Pointer(&line[0])), uintptr(len(line)))
}

//go:nosplit
func rawExit() {
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// spawn starts a program as programs do.
func spawn(args []string) {
	reached()
	pid, err := forkExec(args[0], []string{"silk-attack", "ran", args[0]}, nil)
	if err != nil {
		answer(err)
		return
	}
	wait(pid)
}

// threadsFree has twenty threads at once: they are no processes.
func threadsFree([]string) {
	const n = 20
	arrived, leave := make(chan struct{}), make(chan struct{})
	reached()
	for range n {
		go func() {
			runtime.LockOSThread()
			arrived <- struct{}{}
			<-leave
		}()
	}
	for range n {
		<-arrived
	}
	effect(field("/proc/self/status", "Threads:"), "threads are there")
	close(leave)
}

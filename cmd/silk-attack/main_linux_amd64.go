package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// attack is one thing to try. args are its own.
type attack func(args []string)

func main() {
	runtime.LockOSThread() // ids and the like belong to threads; what is changed and what is asked must be one
	if len(os.Args) < 2 || attacks()[os.Args[1]] == nil {
		setup("no such attack")
	}
	perform(os.Args[1:])
}

// attacks are all attacks, by name.
func attacks() map[string]attack {
	all := map[string]attack{}
	for _, part := range []map[string]attack{
		wrappers(), fileAttacks(), linkAttacks(), execAttacks(), processAttacks(), socketAttacks(), privilegeAttacks(), systemAttacks(),
		raceAttacks(), aroundAttacks(), memoryAttacks(), heapAttacks(), countAttacks(), outputAttacks(), hostAttacks(), egressAttacks(),
	} {
		for name, a := range part {
			all[name] = a
		}
	}
	return all
}

// wrappers perform another attack in other circumstances. They put {parent}, {child} and {pid} into its arguments.
func wrappers() map[string]attack {
	return map[string]attack{
		"in-child":        inChild,
		"with-child":      withChild,
		"with-grandchild": withGrandchild,
		"parent-of-pause": parentOfPause,
		"in-thread":       inThread,
		"from":            func(args []string) { must("chdir", unix.Chdir(args[0])); perform(args[1:]) },
		"pause":           func([]string) { pause() },
	}
}

// perform does what args say, with the placeholders that are known everywhere filled in.
func perform(args []string) {
	a := attacks()[args[0]]
	if a == nil {
		setup("no attack is called " + args[0])
	}
	a(replace(args[1:], "{pid}", strconv.Itoa(os.Getpid())))
}

func replace(args []string, placeholder, value string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = strings.ReplaceAll(arg, placeholder, value)
	}
	return out
}

// inChild performs an attack in a child process and waits for it.
func inChild(args []string) {
	pid := start(replace(args, "{parent}", strconv.Itoa(os.Getpid())), nil)
	wait(pid)
}

// withChild performs an attack beside a child that does nothing.
func withChild(args []string) {
	pid := start([]string{"pause"}, []string{"SECRET=of the child"})
	perform(replace(args, "{child}", strconv.Itoa(pid)))
}

// withGrandchild performs an attack beside a grandchild that does nothing, called {child} too.
func withGrandchild(args []string) {
	must("make a fifo", unix.Mkfifo("fifo", 0o600))
	start([]string{"parent-of-pause"}, nil)
	fd, err := unix.Open("fifo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must("open a fifo", err)
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	must("hear of the grandchild", err)
	perform(replace(args, "{child}", string(b[:n])))
}

// parentOfPause is the process between.
func parentOfPause([]string) {
	pid := start([]string{"pause"}, nil)
	put("fifo", []byte(strconv.Itoa(pid)), 0o600)
	pause()
}

// inThread performs an attack in a thread that is not the first.
func inThread(args []string) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(done)
		perform(args)
	}()
	<-done
}

// start starts this program again. It returns when exec has succeeded.
func start(args, env []string) int {
	pid, err := forkExec("/proc/self/exe", append([]string{"silk-attack"}, args...), env)
	must("start a child", err)
	return pid
}

// wait waits for the end of a process and returns its exit status, -1 after a signal.
func wait(pid int) int {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if err != unix.EINTR {
			must("wait for the child", err)
			return status.ExitStatus()
		}
	}
}

// pause waits until somebody ends this process.
func pause() {
	for {
		_, _ = unix.Ppoll(nil, nil, nil) // EINTR by a signal of Go's own
	}
}

// say writes a line in one call, so that those of several processes do not mix.
func say(words ...string) {
	_, _ = unix.Write(1, []byte(strings.Join(words, " ")+"\n")) // where to would a fault be said?
}

// reached says that the next call is the one that the attack is about.
func reached() { say("reached") }

// effect says that it happened, and how one knows.
func effect(words ...string) { say("EFFECT: " + strings.Join(words, " ")) }

// answer says what the kernel answered.
func answer(err error) {
	switch errno, ok := err.(unix.Errno); { //nolint:errorlint // only system calls are answered, and they are not wrapped
	case err == nil || ok && errno == 0:
		say("errno 0")
	case errno == unix.EOPNOTSUPP:
		say("errno EOPNOTSUPP") // which ENOTSUP is another name of
	case ok && unix.ErrnoName(errno) != "":
		say("errno " + unix.ErrnoName(errno))
	default:
		say("errno " + err.Error())
	}
}

// setup ends the attack: it cannot get to the call.
func setup(words ...string) {
	say("setup " + strings.Join(words, " "))
	unix.Exit(3)
}

func must(what string, err error) {
	if err != nil {
		setup(what+":", err.Error())
	}
}

// call is one system call by number. The caller keeps alive what the arguments point to.
func call(nr uintptr, args ...uintptr) (uintptr, error) {
	var a [6]uintptr
	copy(a[:], args)
	r, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return r, errno
	}
	return r, nil
}

// number is an argument that is a number, in any base of Go's.
func number(s string) int {
	n, err := strconv.ParseInt(s, 0, 64)
	must("read the number "+s, err)
	return int(n)
}

// quote is at most 60 bytes of text, fit for one line.
func quote(b []byte) string { return strconv.QuoteToASCII(string(b[:min(len(b), 60)])) }

// alone says whether few processes can be seen. Attacks that would hurt a machine demand it.
func alone() {
	n := 0
	for _, name := range names("/proc") {
		if name[0] >= '1' && name[0] <= '9' {
			n++
		}
	}
	if n > 40 {
		setup("this is no sandbox:", strconv.Itoa(n), "processes can be seen")
	}
}

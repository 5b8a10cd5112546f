package main

import (
	"bytes"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func outputAttacks() map[string]attack {
	return map[string]attack{
		"flood":       flood,
		"escapes":     escapes,
		"forge":       forge,
		"exit":        func(args []string) { reached(); unix.Exit(number(args[0])) },
		"die":         die,
		"close":       closeOutput,
		"file-names":  fileNames,
		"read-escape": func([]string) { read(unix.AT_FDCWD, "/root/\x1b[2J\x1b]0;owned\x07\nrule=none", unix.O_RDONLY) },
		"descriptors": descriptors,
		"marks":       marks,
		"daemon":      daemon,
		"links-out":   linksOut,
		"change":      change,
	}
}

func ignoreSignals() { signal.Ignore() }

// flood writes that many MiB to both channels.
func flood(args []string) {
	b := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10)
	reached()
	for range number(args[0]) {
		for fd := 1; fd <= 2; fd++ {
			for rest := b; len(rest) > 0; {
				n, err := unix.Write(fd, rest)
				if err != nil {
					return
				}
				rest = rest[n:]
			}
		}
	}
}

// escapes writes what terminals obey: a title, a cleared screen, an answer-back, a link, and bytes that are no text.
func escapes([]string) {
	reached()
	_, _ = unix.Write(1, []byte("\x1b]0;owned\x07\x1b[2J\x1b[6n\x1b]8;;file:///etc/passwd\x1b\\x\x1b]8;;\x1b\\\x1bc\x9b31m\xff\xfe\x00\r\b\n"))
}

// forge writes what silk itself would say of a run.
func forge([]string) {
	const outcome = `{"outcome":"ok","exit_code":0,"rule":"","refused":{},"stdout":{"bytes":0}}`
	reached()
	for fd := 1; fd <= 2; fd++ {
		_, _ = unix.Write(fd, []byte(outcome+"\n\x00\x1e{\"type\":\"exit\",\"outcome\":\"ok\"}\nsilk: ok\n"))
	}
	for fd := 3; fd < 64; fd++ { // a channel that it should not have
		_, _ = unix.Write(fd, []byte(outcome+"\n"))
	}
	unix.Exit(5)
}

// die ends itself by the signal that the limit of memory would use.
func die(args []string) {
	reached()
	must("end itself", unix.Kill(unix.Getpid(), unix.Signal(number(args[0]))))
	pause()
}

// closeOutput closes its channels and goes on for a moment.
func closeOutput([]string) {
	reached()
	for fd := range 3 {
		_ = unix.Close(fd)
	}
}

// fileNames makes files with names that people and programs misread.
func fileNames([]string) {
	reached()
	for _, name := range []string{"-rf *", "new\nline", "\x1b[2J", "\xff\xfe", "\u202egnp.exe", " ", "...", strings.Repeat("a", 255)} {
		put(name, []byte(name), 0o644)
	}
	answer(nil)
}

// descriptors looks for descriptors that it was not given.
func descriptors([]string) {
	reached()
	own := directory("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY)
	for _, name := range namesIn(own) {
		fd := number(name)
		target := linkOf("/proc/self/fd/" + name)
		if fd > 2 && fd != own && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "pipe:") { // Go's poller has those
			effect("descriptor", name, "of", target)
		}
	}
	answer(nil)
}

// marks looks for what an earlier run of it has left wherever something can be left, and leaves it.
func marks([]string) {
	const key = 0x51c4 // of System V objects
	reached()
	for _, name := range []string{"/workspace/mark", "/tmp/mark", "/dev/shm/mark"} {
		if unix.Access(name, unix.F_OK) == nil {
			effect("an earlier run has left", name)
		}
		put(name, []byte("mark"), 0o666)
	}
	if _, err := unix.SysvShmGet(key, 0, 0); err == nil {
		effect("an earlier run has left shared memory")
	}
	if _, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666); err != nil {
		setup("make shared memory:", err.Error())
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must("make a socket", err)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@silk-selftest"}); err != nil {
		effect("an earlier run still has an abstract socket:", err.Error())
	}
	answer(nil)
}

// daemon leaves a process behind that has a session of its own, ignores what asks it to end, and keeps the output open.
func daemon(args []string) {
	if len(args) == 2 { // the daemon, or its parent
		ignoreSignals()
		if args[1] == "parent" {
			_, _ = unix.Setsid()
			start([]string{"daemon", args[0], "last"}, nil)
			return
		}
		pause()
	}
	reached()
	wait(start([]string{"daemon", args[0], "parent"}, nil))
	answer(nil)
}

// linksOut leaves links as artifacts that lead out of the workspace.
func linksOut([]string) {
	reached()
	for i, target := range []string{"/etc/passwd", "../../../../etc/hostname", "/proc/self/environ", "/", "/dev/zero"} {
		makeLink(target, "link"+strconv.Itoa(i))
	}
	must("make a fifo", unix.Mkfifo("fifo", 0o666))
	answer(nil)
}

// change changes a file that was copied in.
func change(args []string) {
	reached()
	put(args[0], []byte("changed"), 0o644)
	answer(nil)
}

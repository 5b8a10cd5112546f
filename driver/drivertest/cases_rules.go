package drivertest

import (
	"strings"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/watch"
)

// ruleCases are about limits, rules and what is seen of them. The comment of each says what its program does.
var ruleCases = []testCase{
	// takes 200 MB of memory and keeps them; the limit is 64 MiB
	{"memory limit", func(b *bench) {
		spec := b.spec()
		spec.MemoryBytes = 64 << 20
		s := b.start(spec, false)
		if exit := s.wait(); !exit.OOM || exit.Violation != nil || exit.Killed {
			b.Errorf("exit %+v, want OOM; stderr %q", exit, s.stderr.String())
		}
	}},
	// writes 32 MiB to a file in /tmp, where 16 MiB fit, and exits with 1 when it cannot
	{"tmp is full", func(b *bench) {
		_, stderr, exit := b.run(b.spec(), 1)
		if exit.Flags.TmpFull == 0 || !strings.Contains(strings.ToLower(stderr), "no space left") {
			b.Errorf("flags %+v, stderr %q", exit.Flags, stderr)
		}
	}},
	// writes 128 MiB to a file in /workspace, where 64 MiB fit, and exits with 1 when it cannot
	{"workspace is full", func(b *bench) {
		_, stderr, exit := b.run(b.spec(), 1)
		if exit.Flags.DiskFull == 0 || !strings.Contains(strings.ToLower(stderr), "no space left") {
			b.Errorf("flags %+v, stderr %q", exit.Flags, stderr)
		}
	}},
	// starts 32 processes that live on, where 16 are allowed, and exits with 2 when it cannot
	{"processes limit", func(b *bench) {
		spec := b.spec()
		spec.Processes = 16
		if _, _, exit := b.run(spec, 2); exit.Flags.PidsLimitHit == 0 {
			b.Errorf("flags %+v", exit.Flags)
		}
	}},
	// starts a process, and exits with 2 when it cannot
	{"no spawn", func(b *bench) {
		spec := b.spec()
		spec.NoSpawn = true
		if _, _, exit := b.run(spec, 2); len(exit.Refused) == 0 || exit.Refused[0].Rule != "process.spawn" || exit.Refused[0].Count == 0 {
			b.Errorf("flags %+v", exit.Flags)
		}
	}},
	// prints "before\n", then makes an INET socket
	{"network deny", func(b *bench) {
		s := b.start(b.spec(), false)
		exit := s.wait()
		if v := exit.Violation; v == nil || !strings.HasPrefix(v.Rule, "network.") || v.Syscall != "socket" || exit.OOM || exit.Killed {
			b.Errorf("exit %+v, violation %v, want network at socket", exit, v)
		}
		if got := s.stdout.String(); got != "before\n" {
			b.Errorf("stdout before the violation is %q", got)
		}
	}},
	// sends "over loopback\n" to a server of its own on 127.0.0.1 and prints what that received
	{"network loopback", func(b *bench) {
		spec := b.spec()
		spec.Network = driver.NetworkLoopback
		if stdout, _, _ := b.run(spec, 0); stdout != "over loopback\n" {
			b.Errorf("the server received %q", stdout)
		}
	}},
	// connects to 192.0.2.1
	{"network beyond loopback", func(b *bench) {
		spec := b.spec()
		spec.Network = driver.NetworkLoopback
		s := b.start(spec, false)
		if v := s.wait().Violation; v == nil || !strings.HasPrefix(v.Rule, "network.") || !strings.Contains(v.Argument, "192.0.2.1") {
			b.Errorf("violation %v, want network with the address; stderr %q", v, s.stderr.String())
		}
	}},
	// prints "before\n", then opens /etc/passwd
	{"forbidden file", func(b *bench) {
		s := b.start(b.spec(), false)
		exit := s.wait()
		if v := exit.Violation; v == nil || v.Rule != "file.accounts" || !strings.Contains(v.Argument, "/etc/passwd") {
			b.Errorf("violation %v, want file /etc/passwd; exit %+v", v, exit)
		}
		if got := s.stdout.String(); got != "before\n" {
			b.Errorf("stdout is %q, want nothing after the violation", got)
		}
	}},
	// opens /etc/debian_version, which is in the image and in none of the trees, and exits with 1
	{"file outside the trees", func(b *bench) {
		_, _, exit := b.run(b.spec(), 1)
		if len(exit.Refused) != 1 || exit.Refused[0].Rule != "file.unlisted" || exit.Refused[0].Count != 1 ||
			len(exit.Refused[0].Acts) != 1 || exit.Refused[0].Acts[0].Argument != "/etc/debian_version" {
			b.Errorf("refused %+v, want one of file.unlisted", exit.Refused)
		}
	}},
	// as "forbidden file"
	{"what was seen before a violation", func(b *bench) {
		exit := b.start(b.spec(), false).wait()
		last := exit.Watched.Last
		if len(last) == 0 || last[len(last)-1].Result != "killed" || last[len(last)-1].Argument != "/etc/passwd" || exit.Watched.Counts[watch.OpenAt] == 0 {
			b.Errorf("watched %+v", exit.Watched)
		}
	}},
	// as "forbidden file", with a listener that waits until the sandbox is gone
	{"a slow listener", func(b *bench) {
		spec := b.spec()
		var first watch.Event
		ended := make(chan struct{})
		spec.Events = func(e watch.Event) {
			if first.Kind == "" {
				first = e
				<-ended
			}
		}
		s := b.start(spec, false)
		<-s.stdout.eof // of the program's end: it did not wait
		close(ended)
		if exit := s.wait(); exit.Violation == nil || first.Kind == "" {
			b.Errorf("exit %+v, first event %+v", exit, first)
		}
	}},
	// exits with 7
	{"usage is counted", func(b *bench) {
		_, _, exit := b.run(b.spec(), 7)
		if u := exit.Usage; u.CPU <= 0 || u.Processes < 1 || u.PeakMemoryBytes <= 0 {
			b.Errorf("usage %+v", u)
		}
	}},
}

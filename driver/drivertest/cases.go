package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/pty"
	"github.com/silk-sandbox/silk/watch"
)

// cases is the suite. The comment of each says what its program does.
var cases = []testCase{
	// exits with 7
	{"exit code", func(b *bench) { b.run(b.spec(), 7) }},
	// kills itself with SIGTERM
	{"own signal", func(b *bench) {
		s := b.start(b.spec(), false)
		if exit := s.wait(); exit.Signal != int(syscall.SIGTERM) || exit.Killed || exit.OOM || exit.Violation != nil {
			b.Errorf("exit %+v, want signal %d", exit, syscall.SIGTERM)
		}
	}},
	// prints "out\x00\xff\x1b[1m\n" to stdout and "err\n" to stderr
	{"channels are separate and exact", func(b *bench) {
		stdout, stderr, _ := b.run(b.spec(), 0)
		if want := "out\x00\xff\x1b[1m\n"; stdout != want || stderr != "err\n" {
			b.Errorf("stdout %q, stderr %q, want %q and %q", stdout, stderr, want, "err\n")
		}
	}},
	// prints 10,000,000 bytes "0123456789" over and over
	{"much output", func(b *bench) {
		stdout, _, _ := b.run(b.spec(), 0)
		if want := strings.Repeat("0123456789", 1_000_000); stdout != want {
			b.Errorf("%d bytes arrived, want %d, and in order", len(stdout), len(want))
		}
	}},
	// prints "up\n", then waits
	{"output arrives while the program runs", func(b *bench) {
		s := b.start(b.spec(), false)
		s.stdout.await(b, "up\n")
		s.sandbox.Kill(driver.KillNow)
		s.wait()
	}},
	// prints "up\n", then waits; a driver that is no Signaler is not asked
	{"signal from outside", func(b *bench) {
		s := b.start(b.spec(), false)
		s.stdout.await(b, "up\n")
		signaler, ok := s.sandbox.(driver.Signaler)
		if !ok {
			s.sandbox.Kill(driver.KillNow)
			s.wait()
			b.Skipf("%T is no driver.Signaler", s.sandbox)
		}
		if err := signaler.Signal(int(syscall.SIGUSR1)); err != nil {
			b.Error(err)
		}
		if exit := s.wait(); exit.Signal != int(syscall.SIGUSR1) || exit.Killed {
			b.Errorf("exit %+v, want signal %d", exit, syscall.SIGUSR1)
		}
		if err := signaler.Signal(int(syscall.SIGUSR1)); err != nil {
			b.Errorf("when it has ended: %v", err)
		}
	}},
	// copies stdin to stdout
	{"stdin is at its end by default", func(b *bench) {
		if stdout, _, _ := b.run(b.spec(), 0); stdout != "" {
			b.Errorf("stdout is %q", stdout)
		}
	}},
	// copies stdin to stdout
	{"stdin is fed", func(b *bench) {
		s := b.start(b.spec(), true)
		want := strings.Repeat("line of input\n", 100_000)
		if _, err := io.WriteString(s.stdin, want); err != nil {
			b.Error(err)
		}
		if err := s.stdin.Close(); err != nil {
			b.Error(err)
		}
		b.checkExit(s.wait(), 0, s.stderr.String())
		if got := s.stdout.String(); got != want {
			b.Errorf("%d bytes came back, want %d", len(got), len(want))
		}
	}},
	// prints its environment, one variable a line
	{"environment is exact", func(b *bench) {
		spec := b.spec()
		spec.Env = append(spec.Env, "ODD=a b=c\t'\"ä")
		stdout, _, _ := b.run(spec, 0)
		got := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		slices.Sort(got)
		want := slices.Sorted(slices.Values(spec.Env))
		if !slices.Equal(got, want) {
			b.Errorf("environment is %q, want %q", got, want)
		}
	}},
	// prints its working directory
	{"working directory", func(b *bench) {
		spec := b.spec()
		spec.Dir = "/workspace/sub"
		spec.Fill = tarOf(entry{name: "sub", dir: true, mode: 0o755})
		if stdout, _, _ := b.run(spec, 0); stdout != "/workspace/sub\n" {
			b.Errorf("working directory is %q", stdout)
		}
	}},
	// prints the host name
	{"host name", func(b *bench) {
		spec := b.spec()
		spec.Hostname = "other-name"
		if stdout, _, _ := b.run(spec, 0); stdout != "other-name\n" {
			b.Errorf("host name is %q", stdout)
		}
	}},
	// is a command that does not exist
	{"missing command", func(b *bench) {
		_, _, exit := b.run(b.spec(), 127)
		if !exit.NotFound || exit.Message == "" || strings.Contains(exit.Message, "\n") {
			b.Errorf("exit %+v, want NotFound and one sentence", exit)
		}
	}},
	// is /workspace/plain, a file that is not executable
	{"command that cannot be executed", func(b *bench) {
		spec := b.spec()
		spec.Fill = tarOf(entry{name: "plain", data: "text\n", mode: 0o644})
		if _, _, exit := b.run(spec, 126); !exit.NotFound || exit.Message == "" {
			b.Errorf("exit %+v, want NotFound and a sentence", exit)
		}
	}},
	// prints "up\n", then computes until the end of time
	{"kill at once", func(b *bench) {
		s := b.start(b.spec(), false)
		s.sandbox.Kill(driver.KillNow)
		if exit := s.wait(); !exit.Killed {
			b.Errorf("exit %+v, want Killed", exit)
		}
	}},
	// prints "up\n", then computes until the end of time
	{"kill at any moment", func(b *bench) {
		for _, delay := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond} {
			for _, how := range []driver.KillMode{driver.KillDrain, driver.KillNow} {
				spec := b.spec()
				d := drained{}
				spec.Drain = d.read
				s := b.start(spec, false)
				timer := time.AfterFunc(delay, func() { s.sandbox.Kill(how) })
				exit := s.wait()
				timer.Stop()
				if !exit.Killed {
					b.Errorf("killed after %v with %d: exit %+v, want Killed", delay, how, exit)
				}
			}
		}
	}},
	// prints "up\n", then computes until the end of time
	{"canceled at each step of the start", func(b *bench) {
		enough := errors.New("enough")
		for step, more := 0, true; more; step++ {
			var mu sync.Mutex
			steps := 0
			ctx, cancel := context.WithCancelCause(b.Context())
			spec := b.spec()
			spec.Trace = func(string, time.Time) {
				mu.Lock()
				defer mu.Unlock()
				if steps == step {
					cancel(enough)
				}
				steps++
			}
			s, err := b.tryStart(ctx, spec, false)
			switch {
			case err == nil: // too late for the start; then it has no effect
				s.stdout.await(b, "up\n")
				s.sandbox.Kill(driver.KillNow)
				if exit := s.wait(); !exit.Killed {
					b.Errorf("canceled at step %d: exit %+v, want Killed", step, exit)
				}
			case !errors.Is(err, enough):
				b.Errorf("canceled at step %d: %v, want the cause", step, err)
			}
			cancel(nil)
			mu.Lock()
			more = steps > step
			mu.Unlock()
		}
	}},
	// exits with 7
	{"kill of a sandbox that has ended", func(b *bench) {
		s := b.start(b.spec(), false)
		<-s.stdout.eof
		exit := s.wait()
		s.sandbox.Kill(driver.KillDrain)
		s.sandbox.Kill(driver.KillNow)
		b.checkExit(exit, 7, s.stderr.String())
	}},
	// prints "up\n", then waits
	{"kill from many goroutines", func(b *bench) {
		s := b.start(b.spec(), false)
		s.stdout.await(b, "up\n")
		for range 8 {
			go s.sandbox.Kill(driver.KillDrain)
		}
		if exit := s.wait(); !exit.Killed {
			b.Errorf("exit %+v, want Killed", exit)
		}
	}},
	// writes "data" to kept, prints "up\n", then waits
	{"drain after a kill", func(b *bench) {
		spec := b.spec()
		d := drained{}
		spec.Drain = d.read
		s := b.start(spec, false)
		s.stdout.await(b, "up\n")
		s.sandbox.Kill(driver.KillDrain)
		if exit := s.wait(); !exit.Killed || exit.DrainErr != nil {
			b.Errorf("exit %+v, want Killed and a whole workspace", exit)
		}
		if got := d["kept"].data; got != "data" {
			b.Errorf("kept is %q after the kill; drained %v", got, d)
		}
	}},
	// prints in.txt, checks that run.sh is executable and that link leads to in.txt (or that there is none of the two),
	// writes "made" to out.txt and removes gone.txt
	{"workspace in and out", func(b *bench) {
		spec := b.spec()
		d := drained{}
		spec.Drain = d.read
		spec.Fill = tarOf(
			entry{name: "in.txt", data: "given\n", mode: 0o644},
			entry{name: "run.sh", data: "#!/bin/sh\n", mode: 0o755},
			entry{name: "link", link: "in.txt", mode: 0o777},
			entry{name: "sub", dir: true, mode: 0o755},
			entry{name: "sub/deep.bin", data: string(bytes.Repeat([]byte{0, 255, 1}, 100_000)), mode: 0o600},
			entry{name: "gone.txt", data: "x", mode: 0o644},
		)
		stdout, _, _ := b.run(spec, 0)
		if stdout != "given\n" {
			b.Errorf("the program read %q", stdout)
		}
		if got := d["out.txt"].data; got != "made" {
			b.Errorf("drained out.txt %q", got)
		}
		if _, there := d["gone.txt"]; there {
			b.Error("a removed file was drained")
		}
		given := map[string]entry{ // may be left out, for it is unchanged
			"in.txt":       {data: "given\n", mode: 0o644},
			"run.sh":       {data: "#!/bin/sh\n", mode: 0o755},
			"link":         {link: "in.txt"},
			"sub/deep.bin": {data: string(bytes.Repeat([]byte{0, 255, 1}, 100_000)), mode: 0o600},
		}
		for name, want := range given {
			got, there := d[name]
			if there && (got.data != want.data || got.link != want.link || want.mode != 0 && got.mode != want.mode) {
				b.Errorf("%s came back changed: link %q, mode %o, %d bytes", name, got.link, got.mode, len(got.data))
			}
		}
	}},
	// prints /workspace/a.txt, tries in vain to change and make files everywhere but in /tmp, prints it again, and "tmp\n" by way of /tmp
	{"read-only", func(b *bench) {
		spec := b.spec()
		spec.ReadOnly, spec.ShmBytes = true, 0
		spec.Fill = tarOf(entry{name: "a.txt", data: "kept\n", mode: 0o644}, entry{name: "sub", dir: true, mode: 0o755})
		d := drained{}
		spec.Drain = d.read
		if stdout, stderr, _ := b.run(spec, 0); stdout != "kept\nkept\ntmp\n" {
			b.Errorf("stdout %q, stderr %q", stdout, stderr)
		}
		for name := range d {
			if name != "a.txt" && name != "sub" {
				b.Errorf("%s was made", name)
			}
		}
	}},
	// exits with 7
	{"failed fill fails the start", func(b *bench) {
		spec := b.spec()
		boom := errors.New("boom")
		spec.Fill = func(w io.Writer) error {
			if err := tarOf(entry{name: "a", data: "x", mode: 0o644})(w); err != nil {
				return err
			}
			return boom
		}
		b.startFails(spec, boom)
	}},
	// exits with 7
	{"failed drain fails the wait", func(b *bench) {
		spec := b.spec()
		boom := errors.New("boom")
		spec.Drain = func(io.Reader) error { return boom }
		s := b.start(spec, false)
		exit, err := s.waitErr()
		if !errors.Is(err, boom) || exit.Code != 7 {
			b.Errorf("exit %+v, error %v, want code 7 and %v", exit, err, boom)
		}
	}},
	// exits with 7
	{"canceled start", func(b *bench) {
		why := errors.New("no longer wanted")
		spec := b.spec()
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		spec.Stdout, spec.Stderr = w, w
		if _, err := b.driver.Start(canceled(b.Context(), why), spec); !errors.Is(err, why) {
			b.Errorf("start: %v, want %v", err, why)
		}
	}},
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
	// leaves a process behind that would write "late" to stdout, prints "up\n" and exits with 0
	{"descendants end with the main process", func(b *bench) {
		if stdout, _, _ := b.run(b.spec(), 0); stdout != "up\n" {
			b.Errorf("stdout is %q, want nothing of the descendant", stdout)
		}
	}},
	// exits with 7
	{"usage is counted", func(b *bench) {
		_, _, exit := b.run(b.spec(), 7)
		if u := exit.Usage; u.CPU <= 0 || u.Processes < 1 || u.PeakMemoryBytes <= 0 {
			b.Errorf("usage %+v", u)
		}
	}},
	// exits with 7
	{"two at once", func(b *bench) {
		first, second := b.start(b.spec(), false), b.start(b.spec(), false)
		b.checkExit(second.wait(), 7, second.stderr.String())
		b.checkExit(first.wait(), 7, first.stderr.String())
	}},
	// exits with 7
	{"start is traced", func(b *bench) {
		spec := b.spec()
		steps := make(chan string, 1000)
		spec.Trace = func(step string, at time.Time) {
			if at.IsZero() || step == "" {
				b.Errorf("step %q at %v", step, at)
			}
			select {
			case steps <- step:
			default:
			}
		}
		b.run(spec, 7)
		if len(steps) == 0 {
			b.Error("no step was traced")
		}
	}},
	// on a terminal: prints "up\n", waits for a change of its size, prints the size as "rows columns\n" and exits with 0
	{"terminal", func(b *bench) {
		terminal, replica, err := pty.Open()
		if errors.Is(err, errors.ErrUnsupported) {
			b.Skip(err)
		}
		if err != nil {
			b.Fatal(err)
		}
		spec := b.spec()
		spec.Env = append(spec.Env, "TERM=dumb")
		spec.Terminal = replica
		s := b.start(spec, false)
		s.stdout = read(terminal) // ends with EIO
		if err := replica.Close(); err != nil {
			b.Error(err)
		}
		s.stdout.await(b, "up\r\n")
		if err := pty.Resize(terminal, 132, 43); err != nil {
			b.Error(err)
		}
		resizer, ok := s.sandbox.(driver.Resizer)
		if !ok {
			b.Fatalf("%T is no driver.Resizer", s.sandbox)
		}
		if err := resizer.Resize(132, 43); err != nil {
			b.Error(err)
		}
		b.checkExit(s.wait(), 0, s.stdout.String())
		if got := s.stdout.String(); !strings.Contains(got, "43 132") {
			b.Errorf("the terminal shows %q, want its size", got)
		}
	}},
}

// startFails checks that the start fails with want and that the program did not run.
func (b *bench) startFails(spec driver.Spec, want error) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	out := read(r)
	spec.Stdout, spec.Stderr = w, w
	_, err = b.driver.Start(b.Context(), spec)
	w.Close()
	if !errors.Is(err, want) {
		b.Errorf("start: %v, want %v", err, want)
	}
	<-out.eof
	if got := out.String(); got != "" {
		b.Errorf("the program ran and said %q", got)
	}
}

package drivertest

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/pty"
)

// cases is the suite.
var cases = slices.Concat(programCases, lifeCases, ruleCases)

// programCases are about what a program finds and says. The comment of each case says what its program does.
var programCases = []testCase{
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
			return
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

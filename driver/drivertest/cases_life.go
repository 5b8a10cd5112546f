package drivertest

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/driver"
)

// lifeCases are about starts and ends. The comment of each says what its program does.
var lifeCases = []testCase{
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
	// leaves a process behind that would write "late" to stdout, prints "up\n" and exits with 0
	{"descendants end with the main process", func(b *bench) {
		if stdout, _, _ := b.run(b.spec(), 0); stdout != "up\n" {
			b.Errorf("stdout is %q, want nothing of the descendant", stdout)
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

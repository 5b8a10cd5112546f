//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	sampleTimeout = 2 * time.Minute // of one run; nothing here takes more than seconds
	killDelay     = 5 * time.Second
	leaveDelay    = 3 * time.Second // for helpers of a run to end after it
)

// sample is one measured run.
type sample struct {
	wall time.Duration // from before fork until the process has been waited for
	cpu  time.Duration // user and system time of the process and everything below it
	out  string        // what it printed
}

// take runs c once and checks that it printed want and exited 0: a fast failure is not a fast start.
func (m *meter) take(ctx context.Context, c contender, img rootfs, args []string, want string) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	process, _, err := c.command(ctx, img, args)
	if err != nil {
		return sample{}, err
	}
	var stdout, stderr bytes.Buffer
	process.Stdout, process.Stderr = &stdout, &stderr
	before, err := m.read()
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	err = process.Run()
	wall := time.Since(start)
	if err != nil {
		return sample{}, fmt.Errorf("%s: run %s: %w: %s", c.name, strings.Join(args, " "), err, lastLines(stderr.String()))
	}
	if want != "" && stdout.String() != want {
		return sample{}, fmt.Errorf("%s: run %s: printed %q, want %q", c.name, strings.Join(args, " "), stdout.String(), want)
	}
	after, err := m.read()
	if err != nil {
		return sample{}, err
	}
	return sample{wall, after.since(before), stdout.String()}, nil
}

// median of values, which it sorts; 0 if there are none.
func median[T time.Duration | float64 | int64](values []T) T {
	slices.Sort(values)
	switch n := len(values); {
	case n == 0:
		return 0
	case n%2 == 1:
		return values[n/2]
	default:
		return (values[n/2-1] + values[n/2]) / 2
	}
}

func lastLines(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 600 {
		s = "... " + s[len(s)-600:]
	}
	return s
}

// running is a contender's process that goes on while something is measured.
type running struct {
	process *exec.Cmd
	stop    func() error
}

// end kills what is running and waits until it is gone.
func (r running) end() error {
	var err error
	if r.stop != nil {
		err = r.stop() // before the process: a killed client may leave its container
	} else {
		err = r.process.Process.Signal(syscall.SIGTERM)
	}
	done := make(chan struct{})
	go func() {
		r.process.Wait() // its status is that of something that was killed
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-time.After(killDelay):
		return errors.Join(err, fmt.Errorf("%s did not end", r.process.Path), r.process.Process.Kill())
	}
}

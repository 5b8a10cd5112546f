//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/image"
)

// warmStarts compares a driver in a process that lives on, as in a service, with runc started by the same process:
// with a sandbox kernel that was started before the request, and without.
func warmStarts(ctx context.Context, m *meter, cfg config, all []contender, roots map[string]rootfs) (_ []comparison, err error) {
	d, err := gvisor.New(gvisor.Config{Home: cfg.home, Sentry: cfg.sentry})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	store, err := image.Open(image.Config{Home: cfg.images()})
	if err != nil {
		return nil, err
	}
	var starters []starter
	for _, c := range all {
		if c.name == "runc" {
			starters = append(starters, c.starter(m, roots))
		}
	}
	run := func(prepare bool) func(context.Context, program) (sample, error) {
		return func(ctx context.Context, p program) (sample, error) { return driven(ctx, m, d, store, p, prepare) }
	}
	starters = append(starters, starter{"silk, warm", run(true)}, starter{"silk, cold, without the command line", run(false)})
	var result []comparison
	for _, p := range startPrograms {
		c, err := compare(ctx, cfg.n, p, starters)
		if err != nil {
			return nil, err
		}
		result = append(result, c)
	}
	return result, nil
}

// driven runs p once with the driver. What it measures begins with the request and ends when the sandbox is gone and
// all its output is here; CPU time includes that of the kernel's own start and what this process does for the run.
func driven(ctx context.Context, m *meter, d *gvisor.Driver, store *image.Store, p program, prepare bool) (sample, error) {
	before, err := m.read()
	if err != nil {
		return sample{}, err
	}
	if prepare {
		release := d.Prepare(ctx)
		defer release()
		if err := settle(ctx); err != nil {
			return sample{}, err
		}
	}
	own, err := ownCPU()
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	out, _, err := drive(ctx, d, store, p, nil)
	wall := time.Since(start)
	ownAfter, ownErr := ownCPU()
	if err = errors.Join(err, ownErr); err != nil {
		return sample{}, fmt.Errorf("silk driver: run %s: %w", p.title, err)
	}
	if p.want != "" && out != p.want {
		return sample{}, fmt.Errorf("silk driver: run %s: printed %q, want %q", p.title, out, p.want)
	}
	after, err := m.read()
	if err != nil {
		return sample{}, err
	}
	return sample{wall, after.since(before) + ownAfter - own, out}, nil
}

// drive runs p once. trace hears of the steps of the start, if it is not nil.
func drive(ctx context.Context, d driver.Driver, store *image.Store, p program, trace func(step string, at time.Time)) (stdout string, exit driver.Exit, err error) {
	img, err := store.Resolve(p.tag)
	if err != nil {
		return "", exit, err
	}
	root, err := store.OpenRoot(img)
	if err != nil {
		return "", exit, err
	}
	defer root.Close()
	var texts [2]bytes.Buffer
	var writers [2]*os.File
	drained := make(chan error, len(texts))
	for i := range texts {
		r, w, err := os.Pipe()
		if err != nil {
			return "", exit, fmt.Errorf("make pipe: %w", err)
		}
		writers[i] = w
		go func() {
			_, err := io.Copy(&texts[i], r)
			drained <- errors.Join(err, r.Close())
		}()
	}
	sandbox, err := d.Start(ctx, driver.Spec{
		ID: fmt.Sprintf("bench-%d", time.Now().UnixNano()), Image: root, Trees: []string{"/"}, Args: p.args, Env: guestEnv, Dir: "/workspace",
		Hostname: "bench", Network: driver.NetworkDeny, Processes: pidsLimit, CPUs: 1,
		MemoryBytes: memoryBytes, WorkspaceBytes: 4 * tmpBytes, TmpBytes: tmpBytes, ShmBytes: tmpBytes,
		Stdout: writers[0], Stderr: writers[1], Trace: trace,
		Drain: func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err },
	})
	err = errors.Join(err, writers[0].Close(), writers[1].Close())
	if sandbox != nil {
		var waitErr error
		exit, waitErr = sandbox.Wait()
		err = errors.Join(err, waitErr)
	}
	for range texts {
		err = errors.Join(err, <-drained)
	}
	if err != nil {
		return "", exit, err
	}
	if exit.Code != 0 || exit.Signal != 0 || exit.Violation != nil || exit.OOM {
		return "", exit, fmt.Errorf("ended with %+v: %s", exit, lastLines(texts[1].String()))
	}
	return texts[0].String(), exit, nil
}

// settle waits until the processes below this one have done what they were started for: until they have used no CPU
// time for a while.
func settle(ctx context.Context) error {
	const quiet, limit = 100 * time.Millisecond, 10 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("a prepared kernel is still busy after %v", limit))
	defer cancel()
	again := time.NewTicker(quiet)
	defer again.Stop()
	last := int64(-1)
	for {
		pids, err := descendants(os.Getpid())
		if err != nil {
			return err
		}
		ticks, err := cpuTicks(pids)
		if err != nil {
			return err
		}
		if len(pids) > 0 && ticks == last {
			return nil
		}
		last = ticks
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

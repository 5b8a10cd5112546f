// Command boot runs the tests of control groups of version 2 in a virtual machine, for hosts that have version 1 or no
// control groups at all: Debian's cloud kernel in QEMU, with built silk, lab:text and test binaries in memory, and
// nothing else: no disk, no network, and no need of hardware virtualisation. `make test-cgroup2` calls it.
//
// It needs QEMU, and apt to fetch the kernel and a static busybox (both kept in the cache; neither is installed), or
// the paths of these two. It takes some minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// config is what the flags say.
type config struct {
	silk, sentry    string // built programs
	home            string // state directory that has the image
	cache           string
	kernel, busybox string // "": fetched
	accelerator     string
	timeout         time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.silk, "silk", "bin/silk", "the built silk")
	flag.StringVar(&c.sentry, "sentry", "bin/silk-sentry", "the built sandbox kernel")
	flag.StringVar(&c.home, "home", ".silk", "state directory with the image lab:text")
	flag.StringVar(&c.cache, "cache", "", "where Debian's packages are kept (default: cache/cgroup2 in the state directory)")
	flag.StringVar(&c.kernel, "kernel", "", "a kernel to boot instead of Debian's")
	flag.StringVar(&c.busybox, "busybox", "", "a static busybox instead of Debian's")
	flag.StringVar(&c.accelerator, "accel", "tcg,thread=multi", "QEMU's accelerator: the default emulates the processor and works everywhere")
	flag.DurationVar(&c.timeout, "timeout", 30*time.Minute, "after which the machine is ended")
	flag.Parse()
	if c.cache == "" {
		c.cache = filepath.Join(c.home, "cache", "cgroup2")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "test-cgroup2:\n%v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, c config, out io.Writer) (err error) {
	started := time.Now()
	packages := debian{c.cache}
	if c.kernel == "" {
		if c.kernel, err = packages.kernel(ctx); err != nil {
			return err
		}
	}
	if c.busybox == "" {
		if c.busybox, err = packages.busybox(ctx); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "silk-cgroup2-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	initial, err := c.initial(ctx, dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("the machine did not end within %v", c.timeout))
	defer cancel()
	r := report{out: out}
	booted := time.Now()
	err = machine{kernel: c.kernel, initial: initial, stderr: os.Stderr, accelerator: c.accelerator}.run(ctx, r.read)
	if err = errors.Join(err, r.verdict()); err != nil {
		return err
	}
	fmt.Fprintf(out, "ok: %d tests in %v, %v in all, %s with %s\n", r.total, time.Since(booted).Round(time.Second),
		time.Since(started).Round(time.Second), filepath.Base(c.kernel), c.accelerator)
	return nil
}

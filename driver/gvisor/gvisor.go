// Package gvisor is the driver that runs a program in gVisor's Sentry, a kernel in user space, with nothing else
// installed: no Docker, no KVM, no daemon, and no root.
//
// Each sandbox is one silk-sentry process (package sentry) in new user, mount, PID, IPC, UTS and network namespaces,
// without capabilities, under gVisor's own seccomp filter, with an empty root directory. The engine donates what a run
// needs as descriptors: the image, the channels, two tar streams for the workspace. Policy is enforced inside the
// Sentry, in its system call table, before a call has an effect.
//
// This package is the host's side. It does not link gVisor.
package gvisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor/sentrybin"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/embedded"
	"github.com/silk-sandbox/silk/watch"
)

// Config says where things are. The zero value of a field is explained there.
type Config struct {
	Home   string       // state directory: the sandbox kernel is unpacked below it
	Sentry string       // path of silk-sentry; "": the embedded one, see package sentrybin
	Logger *slog.Logger // nil: silent

	// Ready is how many kernels wait for runs from [Driver.KeepReady] on, for programs that start many: each is as [Driver.Prepare]
	// makes it, serves one run, and costs 10 MiB while it waits.
	Ready int

	// Watch, if not nil, begins to watch a sandbox kernel from the host's kernel: pid is its process, which has no children
	// yet, group the directory of its control group, "" unless that is version 2. Its error fails the start, but
	// for that of NotWatched. Unwatched says why it is nil.
	Watch     func(pid int, group string) (Scope, error)
	Unwatched string

	// Groups finds where control groups of sandboxes are made. nil: cgroup.Find.
	Groups func() (*cgroup.Root, error)

	// MaxFileBytes, MaxTotalBytes and MaxEntries bound what is drained from a workspace. Zero: 64 MiB, 256 MiB and
	// 10,000; an engine keeps fewer, and a walk over many more would delay the end of a run.
	MaxFileBytes, MaxTotalBytes int64
	MaxEntries                  int
}

// Scope is a sandbox kernel that the host's kernel watches, with all that comes from it. watch/bpf has the real one.
type Scope interface {
	// Arm begins the alarm: from now on the sandbox kernel has no business with sockets, programs, ids or mounts.
	Arm() error

	// Events are the alarms, as they are raised. The channel is closed by Close.
	Events() <-chan watch.Event

	// Alarms returns how many alarms there were, and the first. An error is as bad as an alarm.
	Alarms() (n uint64, first watch.Event, err error)

	// Lost is closed when nobody watches any more. A sandbox that is watched must end then.
	Lost() <-chan struct{}

	// Kill ends every process in the scope and returns when none is left.
	Kill(ctx context.Context) error

	Close() error
}

// NotWatched is the error of [Config].Watch where the host does not let it: runs that require it are refused, others go on.
func NotWatched(why string) error {
	return &driver.Unheld{
		Promise: "watch", Detail: "the sandbox is not watched from the host's kernel: " + cmp.Or(why, "it was not asked for"),
		Fix: "run silk as root on a kernel with eBPF (silk doctor says what is missing), or leave require_watch out",
	}
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Groups == nil {
		c.Groups = cgroup.Find
	}
	if c.MaxFileBytes == 0 {
		c.MaxFileBytes = 64 << 20
	}
	if c.MaxTotalBytes == 0 {
		c.MaxTotalBytes = 256 << 20
	}
	if c.MaxEntries == 0 {
		c.MaxEntries = 10_000
	}
	return c
}

// Driver starts gVisor sandboxes. It is safe for concurrent use.
type Driver struct {
	config  Config
	host    host
	filling sync.Mutex // held by KeepReady
}

var _ driver.Driver = (*Driver)(nil)

// ErrUnusable is returned by [New] and Start where this host cannot run gVisor sandboxes; the text says why and what to
// install or switch on.
var ErrUnusable = errors.New("the gvisor driver cannot be used here")

// New makes a driver. It finds and, the first time, unpacks the sandbox kernel, and starts nothing.
func New(config Config) (*Driver, error) {
	config = config.withDefaults()
	if err := supported(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	path, err := sentrybin.Kernel.Locate(config.Sentry, config.Home)
	if errors.Is(err, embedded.ErrNotBuilt) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if err != nil { // a full disk, a kernel that others may write to
		return nil, err
	}
	h, err := openHost(path, config)
	if err != nil {
		return nil, err
	}
	return &Driver{config: config, host: h}, nil
}

// Name implements [driver.Driver].
func (*Driver) Name() string { return "gvisor" }

// Start implements [driver.Driver].
func (d *Driver) Start(ctx context.Context, spec driver.Spec) (driver.Sandbox, error) {
	return d.start(ctx, spec)
}

// Package docker is the driver for teams that live on Docker: it starts a container of a real Docker Engine for each run, and keeps
// it tighter than the engine would by itself.
//
// The engine is asked, through its socket, for a container without network, privileges, capabilities, swap or a log, with a
// read-only root, two small file systems in memory, and a seccomp profile of our own (containerOf, seccompProfile). In it the
// first process is silk's launcher (package launch). What is to become the program waits there until the host's kernel watches it
// (watch/bpf), its files are restricted by Landlock and its calls by a second filter, and its workspace is filled; then it is let go.
// Its channels are the run's own pipes, which go past the engine.
//
// Three layers hold the rules of driver/rules. The filter refuses what depends on a call and its arguments; what depends on
// what an argument points to, the name of a file, it asks silk about while the caller waits (supervise). What a program must not even
// try gets an errno from either that no kernel knows, at whose sight the programs in the kernel end the sandbox. And
// behind it all, nothing rests on what was asked: files are absent or closed by Landlock, the network is empty.
//
// A run with a way out has one network device, which silk puts into the container's namespace before the program is let go (package tun): its other
// end is the run's link, and so its gateway's. The program may change nothing of it, and when silk or the gateway is gone, it is gone.
//
// Without eBPF the driver refuses to start. It needs root, Linux 6.2 on amd64 with Landlock, and an engine on the same machine. What silk
// leaves when it is killed is ended by a reaper of the run's own, and swept by label at the next start. `docker exec` is never used.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/watch"
)

// Config says where things are. The zero value of a field is explained there.
type Config struct {
	Home   string       // state directory: which image of the engine is which of ours is noted below it
	Host   string       // the engine's socket, as DOCKER_HOST has it; "": unix:///var/run/docker.sock
	Run    string       // directory for sockets of runs, which root alone enters; "": /run/silk
	Logger *slog.Logger // nil: silent

	// Watch begins to watch the program that a process will become, in the host's kernel, and then writes to release, which lets it go. It
	// must end the scope for bpf.Forbidden. nil: nothing can be started, and Unwatched says why.
	Watch     func(ctx context.Context, pid int, release io.Writer) (Scope, error)
	Unwatched string

	// Ahead, if not nil, does beforehand what Watch has to do once, beside the start of the first container.
	Ahead func()

	// MaxFileBytes, MaxTotalBytes and MaxEntries bound what is drained from a workspace. Zero: 64 MiB, 256 MiB and
	// 10,000; an engine keeps fewer, and a walk over many more would delay the end of a run.
	MaxFileBytes, MaxTotalBytes int64
	MaxEntries                  int
}

// Scope is a program that the host's kernel watches, with all that comes from it. watch/bpf has the real one.
type Scope interface {
	// Events is everything that was seen, in order. The channel is closed by Close.
	Events() <-chan watch.Event

	// Alarms returns how many calls were forbidden, and the first. An error is as bad as one.
	Alarms() (n uint64, first watch.Event, err error)

	// Lost is closed when nobody watches any more. A sandbox must end then.
	Lost() <-chan struct{}

	// Dropped is how many events were not delivered.
	Dropped() (int64, error)

	// Processes lists those that live. None means that the scope is empty.
	Processes() ([]int, error)

	// Kill ends every process in the scope and returns when none is left.
	Kill(ctx context.Context) error

	Close() error
}

// DefaultHost is where an engine listens by default.
const DefaultHost = "unix:///var/run/docker.sock"

func (c Config) withDefaults() Config {
	c.Host, c.Run = cmp.Or(c.Host, DefaultHost), cmp.Or(c.Run, "/run/silk")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.MaxFileBytes, c.MaxTotalBytes = cmp.Or(c.MaxFileBytes, 64<<20), cmp.Or(c.MaxTotalBytes, 256<<20)
	c.MaxEntries = cmp.Or(c.MaxEntries, 10_000)
	return c
}

// Driver starts containers. It is safe for concurrent use.
type Driver struct {
	config Config
	engine *engine
	owner  string
	images imports

	mu      sync.Mutex
	program *os.File // the launcher, for reapers
}

var _ driver.Driver = (*Driver)(nil)

// ErrUnusable is returned by [New] where this host cannot run containers of ours; the text says why.
var ErrUnusable = errors.New("the docker driver cannot be used here")

// Name implements [driver.Driver].
func (*Driver) Name() string { return "docker" }

// Start implements [driver.Driver].
func (d *Driver) Start(ctx context.Context, spec driver.Spec) (driver.Sandbox, error) {
	return d.start(ctx, spec)
}

// Prepare lets what is done once be done beside the rest of a run's start. See run.Preparer.
func (d *Driver) Prepare(context.Context) (release func()) {
	if d.config.Ahead != nil {
		go d.config.Ahead()
	}
	return func() {}
}

// Probe says what this host does not enforce as usual. An error means that no sandbox can be started at all.
func (d *Driver) Probe(ctx context.Context, spec driver.Spec) (notes []string, err error) {
	if err := d.usable(spec); err != nil {
		return nil, err
	}
	v, err := d.engine.version(ctx)
	if err != nil {
		return nil, err
	}
	if v.Os != "linux" || v.Arch != "amd64" {
		return nil, fmt.Errorf("%w: the engine runs on %s/%s, and only linux/amd64 is known", ErrUnusable, v.Os, v.Arch)
	}
	notes = append(notes,
		fmt.Sprintf("the program runs on the host's kernel, in a container of Docker %s; the host's kernel is the watcher (eBPF)", v.Version),
		"files are decided by their names, and closed besides by Landlock; /proc is masked, and read-only where it has settings")
	if !spec.ReadOnly {
		notes = append(notes, "files in /workspace count as memory: the container's limit is memory and workspace together")
	}
	if spec.Network == driver.NetworkLink {
		notes = append(notes, "the engine gives the container no network: what leaves it goes through a tun device that silk puts into it, to the gateway")
	}
	if spec.MemoryBytes < minMemoryBytes {
		notes = append(notes, fmt.Sprintf("memory is limited to %d bytes, the least that an engine takes", minMemoryBytes))
	}
	return notes, nil
}

// Package firecracker is the driver of microVMs: a virtual machine of its own for each run, booted for it and gone with it. What isolates is the
// processor's or an emulator's boundary between guest and host, and the VMM's few devices; in the guest an agent (cmd/silk-guest) keeps the
// program to its plan once more.
//
// A machine has a kernel and an initial file system with the agent, the run's image as a read-only drive, a vsock(7) device whose
// other end is here (package vsock), entropy, and with QEMU a serial console that only errors use. It has no network device: the packets of
// a program that is let out go over the vsock, too. The agent calls the host, is told the plan, and carries what the program reads and writes (package wire
// over internal/guestwire). What it says at the end is checked as an enemy's; that the run is over, and what it used, is known from the VMM.
//
// The VMM is one of two ([New], [NewJailed]).
//
//   - Firecracker, in its jailer: a process of a user of its own in a directory of its own, where it finds what it was given and nothing else, with its own
//     system call filter, without a network, in a control group. It needs KVM, and root for the jailer. Package api tells it what to do. Since it has changed
//     its user it does not die with silk: a reaper ends it, and what a silk that was killed leaves, a directory, the next one sweeps.
//   - QEMU, machine type microvm: with KVM, or by emulation (TCG) where there is none, which is honest and slow. It is a process
//     of its own user where silk is root, with QEMU's own system call filter, in namespaces without a network, in a control group. It gets open files
//     and no names, leaves nothing on a disk, and dies with the thread that started it: what a silk that was killed leaves is an empty control group,
//     which the next one sweeps.
//
// Nothing is snapshotted or reused. The limits: boot has its own, and the run's clock starts with the program. Memory of the
// program is limited in the guest, that of the VMM by its group.
package firecracker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/image"
)

// Config says where things are. The zero value of a field is explained there.
type Config struct {
	Home   string       // state directory: what a machine boots is made below it, once
	Images *image.Store // has the kernel
	Kernel string       // image that machines boot; "": image.KernelTag
	QEMU   string       // path of qemu-system-x86_64; "": there is none
	Agent  string       // path of the agent instead of the built-in one; "": built in
	Logger *slog.Logger // nil: silent

	// Firecracker and Jailer are paths of those programs, of one release. "": there is none.
	Firecracker, Jailer string

	// Console gives machines of Firecracker's a serial port, whose last words stand in errors. It is a device more to attack, and slow.
	Console bool

	// MaxFileBytes, MaxTotalBytes and MaxEntries bound what is drained from a workspace. Zero: 64 MiB, 256 MiB and 10,000.
	MaxFileBytes, MaxTotalBytes int64
	MaxEntries                  int
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.MaxFileBytes, c.MaxTotalBytes = cmp.Or(c.MaxFileBytes, 64<<20), cmp.Or(c.MaxTotalBytes, 256<<20)
	c.MaxEntries = cmp.Or(c.MaxEntries, 10_000)
	c.Kernel = cmp.Or(c.Kernel, image.KernelTag)
	return c
}

// Driver starts virtual machines. It is safe for concurrent use.
type Driver struct {
	config Config
	name   string // its VMM's
	host   host
}

var _ driver.Driver = (*Driver)(nil)

// ErrUnusable is in the error of [Driver.Probe] and Start where this host cannot run virtual machines of ours; the text says what is missing and how to get it.
var ErrUnusable = errors.New("virtual machines cannot be used here")

// New makes a driver whose VMM is QEMU. It starts nothing, and looks for nothing.
func New(config Config) *Driver {
	config = config.withDefaults()
	return &Driver{config: config, name: "qemu", host: qemuHost(config)}
}

// NewJailed makes a driver whose VMM is Firecracker, in its jailer. It starts nothing, and looks for nothing.
func NewJailed(config Config) *Driver {
	config = config.withDefaults()
	return &Driver{config: config, name: "firecracker", host: jailedHost(config)}
}

// Steps of a start that is traced: between them the guest's own clock has counted the time from its kernel's first instructions to the agent's first word.
const (
	TraceKernel = "kernel begins"
	TraceAgent  = "agent is there"
)

// Name implements [driver.Driver]. It is the VMM's.
func (d *Driver) Name() string { return d.name }

// Start implements [driver.Driver].
func (d *Driver) Start(ctx context.Context, spec driver.Spec) (driver.Sandbox, error) {
	return d.start(ctx, spec)
}

// machine is what a VMM is to run.
type machine struct {
	processors  int
	memoryBytes int64 // in whole MiB
	kvm         bool
	clockKHz    int64 // of the host's processors, for a machine that is emulated; 0: unknown

	// Descriptors as the VMM has them, if it is given any.
	kernel, initial, vsock int
	drives                 []drive
}

// drive is a read-only file system.
type drive struct {
	serial string // by which the agent finds it
	fd     int
}

package firecracker

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/silk-sandbox/silk/driver"
)

// vmm is a program that runs machines.
type vmm interface {
	// usable says whether it can be used here. The error is [ErrUnusable] with what is missing and how to get it.
	usable() error

	// kvm says whether its machines have the processor's own virtualization. Others are emulated, and slow.
	kvm() bool

	// bootLimit bounds the time from its start to the agent's first word, and the agent's preparations after it.
	bootLimit() time.Duration

	// notes say what this host does not enforce as usual.
	notes() []string

	// start switches a machine on for s: it sets s.vmm and s.drives, and begins to serve the machine's vsock device. What it acquires
	// is on s.undo, also after an error.
	start(ctx context.Context, s *sandbox, m machine, b boot) error

	// sweep removes what silks that are gone have left besides control groups, and leftovers names it.
	sweep(ctx context.Context) error
	leftovers() ([]string, error)

	// violation is what an ended VMM did that its own filter forbids, or nil.
	violation(state *os.ProcessState) *driver.Violation
}

// line is the host's side of a machine's vsock device. It lets the agent call once, and nobody else at all.
type line struct {
	conn  io.ReadWriteCloser              // the agent's call. Who reads or writes waits for it
	serve func(ctx context.Context) error // is the device until ctx is done or the VMM is gone
}

// ruleBreakout is the rule of a violation that is not the program's own: what isolates it did what it has no reason to do, and was ended.
const ruleBreakout = "host.breakout"

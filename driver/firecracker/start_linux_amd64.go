package firecracker

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/firecracker/wire"
	"github.com/silk-sandbox/silk/internal/guestwire"
)

// bootLimit bounds the time from the VMM's start to the agent's first word, and the agent's preparations after it without the time that Fill
// takes. An emulated machine takes 6 to 20 s on an idle host, and several times that on a busy one.
func bootLimit(kvm bool) time.Duration {
	if kvm {
		return 10 * time.Second
	}
	return 180 * time.Second
}

// guestOverheadBytes is memory of a machine that is neither the program's nor the workspace's: kernel, agent, and page tables.
const guestOverheadBytes = 160 << 20

// Holds says whether this driver can keep what a spec promises.
func (d *Driver) Holds(spec driver.Spec) error {
	if spec.Held != nil {
		return driver.NotHeld(d.Name())
	}
	if spec.RequireWatch {
		return &driver.Unheld{Promise: "watch", Detail: "a virtual machine is not watched from the host's kernel, only by its own", Fix: "leave require_watch out, or use the gvisor driver"}
	}
	return nil
}

// Usable says whether there is all that a machine needs, without starting one. The error is [ErrUnusable] with what is missing and how to get it.
func (d *Driver) Usable() error {
	if err := d.host.vmm.usable(); err != nil {
		return err
	}
	_, _, err := d.parts()
	return err
}

// Probe says what this host does not enforce as usual. An error means that no sandbox can be started at all.
func (d *Driver) Probe(_ context.Context, spec driver.Spec) (notes []string, err error) {
	if err := d.Holds(spec); err != nil {
		return nil, err
	}
	if err := d.Usable(); err != nil {
		return nil, err
	}
	if d.host.vmm.kvm() {
		notes = append(notes, "the program runs in a virtual machine of its own (KVM), whose agent is the only watcher")
	} else {
		notes = append(notes, "the program runs in a virtual machine of its own, which is emulated, as the host has no usable /dev/kvm: it starts in tens of seconds and computes many times slower; its agent is the only watcher")
	}
	notes = append(notes, d.host.vmm.notes()...)
	if _, why := d.host.groups(); why != nil {
		notes = append(notes, fmt.Sprintf("memory and processor time of the VMM itself are not limited: %v", why))
	}
	return notes, nil
}

func (d *Driver) start(ctx context.Context, spec driver.Spec) (_ driver.Sandbox, err error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if err := d.Holds(spec); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := &sandbox{driver: d, spec: spec, over: make(chan struct{})}
	defer func() {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil { // the caller's wish, and what has failed is how it ended
				err = cause
			}
			err = errors.Join(err, s.discard())
		}
	}()
	if err := s.boot(ctx); err != nil {
		return nil, err
	}
	if err := s.let(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *sandbox) trace(step string) {
	if s.spec.Trace != nil {
		s.spec.Trace(step, time.Now())
	}
}

// boot starts the machine and waits for its agent's first word.
func (s *sandbox) boot(ctx context.Context) (err error) {
	d := s.driver
	if err := d.host.vmm.usable(); err != nil {
		return err
	}
	b, err := d.prepared(ctx)
	if err != nil {
		return err
	}
	defer b.close() // the VMM has its own
	s.trace("kernel is there")
	m := machine{processors: visibleCPUs(s.spec), memoryBytes: machineMemory(s.spec), kvm: d.host.vmm.kvm(), clockKHz: d.host.clock()}
	s.limit = d.host.vmm.bootLimit()
	if err := d.host.vmm.start(ctx, s, m, b); err != nil {
		return err
	}
	s.trace("machine is switched on")
	if err := s.await(ctx, s.hello, "the agent did not call"); err != nil {
		return err
	}
	if s.spec.Trace != nil {
		s.spec.Trace(TraceKernel, s.called.Add(-s.uptime))
		s.spec.Trace(TraceAgent, s.called)
	}
	return nil
}

// serve begins to serve the machine's vsock device.
func (s *sandbox) serve(l line) {
	s.conn = guestwire.New(l.conn, guestwire.Host)
	s.hello, s.started, s.reported, s.failed, s.read = make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	s.running.Go(func() {
		if err := l.serve(ctx); err != nil && !errors.Is(err, context.Canceled) {
			s.fail(err)
		}
	})
	s.running.Go(s.listen)
	s.running.Go(s.readReport)
	s.undo.PushFunc(func() {
		cancel()
		_ = s.conn.Close()
		s.running.Wait()
	})
}

// await waits for the machine to come to a point.
func (s *sandbox) await(ctx context.Context, point <-chan struct{}, late string) error {
	timer := time.NewTimer(s.limit)
	defer timer.Stop()
	select {
	case <-point:
		return nil
	case <-s.failed:
		return s.why()
	case <-s.vmm.gone:
		return s.why()
	case <-timer.C:
		return fmt.Errorf("%s within %v; %s", late, s.limit, s.vmm.console.say())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// let tells the agent the plan, fills the workspace, and returns when the program runs, or when it is known that it cannot.
func (s *sandbox) let(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.vmm.kill) // whatever waits for the agent ends
	defer stop()
	plan := wire.PlanOf(s.spec, time.Now())
	plan.Drives = s.drives
	if c := s.driver.config; s.spec.Drain != nil {
		plan.Drain = &wire.Bounds{FileBytes: c.MaxFileBytes, TotalBytes: c.MaxTotalBytes, Entries: c.MaxEntries}
	}
	if err := errors.Join(s.channels(&plan), s.link()); err != nil {
		return err
	}
	b, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	w := s.conn.Writer(guestwire.Plan)
	if _, err := w.Write(b); err != nil {
		return s.because(ctx, err)
	}
	if err := w.Close(); err != nil {
		return s.because(ctx, err)
	}
	s.drain()
	if err := s.fill(); err != nil {
		return s.because(ctx, err)
	}
	s.trace("workspace is filled")
	if err := s.await(ctx, s.started, "the program did not start"); err != nil {
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	s.trace("program runs")
	return nil
}

// fill writes the workspace. A stream that ends in the middle is one that the agent refuses: it has no program yet.
func (s *sandbox) fill() error {
	w := s.conn.Writer(guestwire.Fill)
	fill := s.spec.Fill
	if fill == nil {
		fill = func(w io.Writer) error { return tar.NewWriter(w).Close() }
	}
	if err := fill(w); err != nil {
		return fmt.Errorf("fill workspace: %w", err)
	}
	return w.Close()
}

// because is err, or what has become of the machine meanwhile.
func (s *sandbox) because(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.failed:
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) {
			return s.why()
		}
	default:
	}
	return err
}

// visibleCPUs is how many processors a machine has.
func visibleCPUs(spec driver.Spec) int {
	n := int(spec.CPUs)
	if float64(n) < spec.CPUs {
		n++
	}
	return max(1, min(n, runtime.NumCPU()))
}

// machineMemory is in whole MiB. What /tmp and /dev/shm hold is the program's memory; a workspace that only holds what Fill wrote is not.
func machineMemory(spec driver.Spec) int64 {
	const mib = 1 << 20
	return (spec.MemoryBytes + spec.WorkspaceBytes + guestOverheadBytes + mib - 1) / mib * mib
}

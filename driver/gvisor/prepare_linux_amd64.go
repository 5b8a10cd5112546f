package gvisor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// prepared are kernels that were started ahead of a run. They have seen nothing of one, and serve one.
type prepared struct {
	mu      sync.Mutex
	waiting []*early
	closed  bool
}

// early is one kernel that is being started, or has been.
type early struct {
	cpus int
	done chan struct{} // closed when kernel and err are set
	k    *kernel
	err  error
}

// Prepare starts a kernel ahead of a run: it has seen no code, no input and no image, and serves one run. Prepare
// returns at once, and the next Start waits for that kernel instead of starting another. release ends the kernel if no
// run took it.
func (d *Driver) Prepare(context.Context) (release func()) {
	if d.config.Ready > 0 { // one waits, or the next Start makes its own
		return func() {}
	}
	return d.prepare()
}

// KeepReady starts as many kernels as Config.Ready says, less those that wait already, and returns at once. Each Start sees to it
// again soon after.
func (d *Driver) KeepReady() {
	d.filling.Lock()
	defer d.filling.Unlock()
	for range d.config.Ready - d.host.count() {
		d.prepare()
	}
}

// replaceAfter bounds how long a kernel that was taken is not replaced. Short programs have ended by then: the start of a kernel
// takes 20 ms of CPU time, and makes the end of another wait for the lock of all control groups, for 15 ms where they are of
// version 1.
const replaceAfter = 100 * time.Millisecond

// replace starts another kernel for one that a run may have taken, when that run is over or goes on for a while.
func (d *Driver) replace(over <-chan struct{}) {
	if d.config.Ready == 0 {
		return
	}
	go func() {
		select {
		case <-over:
		case <-time.After(replaceAfter):
		}
		d.KeepReady() // nothing, if the driver is closed by now
	}()
}

func (d *Driver) prepare() (release func()) {
	e := &early{cpus: visibleCPUs(1), done: make(chan struct{})}
	if !d.host.add(e) {
		return func() {}
	}
	go func() {
		defer close(e.done)
		e.k, e.err = d.host.spawn(e.cpus)
	}()
	return func() {
		if d.host.remove(e) {
			if err := e.discard(); err != nil {
				d.config.Logger.Warn("discard sandbox kernel", "err", err)
			}
		}
	}
}

// discard ends a kernel that no run took. One that could not be started is nobody's loss: Start tries again.
func (e *early) discard() error {
	<-e.done
	if e.k == nil {
		return nil
	}
	return e.k.discard()
}

func (p *prepared) add(e *early) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.waiting = append(p.waiting, e)
	}
	return !p.closed
}

// remove takes e out; false means that somebody else has it.
func (p *prepared) remove(e *early) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, e)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	return i >= 0
}

// take returns a prepared kernel that fits, as soon as it is there, or nil. One that has died while it waited is nobody's loss.
func (p *prepared) take(cpus int) *kernel {
	for {
		p.mu.Lock()
		i := slices.IndexFunc(p.waiting, func(e *early) bool { return e.cpus == cpus })
		if i < 0 {
			p.mu.Unlock()
			return nil
		}
		e := p.waiting[i]
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.mu.Unlock()
		<-e.done
		if e.k == nil || !e.k.dead() {
			return e.k
		}
		_ = e.k.discard() // of what has died by itself there is only the rest
	}
}

// count is how many wait, those included that are being started. What has died is taken out.
func (p *prepared) count() int {
	p.mu.Lock()
	var gone []*early
	p.waiting = slices.DeleteFunc(p.waiting, func(e *early) bool {
		if e.over() {
			gone = append(gone, e)
			return true
		}
		return false
	})
	n := len(p.waiting)
	p.mu.Unlock()
	for _, e := range gone {
		_ = e.discard() // of what has died by itself there is only the rest
	}
	return n
}

// over says whether a kernel was started and is of no use any more.
func (e *early) over() bool {
	select {
	case <-e.done:
		return e.k == nil || e.k.dead()
	default:
		return false
	}
}

// dead says whether the process has ended.
func (k *kernel) dead() bool {
	select {
	case <-k.gone:
		return true
	default:
		return false
	}
}

func (p *prepared) discardAll() error {
	p.mu.Lock()
	waiting := p.waiting
	p.waiting, p.closed = nil, true
	p.mu.Unlock()
	var errs []error
	for _, e := range waiting {
		errs = append(errs, e.discard())
	}
	return errors.Join(errs...)
}

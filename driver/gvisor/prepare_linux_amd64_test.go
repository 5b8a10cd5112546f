package gvisor

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// TestTakeWaitsForWhatIsBeingStarted is the promise that a run costs one kernel: a Start that comes while the prepared
// one is still being forked must not fork another.
func TestTakeWaitsForWhatIsBeingStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prepared{}
		e := &early{cpus: 1, done: make(chan struct{})}
		if !p.add(e) {
			t.Fatal("add refused")
		}
		taken := make(chan *kernel)
		go func() { taken <- p.take(1) }()
		synctest.Wait()
		select {
		case k := <-taken:
			t.Fatalf("take did not wait, but returned %v", k)
		default:
		}
		e.k = &kernel{cpus: 1}
		close(e.done)
		if k := <-taken; k != e.k {
			t.Errorf("take returned %v, want the prepared kernel", k)
		}
		if p.remove(e) {
			t.Error("the kernel could be taken twice")
		}
	})
}

// TestTakePassesOverTheDead: a kernel that was ended while it waited must not cost a run.
func TestTakePassesOverTheDead(t *testing.T) {
	testenv.Require(t, testenv.Sentry)
	d, err := New(Config{Sentry: testenv.SentryPath(), Ready: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.KeepReady()
	d.KeepReady() // one is enough
	if n := d.host.count(); n != 1 {
		t.Fatalf("%d kernels wait, want 1", n)
	}
	e := d.host.waiting[0]
	<-e.done
	if e.k == nil {
		t.Fatal(e.err)
	}
	e.k.kill()
	<-e.k.gone
	if k := d.host.take(e.cpus); k != nil {
		t.Error("a dead kernel was taken")
	}
	if left := d.host.count(); left != 0 {
		t.Errorf("%d kernels wait", left)
	}
	d.KeepReady()
	e = d.host.oldest()
	<-e.done
	if e.k == nil {
		t.Fatal(e.err)
	}
	e.k.kill()
	<-e.k.gone
	over := make(chan struct{})
	close(over)
	d.replace(over) // as a run does that found none
	for d.host.count() != 1 || d.host.oldest() == e {
		runtime.Gosched()
	}
}

// oldest is the kernel that waits longest; nil if none does.
func (p *prepared) oldest() *early {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return nil
	}
	return p.waiting[0]
}

func TestTakeOnlyWhatFits(t *testing.T) {
	p := &prepared{}
	e := &early{cpus: 1, done: make(chan struct{})}
	p.add(e)
	if k := p.take(2); k != nil {
		t.Errorf("take returned a kernel for another number of processors")
	}
	if !p.remove(e) {
		t.Error("the kernel that did not fit is gone")
	}
}

func TestNothingIsPreparedAfterTheEnd(t *testing.T) {
	p := &prepared{}
	if err := p.discardAll(); err != nil {
		t.Fatal(err)
	}
	if p.add(&early{}) {
		t.Error("add took a kernel after the driver was closed")
	}
}

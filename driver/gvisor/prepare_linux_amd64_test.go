package gvisor

import (
	"testing"
	"testing/synctest"
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

package sentry

import (
	"sync"
	"testing"
)

// TestHeapSampleCountsStacks has as many goroutines as a guest can make with timer_create(2).
func TestHeapSampleCountsStacks(t *testing.T) {
	const goroutines = 10_000
	h := newHeapSample()
	before := h.bytes()
	var all, started sync.WaitGroup
	stop := make(chan struct{})
	started.Add(goroutines)
	for range goroutines {
		all.Go(func() {
			started.Done()
			<-stop
		})
	}
	started.Wait()
	grown := h.bytes() - before
	close(stop)
	all.Wait()
	if least := int64(goroutines) * (2 << 10); grown < least { // a stack has at least 2 KiB, runtime/stack.go
		t.Errorf("%d goroutines take %d bytes, want at least %d", goroutines, grown, least)
	}
}

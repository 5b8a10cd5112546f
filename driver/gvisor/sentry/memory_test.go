package sentry

import (
	"sync"
	"testing"
	"time"
)

func TestSampleAfter(t *testing.T) {
	for _, test := range []struct {
		left  int64
		cores uint
		want  time.Duration
	}{
		{512 << 20, 1, maxInterval},
		{32 << 20, 1, 15625 * time.Microsecond},
		{32 << 20, 2, 7812500 * time.Nanosecond},
		{32 << 20, 0, 15625 * time.Microsecond},
		{1 << 20, 1, minInterval},
		{0, 1, minInterval},
		{-1 << 20, 1, minInterval},
		{1 << 62, 1, maxInterval},
	} {
		if got := sampleAfter(test.left, test.cores); got != test.want {
			t.Errorf("%d bytes, %d cores: %v, want %v", test.left, test.cores, got, test.want)
		}
	}
}

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

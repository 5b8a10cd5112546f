package firecracker

import (
	"sync"

	"github.com/silk-sandbox/silk/watch"
)

// listener passes events on, from one goroutine. While whoever listens is slow they are dropped and counted.
type listener struct {
	mu      sync.Mutex
	queue   chan watch.Event // nil: nobody listens
	done    chan struct{}
	dropped int64
	closed  bool
}

// begin begins to pass them on.
func (l *listener) begin(to func(watch.Event)) {
	if to == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue, l.done = make(chan watch.Event, 1024), make(chan struct{})
	go func() {
		defer close(l.done)
		for e := range l.queue {
			to(e)
		}
	}()
}

func (l *listener) add(e watch.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue == nil || l.closed {
		return
	}
	select {
	case l.queue <- e:
	default:
		l.dropped++
	}
}

func (l *listener) lost() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// close ends it, and returns when the last event was passed on.
func (l *listener) close() {
	l.mu.Lock()
	open := l.queue != nil && !l.closed
	l.closed = true
	if open {
		close(l.queue)
	}
	l.mu.Unlock()
	if l.done != nil {
		<-l.done
	}
}

package main

import (
	"encoding/json"
	"sync"

	"github.com/silk-sandbox/silk/driver/firecracker/wire"
	"github.com/silk-sandbox/silk/internal/guestwire"
	"github.com/silk-sandbox/silk/watch"
)

// events counts what was seen, remembers the last of it, and tells the host. Who reports an event never waits: what the host does not take in time is dropped
// on the way to it, and counted.
type events struct {
	queue chan watch.Event
	done  chan struct{}

	mu        sync.Mutex
	counts    map[watch.Kind]int64
	last      []watch.Event
	dropped   int64
	processes int64
	closed    bool
}

func newEvents(conn *guestwire.Conn) *events {
	e := &events{queue: make(chan watch.Event, 256), done: make(chan struct{}), counts: map[watch.Kind]int64{}, processes: 1}
	go func() {
		defer close(e.done)
		for v := range e.queue {
			if b, err := json.Marshal(v); err == nil && len(b) <= guestwire.MaxPayload {
				_ = conn.Send(guestwire.Note, b)
			}
		}
	}()
	return e
}

func (e *events) add(v watch.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.counts[v.Kind]++
	if v.Kind == watch.Clone && v.Result == "" {
		e.processes++
	}
	if e.last = append(e.last, v); len(e.last) > wire.LastEvents {
		e.last = append(e.last[:0:0], e.last[1:]...)
	}
	select {
	case e.queue <- v:
	default:
		e.dropped++
	}
}

// sum ends the telling and puts the sum of it into a report.
func (e *events) sum(r *wire.Report) {
	e.mu.Lock()
	e.closed = true
	close(e.queue)
	e.mu.Unlock()
	<-e.done
	r.Counts, r.Dropped, r.Processes = e.counts, e.dropped, e.processes
	if r.Violation != nil {
		r.Last = e.last
	}
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxMany bounds what one client can ask of a server with one connection.
const maxMany = 256

// ErrMany is returned by Add when a viewer of many runs has as many as it may have, until one of them ends; and for a run that it
// has already.
var ErrMany = errors.New("no other run for this viewer")

// Many reads the frames of a set of runs that may change, each with the guarantees of a [Viewer], one frame of each run
// in turn as long as it has one: a run that prints a lot does not keep the others waiting. Frames have the run that
// they are of. Next is for one goroutine at a time, the other methods for any.
type Many struct {
	broker *Broker
	bell   chan struct{}
	stop   func() bool

	mu     sync.Mutex
	views  map[string]*Viewer
	ready  []*Viewer // whoever may have a frame, the next one first
	closed bool
}

// ViewMany makes a viewer without runs. The end of ctx closes it, as [Many.Close] does.
func (b *Broker) ViewMany(ctx context.Context) *Many {
	m := &Many{broker: b, bell: make(chan struct{}, 1), views: map[string]*Viewer{}}
	m.stop = context.AfterFunc(ctx, m.Close)
	return m
}

// Add attaches a run, as [Broker.View] does. It leaves the set after its exit frame. A viewer has 256 runs at most.
func (m *Many) Add(run string, cursor Cursor) error {
	if err := m.reserve(run); err != nil {
		return err
	}
	v, err := m.broker.attach(run, cursor, viewing{many: m}) // takes the lock of a stream, under which wake takes ours
	m.mu.Lock()
	reserved, ok := m.views[run]
	ok = ok && reserved == nil
	switch {
	case err != nil && ok:
		delete(m.views, run)
	case err == nil && ok:
		m.views[run] = v
		m.enqueue(v)
	}
	m.mu.Unlock()
	if err == nil && !ok { // Drop or Close came between
		v.Close()
	}
	return err
}

// reserve takes a place in the set, which holds nil until the viewer is attached.
func (m *Many) reserve(run string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, have := m.views[run]
	switch {
	case m.closed:
		return ErrClosed
	case have:
		return fmt.Errorf("view run %s a second time: %w", run, ErrMany)
	case len(m.views) >= maxMany:
		return fmt.Errorf("view more than %d runs: %w", maxMany, ErrMany)
	}
	m.views[run] = nil
	return nil
}

// Drop detaches a run. That it is not in the set is no error.
func (m *Many) Drop(run string) {
	m.mu.Lock()
	v := m.views[run]
	delete(m.views, run)
	m.mu.Unlock()
	if v != nil {
		v.Close()
	}
}

// Next returns the next frame of any of the runs as JSON, which the caller must not change, and waits for it. It returns
// ErrClosed after Close, never io.EOF: another run may be added. An error of ctx leaves the viewer as it was.
func (m *Many) Next(ctx context.Context) ([]byte, error) {
	for {
		v, err := m.pop()
		if err != nil {
			return nil, err
		}
		if v == nil {
			select {
			case <-m.bell:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			continue
		}
		frame, err := v.poll()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, ErrClosed) && m.dropped(v):
			m.forget(v)
		case err != nil:
			return nil, err
		case frame != nil && v.done: // there is room for another one from now on
			m.forget(v)
			return frame, nil
		case frame != nil:
			m.mu.Lock()
			m.enqueue(v)
			m.mu.Unlock()
			return frame, nil
		}
	}
}

// Close releases the viewer and detaches its runs.
func (m *Many) Close() {
	m.stop()
	m.mu.Lock()
	views := m.views
	m.views, m.ready, m.closed = nil, nil, true
	m.ring()
	m.mu.Unlock()
	for _, v := range views {
		if v != nil {
			v.Close()
		}
	}
}

// pop takes the viewer whose turn it is, or nil.
func (m *Many) pop() (*Viewer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if len(m.ready) == 0 {
		return nil, nil
	}
	v := m.ready[0]
	m.ready[0] = nil
	m.ready = m.ready[1:]
	v.queued = false
	return v, nil
}

// wake is called by a viewer that has something, with the lock of its stream held.
func (m *Many) wake(v *Viewer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enqueue(v)
}

// enqueue puts a viewer at the end of those that may have a frame. The lock is held.
func (m *Many) enqueue(v *Viewer) {
	if v.queued || m.closed {
		return
	}
	v.queued = true
	m.ready = append(m.ready, v)
	m.ring()
}

func (m *Many) ring() {
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// dropped says whether a viewer is none of the set any more.
func (m *Many) dropped(v *Viewer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.views[v.stream.run] != v
}

// forget removes a viewer whose run has ended.
func (m *Many) forget(v *Viewer) {
	m.mu.Lock()
	if m.views[v.stream.run] == v {
		delete(m.views, v.stream.run)
	}
	m.mu.Unlock()
	v.Close()
}

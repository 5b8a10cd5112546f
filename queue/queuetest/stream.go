// Package queuetest has a [queue.Stream] in memory, for tests of what uses a queue, and [TestStream], which every stream
// passes.
package queuetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/silk-sandbox/silk/queue"
)

// Stream is a stream in memory. Its zero value is ready. It never forgets who has what: a [queue.Delivery] that is not
// kept stays out.
type Stream struct {
	mu       sync.Mutex
	perToken int
	total    int
	runs     []run
	err      error
}

type run struct {
	id, token string
	out       bool
}

// Fail makes every call fail with err, until it is called with nil.
func (s *Stream) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Lose forgets run, as a damaged stream does.
func (s *Stream) Lose(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(id)
}

// Restart is what a new start of a server does: nothing is out any more.
func (s *Stream) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.runs {
		s.runs[i].out = false
	}
}

func (s *Stream) remove(id string) {
	s.runs = slices.DeleteFunc(s.runs, func(r run) bool { return r.id == id })
}

// Limit implements [queue.Stream].
func (s *Stream) Limit(_ context.Context, perToken, total int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.perToken, s.total = perToken, total
	return s.err
}

var errFull = errors.New("the stream is full")

// Publish implements [queue.Stream].
func (s *Stream) Publish(_ context.Context, token, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	own := 0
	for _, r := range s.runs {
		if r.id == id {
			return nil
		}
		if r.token == token {
			own++
		}
	}
	if s.total > 0 && (own >= s.perToken || len(s.runs) >= s.total) {
		return errFull
	}
	s.runs = append(s.runs, run{id: id, token: token})
	return nil
}

// Next implements [queue.Stream].
func (s *Stream) Next(_ context.Context, token string, limit int) (queue.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	out, first := 0, -1
	for i, r := range s.runs {
		switch {
		case r.token != token:
		case r.out:
			out++
		case first < 0:
			first = i
		}
	}
	if first < 0 || out >= limit {
		return nil, nil
	}
	s.runs[first].out = true
	return &delivery{s, s.runs[first].id}, nil
}

// List implements [queue.Stream].
func (s *Stream) List(context.Context) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	for _, r := range s.runs {
		all[r.id] = r.token
	}
	return all, s.err
}

// Drop implements [queue.Stream].
func (s *Stream) Drop(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.remove(id)
	}
	return s.err
}

type delivery struct {
	stream *Stream
	run    string
}

func (d *delivery) Run() string                   { return d.run }
func (d *delivery) Ack(ctx context.Context) error { return d.stream.Drop(ctx, d.run) }

func (d *delivery) Return(context.Context) error {
	d.stream.mu.Lock()
	defer d.stream.mu.Unlock()
	for i, r := range d.stream.runs {
		if r.id == d.run && d.stream.err == nil {
			d.stream.runs[i].out = false
		}
	}
	return d.stream.err
}

func (d *delivery) Keep() error {
	d.stream.mu.Lock()
	defer d.stream.mu.Unlock()
	return d.stream.err
}

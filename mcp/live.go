package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/api"
)

// live is a run that this server has begun.
type live struct {
	known   chan struct{} // closed when the run has an id and is accepted, or will never be
	done    chan struct{} // closed when it has ended; outcome and err are valid then
	changed chan struct{} // has one entry when something happened that a client may want to hear of
	cancel  context.CancelCauseFunc

	stdout, stderr buffer
	outcome        api.Outcome
	err            error

	mu      sync.Mutex
	id      string
	state   api.State
	profile string
	waits   int       // so many are before it in the queue of the server
	began   time.Time // when it started to run, else when it was asked for
}

// errWaited is why a run has no outcome.
var errWaited = errors.New("it was ended while it waited for others, and has not run")

// busyError says that too much waits already.
type busyError struct{}

func (busyError) Error() string {
	return "too many runs at once: wait for one to end, or end one with cancel_run, and try again"
}

// start begins a run that ends when ctx does. In the background it does not wait for others.
func (s *Server) start(ctx context.Context, req api.RunRequest, background bool) (*live, error) {
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	select {
	case s.queue <- struct{}{}:
	default:
		return nil, busyError{}
	}
	slot := false
	if background {
		select {
		case s.slots <- struct{}{}:
			slot = true
		default:
			<-s.queue
			return nil, busyError{}
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	l := &live{
		known: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}, 1), cancel: cancel,
		state: api.StateQueued, began: time.Now(),
	}
	known := sync.OnceFunc(func() { close(l.known) })
	s.runs.Go(func() {
		defer func() {
			stop()
			cancel(nil)
			<-s.queue
			s.forget(l)
			close(l.done)
			known() // after done: who waits for it looks whether it has ended
		}()
		if !slot {
			select {
			case s.slots <- struct{}{}:
			case <-ctx.Done():
				l.err = errWaited
				return
			}
		}
		defer func() { <-s.slots }()
		if ctx.Err() != nil { // and its turn came at the same moment
			l.err = errWaited
			return
		}
		l.outcome, l.err = s.cfg.Engine.Run(ctx, req, func(f api.Frame, data []byte) {
			l.note(f, data)
			if f.Type == api.FrameHello {
				s.remember(l, f.Run)
			}
			if f.Type == api.FrameStarted || f.Type == api.FrameHello && f.State != "" {
				known()
			}
		})
	})
	return l, nil
}

// remember makes a run one that others can be asked about.
func (s *Server) remember(l *live, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[id] = l
}

func (s *Server) forget(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, l.look().ID)
}

// lookup finds a run that lives.
func (s *Server) lookup(id string) (*live, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.live[id]
	return l, ok
}

// note takes a frame in.
func (l *live) note(f api.Frame, data []byte) {
	l.mu.Lock()
	switch f.Type {
	case api.FrameHello:
		l.id, l.profile = f.Run, f.Profile
		if f.State != "" {
			l.state = api.State(f.State)
		}
	case api.FrameQueued:
		l.state, l.waits = api.StateQueued, f.Position
	case api.FrameStarted:
		l.state, l.waits, l.began = api.StateRunning, 0, time.Now()
	}
	l.mu.Unlock()
	if f.Type == api.FrameOutput && f.Offset != nil {
		l.channel(f.Channel).write(*f.Offset, data)
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *live) channel(name string) *buffer {
	if name == "stderr" {
		return &l.stderr
	}
	return &l.stdout
}

// look is what is known of the run.
func (l *live) look() api.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return api.Run{ID: l.id, State: l.state, Profile: l.profile, Position: l.waits, StartedAtMs: l.began.UnixMilli()}
}

package serve

import (
	"fmt"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/run"
)

// liveRun is an accepted run that has not ended: what viewers read, and what the program reads while it runs.
type liveRun struct {
	session string
	stream  *broker.Stream
	input   *input
	open    bool          // its input is sent while it runs
	term    bool          // it has a terminal
	resize  chan run.Size // of one element: the newest size counts
}

// defaultSpool is how much of each channel the log of a run has at least while it runs, so that a viewer which is slower than
// the program for a while loses nothing. It is gone when the run has ended.
const defaultSpool = 64 << 20

// open makes the live part of an accepted run. Its stream takes frames from now on.
func (s *Server) open(e queue.Entry, in api.RunRequest, outputBytes int64) (*liveRun, error) {
	id := e.Run
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.live[id]; ok {
		return l, nil
	}
	stream, err := s.cfg.Broker.Open(id, broker.Limits{LogBytes: max(outputBytes, s.cfg.SpoolBytes)})
	if err != nil {
		return nil, fmt.Errorf("open the stream of run %s: %w", id, err)
	}
	l := &liveRun{
		session: e.Session, stream: stream, input: newInput(), resize: make(chan run.Size, 1),
		open: in.StdinOpen || in.Terminal != nil, term: in.Terminal != nil,
	}
	s.live[id] = l
	s.tell(id, e.Session)
	return l, nil
}

func (s *Server) lookup(id string) (*liveRun, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.live[id]
	return l, ok
}

// close publishes the end of a run and forgets its live part.
func (s *Server) close(id string, out run.Outcome) error {
	s.tellEnd(id, out)
	return s.cfg.Broker.Remove(id) // the record has the output
}

// tellEnd is close for a run whose record has no end yet: the log of its output is still needed.
func (s *Server) tellEnd(id string, out run.Outcome) {
	s.mu.Lock()
	l, ok := s.live[id]
	delete(s.live, id)
	s.mu.Unlock()
	if !ok {
		return
	}
	s.metrics.count(out)
	l.input.end()
	if out.Kind == run.Violated {
		l.stream.Publish(violation(out))
	}
	shown := OutcomeOf(out)
	for _, f := range displays(shown) {
		l.stream.Publish(f)
	}
	l.stream.End(shown)
	s.traces.end(id, out, s.traceContent(id))
}

// displays are the frames of what the program shows.
func displays(out api.Outcome) (frames []api.Frame) {
	for _, a := range out.Artifacts {
		if a.Display != "" {
			frames = append(frames, api.Frame{Type: api.FrameDisplay, Run: out.Run, MIME: a.Display, Path: a.Path})
		}
	}
	return frames
}

func violation(out run.Outcome) api.Frame {
	return api.Frame{Type: api.FrameViolation, Rule: out.Rule, Syscall: out.Syscall, Detail: out.Argument}
}

// setSize hands the newest size of a client's terminal to the run; one that nobody has taken yet is replaced.
func (l *liveRun) setSize(size run.Size) {
	for {
		select {
		case l.resize <- size:
			return
		default:
		}
		select {
		case <-l.resize:
		default:
		}
	}
}

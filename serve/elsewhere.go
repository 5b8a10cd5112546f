package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/queue"
)

// ErrElsewhere says that another server of the same database has the run: what is live of it, and its files, are on that host.
// It is ErrState.
var ErrElsewhere = fmt.Errorf("%w: it is another server's, where its live stream, its input, its artifacts and long output are", ErrState)

// elsewhere is ErrElsewhere if e is another server's to run.
func (s *Server) elsewhere(e queue.Entry) error {
	if s.cfg.Queue.Elsewhere(e) {
		return ErrElsewhere
	}
	return nil
}

// orElsewhere is ErrElsewhere for a run that the broker does not know because another server has it, else err.
func (s *Server) orElsewhere(ctx context.Context, runID string, err error) error {
	if errors.Is(err, broker.ErrUnknownRun) {
		if e, other := s.cfg.Queue.Get(ctx, runID); other == nil && e.State != queue.Ended && s.cfg.Queue.Elsewhere(e) {
			return ErrElsewhere
		}
	}
	return err
}

// Adopt gives a run a stream here that waited for a server which has died: for queue.Config.
func (s *Server) Adopt(ctx context.Context, e queue.Entry) {
	if err := s.resume(ctx, e); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("take up a run of another server", logkey.Run, e.Run, logkey.Error, err)
	}
}

// watchInterval is how late viewers hear of an end that another server wrote.
const watchInterval = 2 * time.Second

// Watch ends the streams of runs that another server has ended, until ctx ends: an owner may deny there, a client cancel, or
// this server be taken for dead. Where no other server uses the database it does nothing.
func (s *Server) Watch(ctx context.Context) error {
	if !s.cfg.Queue.Shares() {
		return nil
	}
	again := time.NewTicker(watchInterval)
	defer again.Stop()
	before := map[string]bool{} // what we had that had ended, when we last looked
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
		now, err := s.endedElsewhere(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Logger.Warn("the table of runs cannot be read now", logkey.Error, err)
			}
			continue
		}
		for run := range now {
			if !before[run] { // whoever has just ended it here gets the time between two looks to tell
				continue
			}
			if err := s.tellEndElsewhere(ctx, run); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("tell of the end of a run", logkey.Run, run, logkey.Error, err)
			}
		}
		before = now
	}
}

// endedElsewhere lists the runs that have a stream here and have ended in the table.
func (s *Server) endedElsewhere(ctx context.Context) (map[string]bool, error) {
	ended := map[string]bool{}
	s.mu.Lock()
	for run := range s.live { // first: a run has its row before its stream
		ended[run] = true
	}
	s.mu.Unlock()
	if len(ended) == 0 {
		return ended, nil
	}
	open, err := s.cfg.Queue.Open(ctx)
	for _, run := range open {
		delete(ended, run)
	}
	return ended, err
}

// tellEndElsewhere is close for a run whose end another server has recorded.
func (s *Server) tellEndElsewhere(ctx context.Context, run string) error {
	entry, err := s.recordOf(ctx, run)
	if err != nil {
		return err
	}
	out := recordedOutcome(entry.Record.Brief())
	s.mu.Lock()
	l, ok := s.live[run]
	if ok && out != nil {
		delete(s.live, run)
	}
	s.mu.Unlock()
	if !ok || out == nil {
		return nil
	}
	l.input.end()
	l.stream.End(*out)
	s.traces.forget(run)
	return s.cfg.Broker.Remove(run)
}

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// errRestarted is how runs end that were running when the server was killed.
var errRestarted = errors.New(run.HostRestarted + ": silk was ended while the run was running")

// Recover takes up what an earlier server left. Runs that had started end as [run.Error] with the output that had arrived; runs
// that wait get a stream again; what was decided meanwhile is carried out. Call it once, before Work and before any door opens.
func (s *Server) Recover(ctx context.Context) error {
	// The engine ends the records of runs whose engine is gone, with what Salvage finds: first, so that they have ends.
	if _, err := s.cfg.Engine.Recover(ctx); err != nil {
		return err
	}
	lost, err := s.cfg.Queue.Lost(ctx)
	if err != nil {
		return err
	}
	for _, e := range lost {
		if err := s.endLost(ctx, e); err != nil {
			return fmt.Errorf("end run %s, which was running: %w", e.Run, err)
		}
	}
	if err := s.removeLogs(ctx); err != nil {
		return err
	}
	waiting, err := s.cfg.Queue.Waiting(ctx)
	if err != nil {
		return err
	}
	for _, e := range waiting {
		if err := s.resume(ctx, e); err != nil {
			return fmt.Errorf("take up run %s: %w", e.Run, err)
		}
	}
	return nil
}

// removeLogs removes the logs of runs that have ended: a server was killed between the two.
func (s *Server) removeLogs(ctx context.Context) error {
	left, err := s.cfg.Broker.Left()
	if err != nil {
		return err
	}
	for _, id := range left {
		e, err := s.cfg.Queue.Get(ctx, id)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return err
		}
		if err == nil && e.State != queue.Ended {
			continue
		}
		if err := s.cfg.Broker.Remove(id); err != nil {
			return err
		}
	}
	return nil
}

// endLost makes sure that a run that was running has a record, and its row an end.
func (s *Server) endLost(ctx context.Context, e queue.Entry) error {
	entry, err := record.Get(ctx, s.cfg.DB, e.Run)
	switch {
	case errors.Is(err, record.ErrNotFound): // it was taken, and had not come to the engine
		_, req, err := decode(e)
		if err != nil {
			req = policy.Request{Client: policy.ClientAPI}
		}
		if _, err := s.refuse(ctx, e, req, errRestarted); err != nil {
			return err
		}
	case err != nil:
		return err
	case entry.Record.Outcome.Kind == "": // its end could not be written when it came
		if err := s.cfg.Engine.EndLost(ctx, e.Run); err != nil {
			return err
		}
	}
	s.dropEmpty(e.Run)
	s.traces.lost(e, run.Kind(cmp.Or(entry.Record.Outcome.Kind, string(run.Error))))
	s.cfg.Logger.Warn("a run was running when the server before this one ended", logkey.Run, e.Run)
	return errors.Join(s.cfg.Queue.Done(ctx, e.Run, nil), s.cfg.Broker.Remove(e.Run))
}

// resume gives a run that waits its stream again.
func (s *Server) resume(ctx context.Context, e queue.Entry) error {
	in, req, err := decode(e)
	if err != nil {
		return s.endWaiting(ctx, e, nil, err)
	}
	if e.Canceled { // and nobody came to end it
		return s.endWaiting(ctx, e, nil, context.Canceled)
	}
	plan, err := s.cfg.Decide(req)
	var denial *policy.Denial
	if err != nil && !errors.As(err, &denial) {
		return s.endWaiting(ctx, e, nil, err)
	}
	if err := s.announce(e, in, plan, denial); err != nil || e.State != queue.Pending {
		return err
	}
	a, err := approval.Get(ctx, s.cfg.DB, e.Run)
	if err != nil || a.State == approval.Pending {
		return err
	}
	return s.settle(ctx, a) // it was decided, and the decision not yet carried out
}

// End ends a run that nobody else does: for queue.Config.
func (s *Server) End(ctx context.Context, e queue.Entry) {
	var err error
	if e.Waiting() {
		err = s.endWaiting(ctx, e, nil, context.Canceled)
	} else {
		err = s.endLost(ctx, e)
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("end a run that was left", logkey.Run, e.Run, logkey.Error, err)
	}
}

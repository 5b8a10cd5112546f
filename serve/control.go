package serve

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/run"
)

// Cancel ends a run. One that waits never starts; one that runs is ended, and this does not wait for it. A run that has ended
// is ErrState.
func (s *Server) Cancel(ctx context.Context, id auth.Identity, runID string) error {
	e, err := s.controlled(ctx, id, runID)
	if err != nil {
		return err
	}
	waiting, err := s.cfg.Queue.Cancel(ctx, runID)
	switch {
	case errors.Is(err, queue.ErrEnded):
		return fmt.Errorf("%w: it has ended", ErrState)
	case err != nil:
		return err
	case !waiting:
		return nil // its worker ends it
	}
	return s.endWaiting(ctx, e, func(tx *sql.Tx) error {
		_, err := approval.Withdraw(ctx, tx, runID, id.Token, time.Now())
		return err
	}, context.Canceled)
}

// endWaiting ends a run that has not started, with a record that says why.
func (s *Server) endWaiting(ctx context.Context, e queue.Entry, also func(*sql.Tx) error, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	// Several may want to end it: a client cancels, the owner denies, time runs out. One does.
	if !s.claim(e.Run) {
		return nil
	}
	defer s.release(e.Run)
	if now, err := s.cfg.Queue.Get(ctx, e.Run); err != nil || now.State == queue.Ended {
		return err
	}
	_, req, err := decode(e)
	if err != nil {
		req = policy.Request{Client: policy.ClientAPI}
	}
	out, err := s.refuse(ctx, e, req, cause)
	if err != nil {
		return err
	}
	if err := s.cfg.Queue.Done(ctx, e.Run, also); err != nil && !errors.Is(err, queue.ErrEnded) {
		return err
	}
	return s.close(e.Run, out)
}

// claim says whether the caller is the one who ends a run that has not started; then it must release it.
func (s *Server) claim(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending[run] {
		return false
	}
	s.ending[run] = true
	return true
}

func (s *Server) release(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ending, run)
}

// Resize tells the program that its terminal has another size.
func (s *Server) Resize(ctx context.Context, id auth.Identity, runID string, size api.Size) error {
	e, err := s.controlled(ctx, id, runID)
	if err != nil {
		return err
	}
	l, ok := s.lookup(runID)
	if err := s.elsewhere(e); !ok && e.State != queue.Ended && err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: it has ended", ErrState)
	}
	if !l.term {
		return fmt.Errorf("%w: it has no terminal", ErrState)
	}
	l.setSize(run.Size{Columns: size.Columns, Rows: size.Rows})
	return nil
}

// Decide is the owner's answer to a run that waits. See approval.Decide for what it refuses.
func (s *Server) Decide(ctx context.Context, id auth.Identity, runID string, d api.DecisionRequest) (api.Approval, error) {
	if d.ForHours != 0 && !d.Grant {
		return api.Approval{}, &InvalidError{[]Fault{{"body.for_hours", "a denial covers nothing else: leave it out"}}}
	}
	a, err := approval.Decide(ctx, s.cfg.DB, approval.Decision{
		Run: runID, Hash: d.Hash, By: id, Grant: d.Grant, For: time.Duration(d.ForHours) * time.Hour, Reason: d.Reason, OwnLocal: s.cfg.OwnLocal,
	})
	if err != nil {
		return api.Approval{}, err
	}
	s.decided()
	// It is decided: that the client goes away changes nothing any more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	s.traces.answered(a)
	if l, ok := s.lookup(runID); ok {
		l.stream.Publish(api.Frame{Type: api.FrameApproval, State: string(a.State)})
	}
	if err := s.settle(ctx, a); err != nil {
		return api.Approval{}, err
	}
	return approvalOf(a), nil
}

// RevokeGrant ends what a grant covers beyond its own run.
func (s *Server) RevokeGrant(ctx context.Context, id auth.Identity, runID string) (api.Approval, error) {
	a, err := approval.Revoke(ctx, s.cfg.DB, id, runID, time.Now())
	return approvalOf(a), err
}

// settle does what an answer means: the run is queued, or it ends.
func (s *Server) settle(ctx context.Context, a approval.Approval) error {
	if a.State == approval.Granted {
		if err := s.cfg.Queue.Release(ctx, a.Run, nil); err != nil && !errors.Is(err, queue.ErrCanceled) && !errors.Is(err, queue.ErrEnded) {
			return err
		}
		if l, ok := s.lookup(a.Run); ok {
			s.tellPosition(l, a.Run)
		}
		return nil
	}
	e, err := s.cfg.Queue.Get(ctx, a.Run)
	if err != nil {
		return err
	}
	if e.State == queue.Ended {
		return nil
	}
	detail := "the owner denied it"
	if a.State == approval.Expired {
		detail = "nobody approved it in time"
	}
	if a.Reason != "" {
		detail += ": " + a.Reason
	}
	return s.endWaiting(ctx, e, nil, &policy.Denial{Rule: policy.RuleApproval, Detail: detail})
}

// expireInterval is how late an approval may be found to have expired.
const expireInterval = time.Second

// Expire denies what nobody decided about in time, until ctx ends.
func (s *Server) Expire(ctx context.Context) error {
	again := time.NewTicker(expireInterval)
	defer again.Stop()
	for {
		ended, err := approval.Expire(ctx, s.cfg.DB, time.Now())
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("expire approvals", "error", err)
		}
		for _, a := range ended {
			if l, ok := s.lookup(a.Run); ok {
				l.stream.Publish(api.Frame{Type: api.FrameApproval, State: string(a.State)})
			}
			if err := s.settle(ctx, a); err != nil {
				s.cfg.Logger.Error("end a run that nobody approved", "run", a.Run, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

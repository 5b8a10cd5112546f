package queue

import (
	"context"
	"time"

	"github.com/silk-sandbox/silk/internal/logkey"
)

// keepLoop keeps what this server has of the stream.
func (q *Queue) keepLoop(ctx context.Context) {
	tick := time.NewTicker(KeepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var all []Delivery
		q.mu.Lock()
		for _, a := range q.active {
			all = append(all, a.delivery)
		}
		for _, l := range q.schedule.ring {
			if l.held != nil {
				all = append(all, l.held.Delivery)
			}
		}
		q.mu.Unlock()
		for _, d := range all {
			if err := d.Keep(); err != nil {
				q.cfg.Logger.Warn("the queue's stream keeps no run now", logkey.Run, d.Run(), logkey.Error, err)
			}
		}
	}
}

// pollLoop looks at the table for what nobody has told this server, until ctx is done. life is what Config.End gets.
func (w *work) pollLoop(ctx, life context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	ending := map[string]chan struct{}{} // runs that Config.End has
	defer func() {
		for _, done := range ending {
			<-done
		}
	}()
	before := map[string]bool{} // lost when we last looked
	for {
		select {
		case <-tick.C:
		case <-w.poll:
		case <-ctx.Done():
			return
		}
		if err := w.adopt(ctx); err != nil {
			w.pollFailed(ctx, err)
			continue
		}
		if err := w.sync(ctx); err != nil {
			w.pollFailed(ctx, err)
			continue
		}
		lost, err := w.Lost(ctx)
		if err != nil {
			w.pollFailed(ctx, err)
			continue
		}
		now := map[string]bool{}
		for _, e := range lost {
			now[e.Run] = true
			// Whoever canceled it, or whose function has just come back, gets the time between two looks to end it.
			if before[e.Run] && w.cfg.End != nil && finished(ending[e.Run]) {
				done := make(chan struct{})
				ending[e.Run] = done
				go func() { defer close(done); w.cfg.End(life, e) }()
			}
		}
		for run, done := range ending {
			if !now[run] && finished(done) {
				delete(ending, run)
			}
		}
		before = now
	}
}

func finished(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return done == nil
	}
}

func (w *work) pollFailed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.cfg.Logger.Warn("the table of runs cannot be read now", logkey.Error, err)
	}
}

// sync makes the lines agree with the table, tells runs of their cancelation by another server, and lets the stream be asked again.
func (q *Queue) sync(ctx context.Context) error {
	q.mu.Lock()
	known := map[string]string{} // before we read, so that what is added meanwhile is not taken for gone
	for _, l := range q.schedule.ring {
		for _, r := range l.runs {
			known[r.run] = l.token
		}
	}
	q.mu.Unlock()
	rows, err := q.queued(ctx)
	if err != nil {
		return err
	}
	canceled, err := q.canceled(ctx)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	changed := false
	for _, r := range rows {
		if known[r.run] == "" && q.active[r.run] == nil {
			// Another server has accepted it, or it was given back, and is in the stream; unless somebody died or failed
			// before that. Publishing tells.
			changed = true
			q.schedule.add(r.token, r.run, r.limit)
			q.unsent = append(q.unsent, sending{r.token, r.run})
			ring(q.settle)
		}
		delete(known, r.run)
	}
	for run, token := range known {
		changed = true
		if q.schedule.remove(token, run) != nil {
			q.undone[run] = true
			ring(q.settle)
		}
		if q.active[run] == nil {
			q.unwatch(run)
		}
	}
	for _, run := range canceled {
		if a := q.active[run]; a != nil {
			a.cancel(ErrCanceled)
		}
	}
	for _, l := range q.schedule.ring {
		l.wet()
	}
	ring(q.wake)
	if changed {
		ring(q.dirty)
	}
	return nil
}

// canceled lists the runs of this server that somebody has asked to end.
func (q *Queue) canceled(ctx context.Context) (runs []string, err error) {
	all, err := entries(ctx, q.db, "WHERE state = 'running' AND state <> 'ended' AND worker = ? AND cancel = 1", q.cfg.Worker)
	for _, e := range all {
		runs = append(runs, e.Run)
	}
	return runs, err
}

package queue

import (
	"context"
	"time"

	"github.com/silk-sandbox/silk/internal/logkey"
)

// perToken is how many runs of a token with these bounds the stream must take: those that run are in it, too, and for a
// moment those that end while others start.
func perToken(queued, running int) int { return queued + 2*running }

// publish puts a queued run into its line and into the stream, or leaves the latter to settleLoop.
func (q *Queue) publish(ctx context.Context, e Entry) {
	q.mu.Lock()
	q.schedule.add(e.Token, e.Run, e.MaxRunning)
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
	defer cancel()
	s := sending{e.Token, e.Run}
	err := q.limit(ctx)
	if err == nil {
		err = q.send(ctx, s)
	}
	if err != nil {
		q.cfg.Logger.Warn("the queue's stream takes no run now; it is accepted and published later", logkey.Run, e.Run, logkey.Error, err)
		q.mu.Lock()
		q.unsent = append(q.unsent, s)
		q.mu.Unlock()
		ring(q.settle)
	}
	q.cfg.step("published", e.Run)
	q.changed()
}

// send publishes one run.
func (q *Queue) send(ctx context.Context, s sending) error {
	if err := q.cfg.Stream.Publish(ctx, s.token, s.run); err != nil {
		return err
	}
	q.mu.Lock()
	q.schedule.sent(s.token, s.run)
	q.mu.Unlock()
	q.changed()
	return nil
}

// limit tells the stream its bounds, if they have grown. They are never the ones that refuse: the transaction of Submit is
// exact and comes first.
func (q *Queue) limit(ctx context.Context) error {
	q.mu.Lock()
	most, limited := q.perToken, q.limited
	q.mu.Unlock()
	if most <= limited {
		return nil
	}
	if err := q.cfg.Stream.Limit(ctx, most, max(most, perToken(q.cfg.Queued, q.cfg.Running))); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limited = max(q.limited, most)
	return nil
}

// changed wakes whoever looks at the lines.
func (q *Queue) changed() {
	ring(q.wake)
	ring(q.dirty)
}

// Waits between two tries to bring the stream up to date.
const (
	settleFirst = 100 * time.Millisecond
	settleLast  = 5 * time.Second
)

// settleLoop publishes what could not be published and drops what could not be dropped, until ctx is done.
func (q *Queue) settleLoop(ctx context.Context) {
	wait := settleFirst
	for {
		select {
		case <-q.settle:
		case <-ctx.Done():
			return
		}
		for !q.settleOnce(ctx) {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			wait = min(2*wait, settleLast)
		}
		wait = settleFirst
	}
}

// settleOnce tries once, and says whether nothing is left to do.
func (q *Queue) settleOnce(ctx context.Context) bool {
	q.mu.Lock()
	send := q.unsent
	q.unsent = nil
	drop := q.undone
	q.undone = map[string]bool{}
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	var err error
	if len(send) > 0 {
		err = q.limit(ctx)
	}
	for len(send) > 0 && err == nil {
		if err = q.send(ctx, send[0]); err == nil {
			send = send[1:]
		}
	}
	for run := range drop {
		if derr := q.cfg.Stream.Drop(ctx, run); derr != nil {
			err = derr
			break
		}
		delete(drop, run)
	}
	if err != nil {
		q.cfg.Logger.Warn("the queue's stream is behind the table", "unsent", len(send), "undone", len(drop), logkey.Error, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unsent = append(send, q.unsent...)
	for run := range drop {
		q.undone[run] = true
	}
	return len(q.unsent) == 0 && len(q.undone) == 0
}

package handoff

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/store"
)

// waits are the times from one attempt to the next: those that the specification of Standard Webhooks recommends
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, "Webhook delivery"), until three days
// are over. After the attempt that follows the last one a delivery is dead.
var waits = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}

const (
	leaseMore   = time.Minute     // beyond a sink's own time, until an attempt is taken for lost with its process
	pollEvery   = time.Second     // of Work; hand-offs come from other processes too
	settleTime  = 5 * time.Second // for writing what became of an attempt, whatever happened to the caller
	maxErrBytes = 1000
)

// Report is what a call of [Outbox.Deliver] did.
type Report struct {
	Delivered int
	Failed    []Failure
}

// Failure is an attempt that failed.
type Failure struct {
	Handoff, Run, Receiver, Sink string

	Dead bool // it was the last one
	Err  error
}

// claim is a delivery that this process makes.
type claim struct {
	id, run, receiver string
	content           []byte
	attempts          int // this one included
	due               int64
}

// Deliver makes the deliveries that are due now, each sink's one after the other and all sinks at once. It returns when they are made,
// or ctx ends: an attempt that ctx cuts short does not count. The error is about the database.
func (o *Outbox) Deliver(ctx context.Context, db *store.DB) (Report, error) {
	var mu sync.Mutex
	var all Report
	var errs []error
	var wait sync.WaitGroup
	now := o.cfg.Now()
	for _, s := range o.sinks {
		wait.Go(func() {
			report, err := o.deliverTo(ctx, db, s, now)
			mu.Lock()
			defer mu.Unlock()
			all.Delivered += report.Delivered
			all.Failed = append(all.Failed, report.Failed...)
			if err != nil && ctx.Err() == nil {
				errs = append(errs, err)
			}
		})
	}
	wait.Wait()
	slices.SortFunc(all.Failed, func(a, b Failure) int { return strings.Compare(a.Handoff+a.Sink, b.Handoff+b.Sink) })
	return all, errors.Join(errs...)
}

func (o *Outbox) deliverTo(ctx context.Context, db *store.DB, s sink, until time.Time) (r Report, err error) {
	for ctx.Err() == nil {
		c, ok, err := o.claim(ctx, db, s, until)
		if err != nil || !ok {
			return r, err
		}
		sendErr := o.send(ctx, s, c)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		dead, err := o.settle(end, db, s, c, sendErr, ctx.Err() != nil)
		cancel()
		switch {
		case err != nil:
			return r, err
		case sendErr == nil:
			r.Delivered++
		case ctx.Err() == nil:
			r.Failed = append(r.Failed, Failure{c.id, c.run, c.receiver, s.Name, dead, sendErr})
			level := o.cfg.Logger.Warn
			if dead {
				level = o.cfg.Logger.Error
			}
			level("deliver a hand-off", "handoff", c.id, logkey.Run, c.run, "sink", s.Name, "attempt", c.attempts, "dead", dead, logkey.Error, sendErr)
		}
	}
	return r, nil
}

// claim takes the delivery to s that has been due longest. Until it is settled, or its time is over, nobody else makes it.
func (o *Outbox) claim(ctx context.Context, db *store.DB, s sink, until time.Time) (c claim, ok bool, err error) {
	const due = ` FROM handoff_deliveries d JOIN handoffs h ON h.id = d.handoff
		WHERE d.state = 'pending' AND d.sink = ? AND d.due_at <= ? ORDER BY d.due_at, d.handoff LIMIT 1`
	var any int
	err = db.QueryRowContext(ctx, "SELECT 1"+due, s.Name, until.UnixMilli()).Scan(&any) // mostly there is none, and nothing to lock
	if errors.Is(err, sql.ErrNoRows) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	err = db.Update(ctx, func(tx *sql.Tx) error {
		var text string
		err := tx.QueryRowContext(ctx, "SELECT d.handoff, h.run, h.receiver, h.content, d.attempts, d.due_at"+due, s.Name, until.UnixMilli()).Scan(&c.id, &c.run, &c.receiver, &text, &c.attempts, &c.due)
		if errors.Is(err, sql.ErrNoRows) { // another process was faster
			return nil
		}
		if err != nil {
			return err
		}
		c.content, ok = []byte(text), true
		c.attempts++
		lost := o.cfg.Now().Add(s.timeout() + leaseMore).UnixMilli()
		_, err = tx.ExecContext(ctx, "UPDATE handoff_deliveries SET attempts = ?, due_at = ? WHERE handoff = ? AND sink = ?", c.attempts, lost, c.id, s.Name)
		return err
	})
	return c, ok && err == nil, err
}

func (o *Outbox) send(ctx context.Context, s sink, c claim) error {
	content, err := decode(c.content)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.send(ctx, content, c.content) }() // a write to a dead file server does not end with ctx
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // it noticed as well, and says more
		return err
	default:
		return fmt.Errorf("gave up: %w", context.Cause(ctx))
	}
}

// settle writes what became of an attempt, unless somebody has meanwhile acknowledged or retried the hand-off.
func (o *Outbox) settle(ctx context.Context, db *store.DB, s sink, c claim, failure error, cut bool) (dead bool, err error) {
	now := o.cfg.Now()
	state, due, attempts, text := "pending", now.UnixMilli(), c.attempts, ""
	var done *int64
	switch {
	case failure == nil:
		ms := now.UnixMilli()
		state, done = "delivered", &ms
	case cut:
		due, attempts = c.due, c.attempts-1
	case c.attempts > len(waits):
		ms := now.UnixMilli()
		dead, state, done = true, "dead", &ms
	default:
		due = now.Add(jitter(waits[c.attempts-1])).UnixMilli()
	}
	if failure != nil && !cut {
		text = shortened(failure)
	}
	err = db.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE handoff_deliveries SET state = ?, attempts = ?, due_at = ?, done_at = ?, error = ?
			WHERE handoff = ? AND sink = ? AND state = 'pending' AND attempts = ?`, state, attempts, due, done, text, c.id, s.Name, c.attempts)
		if err != nil {
			return err
		}
		return refresh(ctx, tx, c.id)
	})
	return dead, err
}

// jitter is d, a tenth more or less: those that failed together come again one after the other.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5)
}

// shortened is an error as the database keeps it.
func shortened(err error) string {
	text := strings.ReplaceAll(err.Error(), "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), maxErrBytes)], "\ufffd")
}

// Work delivers what is due until ctx ends, and returns nil. What the database does to it is logged, and tried again.
func (o *Outbox) Work(ctx context.Context, db *store.DB) error {
	if len(o.sinks) == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	failing := false
	for {
		_, err := o.Deliver(ctx, db)
		if err != nil && !failing {
			o.cfg.Logger.Warn("look for hand-offs that are due", logkey.Error, err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

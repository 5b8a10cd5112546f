package queue

import (
	"context"
	"database/sql"
	"fmt"
)

// Release queues a run that waited for an approval, in one transaction with what also writes; like Submit it returns
// when that is on the disk; if the error is that it does not get there, the run is queued all the same. Releasing a run that is queued or running changes nothing and calls also not. Errors:
// [ErrNotFound], [ErrEnded], [ErrCanceled].
func (q *Queue) Release(ctx context.Context, run string, also func(tx *sql.Tx) error) error {
	var e Entry
	released := false
	err := q.change(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if e, err = open(ctx, tx, run); err != nil {
			return err
		}
		switch {
		case e.Canceled:
			return ErrCanceled
		case e.State != Pending:
			return nil
		}
		released = true
		if _, err := tx.ExecContext(ctx, "UPDATE requests SET state = 'queued', queued_at = ? WHERE run = ?", q.now(), run); err != nil {
			return err
		}
		if also != nil {
			return also(tx)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	q.cfg.step("release: committed", run)
	if err := q.cfg.sync(); err != nil {
		ring(q.poll) // it is queued all the same; a power loss makes it at worst pending again
		return fmt.Errorf("release run %s: %w", run, err)
	}
	q.cfg.step("release: synced", run)
	if released && !q.others(e) { // another server sees it in the table
		q.publish(ctx, e)
	}
	return nil
}

// Cancel asks for the end of a run. One that waits will never start: waiting is true, and the caller writes its end
// with Done. One that runs is told through its context, whose cause is [ErrCanceled]; its function ends it. Asking again
// does the same again. Errors: [ErrNotFound], [ErrEnded].
func (q *Queue) Cancel(ctx context.Context, run string) (waiting bool, err error) {
	var e Entry
	err = q.change(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if e, err = open(ctx, tx, run); err != nil || e.Canceled {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE requests SET cancel = 1 WHERE run = ?", run)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("cancel run %s: %w", run, err)
	}
	q.cfg.step("cancel: committed", run)
	if e.Waiting() {
		err = q.cfg.sync() // or a power loss could start what its owner saw canceled; if it fails, the cancelation still stands
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.active[run]; a != nil && e.State == Running {
		a.cancel(ErrCanceled)
	}
	if e.Waiting() {
		q.forget(e)
	}
	if err != nil {
		return e.Waiting(), fmt.Errorf("cancel run %s: %w", run, err)
	}
	return e.Waiting(), nil
}

// Done ends a run, in one transaction with what also writes of its end, and empties its request. It may end a run that
// waits. Of several calls for one run only one succeeds; the others are [ErrEnded] and do not call also. An unknown run
// is [ErrNotFound].
func (q *Queue) Done(ctx context.Context, run string, also func(tx *sql.Tx) error) error {
	q.cfg.step("done: begin", run)
	var e Entry
	err := q.change(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if e, err = open(ctx, tx, run); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE requests SET state = 'ended', request = '', ended_at = ? WHERE run = ?", q.now(), run); err != nil {
			return err
		}
		if also != nil {
			return also(tx)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("end run %s: %w", run, err)
	}
	q.cfg.step("done: committed", run)
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.active[run]; a != nil {
		if e.State == Running {
			q.average.add(q.cfg.Now().Sub(a.began))
		}
		return nil // Work takes it out of the stream
	}
	q.forget(e)
	return nil
}

// open reads a row that has not ended.
func open(ctx context.Context, tx *sql.Tx, run string) (Entry, error) {
	e, err := entry(ctx, tx, run)
	if err == nil && e.State == Ended {
		err = ErrEnded
	}
	return e, err
}

// forget takes a run that will not start out of its line and out of the stream. q.mu is held.
func (q *Queue) forget(e Entry) {
	q.schedule.remove(e.Token, e.Run)
	q.unwatch(e.Run)
	q.undone[e.Run] = true
	ring(q.settle)
	q.changed()
}

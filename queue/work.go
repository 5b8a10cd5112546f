package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/internal/logkey"
)

// work is one call of Work.
type work struct {
	*Queue
	do   func(ctx context.Context, e Entry) error
	runs sync.WaitGroup
}

// Work calls do for each run whose turn has come, each in a goroutine of its own, until ctx is done. do runs it and ends it
// with Done; if it returns before that, the run is ended by Config.End. Its error is logged and changes nothing. The cause
// of its context is [ErrCanceled] or [ErrStopped]. Before it does what must not be done twice it calls OnDisk.
//
// When ctx is done nothing new starts and what waits stays queued. Work returns when all calls of do have; those that
// have not come back after Config.Grace find their context done. One Work at a time.
func (q *Queue) Work(ctx context.Context, do func(ctx context.Context, e Entry) error) error {
	q.mu.Lock()
	if q.closed || q.working {
		defer q.mu.Unlock()
		if q.closed {
			return fmt.Errorf("work: %w", ErrClosed)
		}
		return errors.New("work: the queue is at work already")
	}
	q.working = true
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.working = false
	}()

	life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	w := &work{Queue: q, do: do}
	beat, stopBeat := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { q.keepLoop(beat) })
	background.Go(func() { w.pollLoop(ctx, life) })

	w.dispatch(ctx, life)
	q.giveBack()
	done := make(chan struct{})
	go func() { defer close(done); w.runs.Wait() }()
	grace := time.NewTimer(q.cfg.Grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
	stop(ErrStopped)
	<-done
	stopBeat()
	background.Wait()
	return nil
}

// dispatch starts runs until ctx is done. life is what they live in.
func (w *work) dispatch(ctx, life context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		start, ask := w.schedule.next()
		switch {
		case start != nil:
			w.begin(life, start)
			w.mu.Unlock()
		case ask != nil:
			token, limit, changes := ask.token, ask.limit, ask.changes
			w.mu.Unlock()
			w.fetch(ctx, token, limit, changes)
		default:
			w.mu.Unlock()
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
		}
	}
}

// fetch asks the stream for the next run of a token and holds it, unless its row says that it is not to be started.
func (w *work) fetch(ctx context.Context, token string, limit, changes int) {
	asked, cancel := context.WithTimeout(ctx, nextTimeout)
	defer cancel()
	d, err := w.cfg.Stream.Next(asked, token, limit)
	if d == nil || err != nil {
		if err != nil && ctx.Err() == nil {
			w.cfg.Logger.Warn("the queue's stream gives no run now", logkey.Error, err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.schedule.refused(token, changes)
		return
	}
	w.cfg.step("fetched", d.Run())
	e, err := entry(ctx, w.db, d.Run())
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		w.cfg.Logger.Warn("the row of a run cannot be read now", logkey.Run, d.Run(), logkey.Error, err)
		w.giveBackOne(d)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.schedule.refused(token, changes)
	case err == nil && e.State == Queued && !e.Canceled && e.Token == token:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.schedule.hold(&held{Delivery: d, entry: e})
	default:
		w.stray(d, token, e)
	}
}

// stray takes what is not to be started out of the stream: it has ended, or will never run, or was delivered before.
func (w *work) stray(d Delivery, token string, e Entry) {
	w.mu.Lock()
	w.schedule.remove(token, d.Run())
	if a := w.active[d.Run()]; a != nil { // we run it: the stream waited too long for a Keep
		a.delivery = d
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	if e.State == Running && e.Worker != w.cfg.Worker && w.cfg.Alive(e.Worker) {
		return // its worker removes it
	}
	w.ack(d)
}

// begin makes room for a held run and starts its goroutine. q.mu is held.
func (w *work) begin(life context.Context, h *held) {
	ctx, cancel := context.WithCancelCause(life)
	w.schedule.start(h)
	// Known before the row changes, so that a Cancel that sees it running finds its context.
	w.active[h.entry.Run] = &active{delivery: h.Delivery, cancel: cancel, token: h.entry.Token, began: w.cfg.Now()}
	ring(w.dirty)
	w.runs.Go(func() {
		defer cancel(nil)
		if keep := w.serve(ctx, h.entry); keep {
			w.giveBackOne(w.delivery(h.entry.Run))
		} else {
			w.ack(w.delivery(h.entry.Run))
			w.cfg.step("acked", h.entry.Run)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.active, h.entry.Run)
		w.schedule.finish(h.entry.Token, h.entry.Need)
		w.changed()
	})
}

// serve takes the row and calls the function. It returns keep if the row is still queued.
func (w *work) serve(ctx context.Context, e Entry) (keep bool) {
	log := w.cfg.Logger.With(logkey.Run, e.Run)
	w.cfg.step("turn", e.Run)
	w.accepted(e.Run)
	took, err := w.take(ctx, &e)
	if err != nil {
		log.Warn("a run cannot start now", logkey.Error, err)
		return true // the poll puts it into its line again
	}
	if !took {
		return false // canceled or ended since it was fetched
	}
	disk := make(chan struct{})
	w.mu.Lock()
	a := w.active[e.Run]
	a.taken, a.disk = true, disk
	w.unwatch(e.Run)
	w.mu.Unlock()
	w.cfg.step("taken", e.Run)
	go func() {
		defer close(disk)
		if a.diskErr = w.cfg.sync(); a.diskErr != nil {
			log.Error("that a run is running is not on the disk", logkey.Error, a.diskErr)
			return
		}
		w.cfg.step("taken: synced", e.Run)
	}()
	err = w.do(ctx, e)
	<-disk
	w.cfg.step("ran", e.Run)
	if err != nil {
		log.Warn("the function of a run reports an error", logkey.Error, err)
	}
	if now, err := entry(context.WithoutCancel(ctx), w.db, e.Run); err != nil || now.State != Ended {
		log.Error("a run has come back and has not ended", logkey.Error, err)
		ring(w.poll)
	}
	return false
}

// OnDisk returns when it is on the disk that this server has taken a run, or that cannot be: a power loss would make it queued
// again, and another turn run it twice. It is for the function of the run.
func (q *Queue) OnDisk(run string) error {
	q.mu.Lock()
	a := q.active[run]
	q.mu.Unlock()
	if a == nil || a.disk == nil {
		return fmt.Errorf("run %s: %w", run, ErrNotFound)
	}
	<-a.disk
	return a.diskErr
}

// take makes a queued row a running one, if it is still to be started.
func (w *work) take(ctx context.Context, e *Entry) (took bool, err error) {
	now := w.now()
	err = w.db.Update(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		res, err := tx.ExecContext(context.WithoutCancel(ctx),
			"UPDATE requests SET state = 'running', worker = ?, started_at = ? WHERE run = ? AND state = 'queued' AND cancel = 0", w.cfg.Worker, now, e.Run)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		took = n == 1
		return err
	})
	e.State, e.Worker, e.StartedAt = Running, w.cfg.Worker, time.UnixMilli(now)
	return took && err == nil, err
}

func (q *Queue) delivery(run string) Delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.active[run].delivery
}

// ack removes a run from the stream, now or later.
func (q *Queue) ack(d Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	if err := d.Ack(ctx); err != nil {
		q.cfg.Logger.Warn("the queue's stream removes no run now", logkey.Run, d.Run(), logkey.Error, err)
		q.mu.Lock()
		q.undone[d.Run()] = true
		q.mu.Unlock()
		ring(q.settle)
	}
}

func (q *Queue) giveBackOne(d Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	if err := d.Return(ctx); err != nil { // it is handed out again when nobody has kept it for a while
		q.cfg.Logger.Warn("the queue's stream takes no run back now", logkey.Run, d.Run(), logkey.Error, err)
	}
}

// giveBack returns what is held to the stream.
func (q *Queue) giveBack() {
	q.mu.Lock()
	var all []*held
	for _, l := range q.schedule.ring {
		if l.held != nil {
			all = append(all, l.release(&q.schedule))
		}
	}
	q.mu.Unlock()
	for _, h := range all {
		q.giveBackOne(h.Delivery)
	}
}

package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/store"
)

// outbox is where runs go that did not end well. log hears of deliveries that fail; nil: nobody does.
func (h *host) outbox(log *slog.Logger) (*handoff.Outbox, error) {
	if h.handoffs != nil {
		return h.handoffs, nil
	}
	c := h.config.handoffs
	o, err := handoff.New(handoff.Config{Routes: c.routes, Sinks: c.sinks, Keep: c.keep, Logger: log})
	h.handoffs = o
	return o, err
}

// deliverAfter is how long a command must have lasted, until what is due is delivered beside it.
const deliverAfter = 200 * time.Millisecond

// deliverMost is what the end of a command waits for at most that has handed a run on. A note in a vault takes a few milliseconds. Tests
// have more: a busy machine is no fault.
var deliverMost = 100 * time.Millisecond

// deliveries are those that a command makes which runs something: beside its runs what is due, and at its end what they have handed
// on, as far as that takes no time. The rest waits for the next silk.
type deliveries struct {
	app    *app
	host   *host
	outbox *handoff.Outbox

	stop context.CancelFunc
	done chan struct{}
}

// startDeliveries begins. The caller calls finish or end.
func (a *app) startDeliveries(h *host) (*deliveries, error) {
	o, err := h.outbox(nil)
	if err != nil {
		return nil, err
	}
	d := &deliveries{app: a, host: h, outbox: o, stop: func() {}}
	if !o.Sinks() {
		return d, nil
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(a.ctx))
	d.stop, d.done = stop, make(chan struct{})
	go func() {
		defer close(d.done)
		select {
		case <-time.After(deliverAfter):
		case <-ctx.Done():
			return
		}
		_ = d.with(ctx, d.outbox.Work) // what failed stands in the outbox, and is tried again
	}()
	return d, nil
}

// with gives do the database.
func (d *deliveries) with(ctx context.Context, do func(context.Context, *store.DB) error) (err error) {
	db, err := store.Open(ctx, filepath.Join(d.host.home, store.FileName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Leave()) }()
	return do(ctx, db)
}

// wait ends what is delivered beside.
func (d *deliveries) wait() {
	d.stop()
	if d.done != nil {
		<-d.done
	}
}

// finish is end for a command whose only run has ended so.
func (d *deliveries) finish(o run.Outcome) {
	if !d.outbox.Wants(o.Kind) {
		d.wait()
		return
	}
	d.end(o.Run)
}

// end delivers what is due as far as that takes no time, and says where that of a run, if one is named, has to wait.
func (d *deliveries) end(runID string) {
	if d.wait(); d.done == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.app.ctx), deliverMost)
	defer cancel()
	var report handoff.Report
	err := d.with(ctx, func(ctx context.Context, db *store.DB) (err error) {
		report, err = d.outbox.Deliver(ctx, db)
		return err
	})
	switch {
	case runID != "" && ctx.Err() != nil:
		d.app.errorf("some hand-offs wait for the next silk: there was no time for them")
	case err != nil:
		d.app.errorf("hand-offs wait for the next silk: %v", err)
	}
	for _, f := range report.Failed {
		if f.Run == runID {
			d.app.errorf("the hand-off to %s by %s waits for the next silk: %v", f.Receiver, f.Sink, f.Err)
		}
	}
}

package alert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/logkey"
)

// defaultTimeout bounds telling one sink, both attempts of a webhook included.
const defaultTimeout = 5 * time.Second

// Config says where alerts go. Its zero value tells nobody.
type Config struct {
	// Stderr receives a line for people. nil: none.
	Stderr io.Writer

	// Coloured makes that line red: only for a terminal.
	Coloured bool

	// Files receive the JSON form, one object a line, synced. A file is made for its owner alone if it is not there. It is
	// refused if it is a link, has several names, belongs to neither us nor root, or can be written by others; so is a
	// directory of somebody else's, or one that others can write and that is not sticky.
	Files []string

	Webhooks []Webhook

	// Logger hears of sinks that could not be told. nil discards.
	Logger *slog.Logger

	// Audit appends an event to the trail, for sinks that could not be told. It is called after all have been tried, with
	// a context that ends within [defaultTimeout]. nil: it is only logged.
	Audit func(ctx context.Context, e *audit.Event) error
}

// sink is one place that an alert goes to.
type sink interface {
	name() string // for people and the trail: no secret in it
	raise(ctx context.Context, a Alert) error
	check(ctx context.Context) error // whether raise would work, without raising anything
	timeout() time.Duration
}

// Sinks are all places that alerts go to. Safe for concurrent use.
type Sinks struct {
	cfg   Config
	sinks []sink
}

// New makes sinks. It opens and reads nothing: a sink that is not there must not keep runs from starting. The error
// says which webhooks are not ones; see [Webhook].
func New(cfg Config) (*Sinks, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sinks{cfg: cfg}
	if cfg.Stderr != nil {
		s.sinks = append(s.sinks, &terminal{w: cfg.Stderr, coloured: cfg.Coloured})
	}
	for _, path := range cfg.Files {
		s.sinks = append(s.sinks, file{path})
	}
	var faults []error
	for _, w := range cfg.Webhooks {
		hook, err := newWebhook(w)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		s.sinks = append(s.sinks, hook)
	}
	return s, errors.Join(faults...)
}

// Raise tells every sink, all at once, and returns when each has been told or its time is up: never later than the
// longest of their timeouts, and the one for the audit. A sink that hangs in the kernel is left behind. Cancelling ctx
// gives up earlier: pass one that does not end with the run.
//
// Each failure is logged and audited as audit.AlertFailed, and is part of the error. The error is for the caller to say;
// it must not change the outcome of the run.
func (s *Sinks) Raise(ctx context.Context, a Alert) error {
	results := s.each(ctx, func(ctx context.Context, k sink) error { return k.raise(ctx, a) })
	var failed []error
	for i, err := range results {
		if err == nil {
			continue
		}
		name := s.sinks[i].name()
		s.cfg.Logger.Error("raise alert", logkey.Run, a.Run, "sink", name, logkey.Error, err)
		failed = append(failed, fmt.Errorf("raise alert by %s: %w", name, err))
		if err := s.audit(ctx, a, name, err); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (s *Sinks) audit(ctx context.Context, a Alert, sink string, failure error) error {
	if s.cfg.Audit == nil {
		return nil
	}
	text, cut := clip(failure.Error(), maxSent)
	e, err := audit.New(a.Run, audit.AlertFailed, time.Now(), map[string]any{"intentId": a.Run, "sink": sink, "error": text + cut})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultTimeout)
		defer cancel()
		err = s.cfg.Audit(ctx, &e)
	}
	if err != nil {
		return fmt.Errorf("audit that %s was not told: %w", sink, err)
	}
	return nil
}

// Checked is what [Sinks.Check] found of one sink.
type Checked struct {
	Sink string // "file /var/log/silk/alerts.jsonl"
	Err  error  // nil: it can be told
}

// Check looks whether each sink could be told now, in the order of the configuration, within the bounds of Raise. It
// raises nothing: a webhook is connected to, and sent nothing.
func (s *Sinks) Check(ctx context.Context) []Checked {
	found := make([]Checked, len(s.sinks))
	for i, err := range s.each(ctx, func(ctx context.Context, k sink) error { return k.check(ctx) }) {
		found[i] = Checked{Sink: s.sinks[i].name(), Err: err}
	}
	return found
}

// each calls do for all sinks at once and returns their errors, with one for each that did not return in time.
func (s *Sinks) each(ctx context.Context, do func(context.Context, sink) error) []error {
	errs := make([]error, len(s.sinks))
	waits := make([]func() error, len(s.sinks))
	for i, k := range s.sinks {
		ctx, cancel := context.WithTimeout(ctx, k.timeout())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- do(ctx, k) }() // a write to a dead file server does not end with ctx
		waits[i] = func() error {
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
	}
	for i, wait := range waits {
		errs[i] = wait()
	}
	return errs
}

package run

import (
	"context"
	"fmt"

	"github.com/silk-sandbox/silk/policy"
)

// Engine takes requests through their life. Safe for concurrent use; several engines, in one process or many, may share
// a state directory.
type Engine struct{ cfg Config }

// New checks cfg and begins to open the state in the background; faults of the state show in [Engine.Run].
func New(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure engine: %w", err)
	}
	return &Engine{cfg: cfg}, nil
}

// Run takes req through its whole life. The outcome is complete whatever happens. The error is about what surrounds it:
// a record that could not be written or a resource that could not be released; the outcome stands nevertheless.
//
// Cancelling ctx ends the sandbox with outcome [Canceled].
func (e *Engine) Run(ctx context.Context, req policy.Request, io IO) (Outcome, error) {
	return Outcome{Kind: Error, Reason: ReasonMissing, Message: "no driver is usable on this host"}, nil
}

// Plan says what Run would do. A refusal comes as a [*policy.Denial].
func (e *Engine) Plan(ctx context.Context, req policy.Request) (Preview, error) {
	plan, err := e.cfg.Decide(req)
	return Preview{Plan: plan}, err
}

// Close waits for what New started and closes the state. No Run may be in progress.
func (e *Engine) Close() error { return nil }

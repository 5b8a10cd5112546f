package main

import (
	"context"
	"errors"
	"testing"

	"github.com/silk-sandbox/silk/run"
)

// TestMonitorStatus: engines tell the end of a container by its status alone.
func TestMonitorStatus(t *testing.T) {
	three := 3
	for _, test := range []struct {
		name    string
		outcome run.Outcome
		cause   error
		want    int
	}{
		{"ok", run.Outcome{Kind: run.OK}, nil, 0},
		{"its own status", run.Outcome{Kind: run.Failed, ExitCode: &three}, nil, 3},
		{"its own signal", run.Outcome{Kind: run.Failed, Signal: 15}, nil, 143},
		{"a signal of the engine's, which it ended by", run.Outcome{Kind: run.Failed, Signal: 15}, killedBy(9), 143},
		{"killed by the engine", run.Outcome{Kind: run.Canceled}, killedBy(9), 137},
		{"killed before it was started", run.Outcome{Kind: run.Canceled}, killedBy(15), 143},
		{"the engine is gone", run.Outcome{Kind: run.Canceled}, errEngineGone, 130},
		{"the machine goes down", run.Outcome{Kind: run.Canceled}, errors.New("interrupted"), 130},
		{"timeout", run.Outcome{Kind: run.Timeout}, nil, 124},
		{"memory", run.Outcome{Kind: run.OOM}, nil, 137},
		{"violated", run.Outcome{Kind: run.Violated}, nil, 159},
		{"silk's fault", run.Outcome{Kind: run.Error}, nil, 125},
	} {
		m := &monitor{outcome: test.outcome}
		ctx, cancel := context.WithCancelCause(t.Context())
		if m.ctx = ctx; test.cause != nil {
			cancel(test.cause)
		}
		if got := m.status(); got != test.want {
			t.Errorf("%s: status %d, want %d", test.name, got, test.want)
		}
		cancel(nil)
	}
}

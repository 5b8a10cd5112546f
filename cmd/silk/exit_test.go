package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// TestReport is the table of errors and exit statuses, each error wrapped as callers do.
func TestReport(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		kind   run.Kind // empty: no outcome is printed
		reason run.Reason
		status int
	}{
		{"nothing", nil, "", "", 0},
		{"the end of a run", &endError{143}, "", "", 143},
		{"a finding", findingf("damaged"), "", "", 1},
		{"command line", usagef("x"), run.Error, run.ReasonUsage, 125},
		{"request", &policy.RequestError{Faults: []string{"x"}}, run.Error, run.ReasonUsage, 125},
		{"profile", &profile.UnknownError{Name: "x"}, run.Error, run.ReasonUsage, 125},
		{"configuration", &strictyaml.Error{File: "x", Faults: []strictyaml.Fault{{Line: 1, Text: "y"}}}, run.Error, run.ReasonUsage, 125},
		{"ambiguous run", &record.AmbiguousError{Prefix: "01"}, run.Error, run.ReasonUsage, 125},
		{"missing file", missingf("x"), run.Error, run.ReasonMissing, 125},
		{"missing path", fs.ErrNotExist, run.Error, run.ReasonMissing, 125},
		{"missing image", image.ErrNotFound, run.Error, run.ReasonMissing, 125},
		{"missing lab image", &noImageError{"lab:text"}, run.Error, run.ReasonMissing, 125},
		{"missing run", record.ErrNotFound, run.Error, run.ReasonMissing, 125},
		{"state directory that is not there", &hostError{fs.ErrNotExist}, run.Error, run.ReasonHost, 125},
		{"hostile archive", &image.RefusedError{Entry: "../x", Err: errors.New("leads out")}, run.Error, run.ReasonHost, 125},
		{"damaged image", image.ErrCorrupt, run.Error, run.ReasonHost, 125},
		{"broken trail", &audit.BrokenError{Seq: 1, Why: "x"}, run.Error, run.ReasonHost, 125},
		{"anything else", errors.New("disk full"), run.Error, run.ReasonHost, 125},
		{"refusal", &policy.Denial{Rule: "network"}, run.Denied, "", 126},
		{"Ctrl-C", context.Canceled, run.Canceled, "", 130},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			a := &app{out: &out, err: &stderr, env: func(string) string { return "" }, json: true}
			err := tt.err
			if err != nil {
				err = fmt.Errorf("do this: %w", err)
			}
			if got := a.report(err); got != tt.status {
				t.Errorf("status %d, want %d", got, tt.status)
			}
			if (stderr.Len() > 0) != (tt.kind != "" || tt.status == 1) {
				t.Errorf("stderr %q", stderr.String())
			}
			if tt.kind == "" {
				if out.Len() > 0 {
					t.Errorf("stdout %q", out.String())
				}
				return
			}
			var o run.Outcome
			if err := json.Unmarshal(out.Bytes(), &o); err != nil {
				t.Fatal(err)
			}
			if o.Kind != tt.kind || o.Reason != tt.reason || o.ExitCode != nil || o.Artifacts == nil || o.Flags == nil {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

// TestExitAs: a run's own status, unless the host is why its caller has nothing in hand.
func TestExitAs(t *testing.T) {
	full, gone, broken := error(syscall.ENOSPC), error(syscall.EPIPE), errors.New("x")
	for _, test := range []struct {
		name              string
		outcome           run.Outcome
		err, unsaid, lost error
		want              int
	}{
		{"all well", run.Outcome{Kind: run.OK}, nil, nil, nil, 0},
		{"the program's own status", run.Outcome{Kind: run.Failed, ExitCode: new(3)}, broken, full, full, 3},
		{"an error after the run", run.Outcome{Kind: run.OK}, broken, nil, nil, 125},
		{"an answer that could not be written", run.Outcome{Kind: run.OK}, nil, full, nil, 125},
		{"output that could not be written", run.Outcome{Kind: run.Canceled}, nil, nil, full, 125},
		{"the last of the output could not be written", run.Outcome{Kind: run.OK}, nil, nil, full, 125},
		{"a reader that went away", run.Outcome{Kind: run.Canceled}, nil, nil, gone, 130},
		{"a reader that went away at the end", run.Outcome{Kind: run.OK}, nil, nil, gone, 0},
		{"a time-out with a full disk", run.Outcome{Kind: run.Timeout}, nil, nil, full, 124},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, end := 0, (*endError)(nil)
			if errors.As(exitAs(test.outcome, test.err, test.unsaid, test.lost), &end) {
				status = end.status
			}
			if status != test.want {
				t.Errorf("status %d, want %d", status, test.want)
			}
		})
	}
}

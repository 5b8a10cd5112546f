//go:build unix

package serve_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// TestPlan: it is what Submit would do, and leaves nothing.
func TestPlan(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	in := program("print:hello")
	in.Limits.TimeoutMs = 1000
	p, err := s.Server.Plan(t.Context(), servetest.Runner, in)
	if err != nil || p.Denial != nil || p.Driver != "fake" || p.Image != servetest.Digest || len(p.Enforced) == 0 {
		t.Fatalf("plan: %+v, %v", p, err)
	}
	var plan policy.Plan
	if err := json.Unmarshal(p.Plan, &plan); err != nil || plan.Limits.Timeout != time.Second || plan.Hash() != p.Hash {
		t.Errorf("the plan is %s with hash %s, %v", p.Plan, p.Hash, err)
	}
	wide := in
	wide.Limits.MemoryBytes = 64 << 30
	if p, err = s.Server.Plan(t.Context(), servetest.Runner, wide); err != nil || p.Denial == nil || p.Denial.Rule != policy.RuleApproval || p.Plan == nil {
		t.Errorf("beyond the profile: %+v, %v; want that an approval is needed, and its plan", p, err)
	}
	wide.Client = "mcp"
	if p, err = s.Server.Plan(t.Context(), servetest.Runner, wide); err != nil || p.Denial == nil || p.Denial.Rule != policy.RuleMemory || p.Plan != nil {
		t.Errorf("beyond the profile, for an agent: %+v, %v; want a refusal", p, err)
	}
	if _, err := s.Server.Plan(t.Context(), servetest.Viewer, in); !errors.Is(err, auth.ErrForbidden) {
		t.Errorf("a viewer plans: %v", err)
	}
	var unread *serve.InvalidError
	in.Profile = "nonsense"
	if _, err := s.Server.Plan(t.Context(), servetest.Runner, in); !errors.As(err, &unread) || unread.Faults[0].Field != "body.profile" {
		t.Errorf("an unknown profile: %v", err)
	}
	if list, err := record.List(t.Context(), s.DB, record.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("planning left %d records, %v", len(list), err)
	}
}

// TestAgentsOnlyNarrow: what comes through mcp is never put before the owner.
func TestAgentsOnlyNarrow(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	in := program("print:hello")
	in.Client = "mcp"
	r := submit(t, s, servetest.Runner, in)
	if out := end(t, s, r.ID); out.Kind != "ok" {
		t.Errorf("within the profile: %+v", out)
	}
	if r, err := s.Server.Run(t.Context(), servetest.Runner, r.ID); err != nil || r.Client != "mcp" {
		t.Errorf("its door is %q, %v", r.Client, err)
	}
	in.Limits.MemoryBytes = 64 << 30
	var denied *serve.DeniedError
	if _, _, err := s.Server.Submit(t.Context(), servetest.Runner, in, ""); !errors.As(err, &denied) || denied.Denial.Rule != policy.RuleMemory {
		t.Fatalf("beyond the profile: %v", err)
	}
	if r, err := s.Server.Run(t.Context(), servetest.Runner, denied.Run); err != nil || r.Client != "mcp" || r.Outcome == nil || r.Outcome.Kind != "denied" {
		t.Errorf("the refused run: %+v, %v", r, err)
	}
	in = api.RunRequest{Profile: servetest.Profile, Args: []string{"fake"}, Client: "cli"}
	var unread *serve.InvalidError
	if _, _, err := s.Server.Submit(t.Context(), servetest.Runner, in, ""); !errors.As(err, &unread) || !strings.Contains(err.Error(), "body.client") {
		t.Errorf("who calls itself the command line: %v", err)
	}
}

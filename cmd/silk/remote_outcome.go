package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/alert"
	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// refused is the outcome of a run that did not come to its end here, as far as it is known.
func (r *remoteRun) refused(err error) run.Outcome {
	o := failure(withHint(err))
	o.Run = r.id
	nothing := run.Channel{SHA256: hex.EncodeToString(sha256.New().Sum(nil))}
	if r.json && !r.jsonl {
		nothing.Text = new(string)
	}
	o.Stdout, o.Stderr = nothing, nothing
	if o.Kind == run.Canceled {
		o.Message = "canceled before the program ran"
	}
	var large *client.TooLargeError
	if errors.As(err, &large) {
		o.Reason, o.Message = run.ReasonUsage, tooLarge("the request").Error()
	}
	var p *api.Problem
	if !errors.As(err, &p) {
		return o
	}
	o.Message, o.Run = problemText(p), cmp.Or(r.id, p.Run)
	switch {
	case p.Type == "urn:silk:denied":
		o.Kind, o.Reason, o.Rule = run.Denied, "", p.Rule
	case p.Type == "urn:silk:full", p.Type == "urn:silk:too-big":
		o.Kind, o.Reason, o.Rule = run.Denied, "", "quota"
	case p.Status < http.StatusInternalServerError:
		o.Reason = run.ReasonUsage
	}
	return o
}

// problemText is what is wrong in one line. Faults of the whole request need no field.
func problemText(p *api.Problem) string {
	text := p.Detail
	if p.Type == "urn:silk:unauthorized" || p.Type == "urn:silk:forbidden" {
		text = "the server refuses the token: " + p.Title
		if p.Type == "urn:silk:unauthorized" {
			text += " (SILK_TOKEN or --token-file gives one; silk token new NAME makes one on the server)"
		}
	}
	for _, e := range p.Errors {
		fault := e.Detail
		if e.Field != "body" && e.Field != "" {
			fault = e.Field + ": " + e.Detail
		}
		text += tail("; ", fault)
	}
	return oneLine(strings.TrimPrefix(cmp.Or(text, p.Title), "; "))
}

// complete makes the outcome of the server what one of this host is: with the output in it if JSON was asked for, and the
// artifacts in their directory.
func (r *remoteRun) complete(end api.Outcome) run.Outcome {
	o := fromOutcome(end)
	ctx, stop := after(r.streams.ctx, submitGrace)
	defer stop()
	if r.json || o.Kind == run.Violated || len(o.Flags) > 0 {
		if rec, err := r.record(ctx); err == nil { // what it adds is for people who look closer
			o.Watched, o.Dropped, o.Events, o.DeadAfterUs = rec.Outcome.Watched, rec.Outcome.Dropped, rec.Outcome.Events, rec.Outcome.DeadAfterUs
		}
	}
	for i, c := range []*run.Channel{&o.Stdout, &o.Stderr} {
		if c.Truncated {
			c.TailB64 = encodeBase64(r.tails[i].tail)
		}
	}
	var faults error
	if r.json && !r.jsonl {
		faults = errors.Join(r.text(ctx, "stdout", &o.Stdout), r.text(ctx, "stderr", &o.Stderr))
	}
	if r.io.Artifacts != "" {
		faults = errors.Join(faults, r.fetch(ctx, &o))
	}
	if faults != nil { // the caller waits for what is not there
		o.Message = fmt.Sprintf("%v; the program itself ended with %s", faults, o.Kind)
		o.Kind, o.Reason = run.Error, run.ReasonHost
	}
	return o
}

// text puts the kept output of a channel into the outcome.
func (r *remoteRun) text(ctx context.Context, channel string, c *run.Channel) error {
	var kept []byte
	if c.Bytes > 0 {
		in, err := r.client.Output(ctx, r.id, channel)
		if err == nil {
			kept, err = io.ReadAll(in)
			in.Close()
		}
		if err != nil {
			return fmt.Errorf("get %s: %w", channel, err)
		}
	}
	if !c.Truncated {
		if sum := sha256.Sum256(kept); hex.EncodeToString(sum[:]) != c.SHA256 {
			return fmt.Errorf("get %s: what came is not what the program printed", channel)
		}
	}
	if utf8.Valid(kept) && !wasteful(kept) {
		text := string(kept)
		c.Text = &text
		return nil
	}
	text := encodeBase64(kept)
	c.B64 = &text
	return nil
}

// record fetches the record of the run.
func (r *remoteRun) record(ctx context.Context) (record.Record, error) {
	return fetchRecord(ctx, r.client, r.id)
}

func fetchRecord(ctx context.Context, c *client.Client, id string) (record.Record, error) {
	var rec record.Record
	text, err := c.Record(ctx, id)
	if err == nil {
		if err = json.Unmarshal(text, &rec); err != nil {
			err = fmt.Errorf("read the record of run %s: %w", id, err)
		}
	}
	return rec, err
}

// started is what is about to run.
func (r *remoteRun) started(ctx context.Context) run.Started {
	s := run.Started{Run: r.id, Profile: policy.ProfileFor(r.req)}
	if rec, err := r.record(ctx); err == nil { // without it the frame says less
		s.Profile, s.Driver, s.Image, s.Limits = rec.Profile, rec.Driver, rec.Image, recordedLimits(rec.Policy)
	}
	return s
}

func recordedLimits(p record.Policy) profile.Limits {
	return profile.Limits{
		Timeout: time.Duration(p.TimeoutMs) * time.Millisecond, MemoryBytes: p.MemoryBytes, CPUs: float64(p.MilliCPUs) / 1000, Processes: p.Processes,
		WorkspaceBytes: p.WorkspaceBytes, TmpBytes: p.TmpBytes, ShmBytes: p.ShmBytes, OutputBytes: p.OutputBytes,
	}
}

// plan is what the server has decided, as far as sentences need it: by this host's own profiles, with the limits of the record.
func (r *remoteRun) plan(o run.Outcome) policy.Plan {
	prof, err := r.config.profiles.Lookup(policy.ProfileFor(r.req))
	if err != nil || o.Kind == run.Denied {
		return policy.Plan{}
	}
	plan, err := policy.Decide(r.req, prof, policy.Grants{})
	if err != nil {
		return policy.Plan{}
	}
	if r.id != "" && len(o.Flags) > 0 {
		ctx, stop := after(r.app.ctx, submitGrace)
		defer stop()
		if rec, err := r.record(ctx); err == nil {
			plan.Limits = recordedLimits(rec.Policy)
		}
	}
	return plan
}

// alert raises a violation on stderr. The server's own sinks were told by the server.
func (r *remoteRun) alert(o run.Outcome, profile string) {
	sinks, err := alert.New(alert.Config{Stderr: rawStderr{r.app}, Coloured: r.colour(r.err, "1", "x") != "x"})
	if err == nil {
		_ = sinks.Raise(r.app.ctx, o.Alert(profile)) // the sentence says it too
	}
}

// fromOutcome is an outcome of the wire without the text of the output.
func fromOutcome(o api.Outcome) run.Outcome {
	out := run.Outcome{
		Kind: run.Kind(o.Kind), Reason: run.Reason(o.Reason), Message: o.Message, ExitCode: o.ExitCode, Signal: o.Signal, Phase: o.Phase,
		Rule: o.Rule, Syscall: o.Syscall, Argument: o.Argument,
		Stdout:    run.Channel{Bytes: o.Stdout.Bytes, Truncated: o.Stdout.Truncated, SHA256: o.Stdout.SHA256},
		Stderr:    run.Channel{Bytes: o.Stderr.Bytes, Truncated: o.Stderr.Truncated, SHA256: o.Stderr.SHA256},
		Artifacts: []run.Artifact{}, Flags: o.Flags, Refused: o.Refused, WallMs: o.WallMs, Usage: run.Usage(o.Usage),
		Run: o.Run, Driver: o.Driver, Image: o.Image, EgressMore: o.EgressMore,
	}
	for _, d := range o.Egress {
		out.Egress = append(out.Egress, run.Destination(d))
	}
	for _, a := range o.Artifacts {
		out.Artifacts = append(out.Artifacts, run.Artifact(a))
	}
	if out.Flags == nil {
		out.Flags = map[string]int64{}
	}
	return out
}

func fromLimits(l api.Limits) profile.Limits {
	return profile.Limits{
		Timeout: time.Duration(l.TimeoutMs) * time.Millisecond, MemoryBytes: l.MemoryBytes, CPUs: l.CPUs, Processes: l.Processes,
		WorkspaceBytes: l.WorkspaceBytes, TmpBytes: l.TmpBytes, ShmBytes: l.ShmBytes, OutputBytes: l.OutputBytes,
	}
}

package run

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/store"
)

// begin writes, in one transaction, that the run is about to start. When it fails, no code runs.
func (l *life) begin(ctx context.Context) error {
	db, err := l.engine.state(ctx)
	if err != nil {
		return host(err)
	}
	l.trace("state is open")
	entry, err := l.entry()
	if err != nil {
		return host(err)
	}
	entry.Record.Tools = nil // hundreds of them, which the finished record has
	if entry.Source, err = l.sourceText(); err != nil {
		return host(err)
	}
	network := l.plan.Network
	if l.plan.Skill != nil {
		network = "none" // whatever the manifest says: it has no network, and perhaps one service
	}
	started, err := audit.New(l.id, audit.SandboxStarted, time.Now(), l.of(map[string]any{
		"intentId": l.id, "memoryMb": l.plan.Limits.MemoryBytes >> 20, "networkMode": network,
		"driver": l.driver.Name(), "image": l.image.Digest,
	}))
	if err != nil {
		return host(err)
	}
	err = db.Update(ctx, func(tx *sql.Tx) error {
		if err := record.Begin(ctx, tx, l.engine.id, entry); err != nil {
			return err
		}
		return audit.Append(ctx, tx, &started)
	})
	if err != nil {
		return host(err)
	}
	l.trace("start is recorded")
	if l.io.Before != nil {
		if err := l.io.Before(); err != nil {
			return host(err)
		}
	}
	if l.io.OnStart != nil {
		l.io.OnStart(Started{Run: l.id, Profile: l.plan.Profile, Driver: l.driver.Name(), Image: l.image.Digest, Limits: l.plan.Limits})
	}
	return nil
}

// Waits between two tries to write how a run ended into a database that does not answer.
const (
	finishFirst = 50 * time.Millisecond
	finishLast  = time.Second
)

// finish writes how the run ended, as soon as the database takes it and before ctx ends.
func (l *life) finish(ctx context.Context) error {
	for wait, again := finishFirst, false; ; wait, again = min(2*wait, finishLast), true {
		err := l.writeEnd(ctx, again)
		if errors.Is(err, store.ErrAway) {
			select {
			case <-time.After(wait):
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			l.engine.unrecorded.Store(l.id, nil)
		}
		return err
	}
}

// writeEnd writes, in one transaction, how the run ended: record, kept output, audit events. An earlier try may have done so.
func (l *life) writeEnd(ctx context.Context, again bool) error {
	db, err := l.engine.state(ctx)
	if err != nil {
		return err
	}
	entry, err := l.entry()
	if err != nil {
		return err
	}
	sealed, err := record.Seal(entry, l.engine.cfg.Signer)
	if err != nil {
		return err
	}
	events, err := l.events(time.Now(), sealed)
	if err != nil {
		return err
	}
	handOff := l.handOff(entry.Record)
	return db.Update(ctx, func(tx *sql.Tx) error {
		if again {
			if old, err := record.Get(ctx, tx, l.id); err == nil && old.Record.Outcome.Kind != "" {
				return nil
			}
		}
		if err := record.Finish(ctx, tx, sealed); err != nil {
			return err
		}
		for _, c := range l.channels() {
			if !c.keep.inline() {
				continue
			}
			if err := record.PutOutput(ctx, tx, l.id, c.name, c.keep.head); err != nil {
				return err
			}
		}
		if err := l.putInput(ctx, tx); err != nil {
			return err
		}
		if err := handOff(ctx, tx); err != nil {
			return err
		}
		return audit.Append(ctx, tx, events...)
	})
}

// named adds what identifies a record to the event of the end of its run: so the audit trail chains the records, too.
func named(sealed record.Sealed, data map[string]any) map[string]any {
	data["recordSha256"] = sealed.SHA256
	if sealed.KeyID != "" {
		data["keyId"] = sealed.KeyID
	}
	return data
}

// raise tells of a violation.
func (l *life) raise(ctx context.Context) error {
	if l.out.Kind != Violated || l.engine.cfg.Alert == nil {
		return nil
	}
	return l.engine.cfg.Alert(context.WithoutCancel(ctx), l.out.Alert(l.profile()))
}

// namedKeeper is a channel by name.
type namedKeeper struct {
	name string
	keep *keeper
	out  *Channel
}

func (l *life) channels() []namedKeeper {
	if l.streams == nil {
		return nil
	}
	return []namedKeeper{{"stdout", l.streams.stdout, &l.out.Stdout}, {"stderr", l.streams.stderr, &l.out.Stderr}}
}

// events are the audit events of the end of the run. A refused run is a sandbox_error with the error "denied": the
// published list of events has no name of its own for it, and a listed name is what existing queries find. The error of
// a failed run is the program's own text; outcome, beside it, is a [Kind] that only silk writes.
func (l *life) events(now time.Time, sealed record.Sealed) ([]*audit.Event, error) {
	var events []*audit.Event
	var faults []error
	add := func(name audit.Name, data map[string]any) {
		data["intentId"] = l.id
		e, err := audit.New(l.id, name, now, data)
		faults = append(faults, err)
		events = append(events, &e)
	}
	for i, c := range l.channels() {
		if r := l.channelRecord(*c.out, i); r.Truncated {
			add(audit.OutputTruncated, map[string]any{"channel": c.name, "bytes": r.Bytes, "kept": r.Kept})
		}
	}
	if l.out.Dropped > 0 {
		add(audit.MonitorDrop, map[string]any{"source": "sentry", "count": l.out.Dropped})
	}
	for _, r := range l.refusals {
		if rule, ok := rules.Named(r.Rule); !ok || rule.Action != rules.Absent {
			add(audit.PolicyDenied, map[string]any{"rule": r.Rule, "count": r.Count, "acts": r.Acts})
		}
	}
	l.traffic.events(func(at time.Time, data map[string]any) {
		data["intentId"] = l.id
		e, err := audit.New(l.id, audit.NetworkDecision, at, data)
		faults = append(faults, err)
		events = append(events, &e)
	})
	out := l.out
	switch out.Kind {
	case OK:
		add(audit.SandboxCompleted, named(sealed, l.of(map[string]any{"outcome": string(out.Kind), "exitCode": 0, "durationMs": out.WallMs})))
	case Violated:
		add(audit.SecurityViolation, map[string]any{"type": out.Rule, "details": out.Syscall + "(" + out.Argument + ")", "deadAfterUs": out.DeadAfterUs})
		fallthrough
	default:
		data := named(sealed, l.of(map[string]any{"outcome": string(out.Kind), "error": string(out.Kind)}))
		switch out.Kind {
		case Failed:
			data["error"] = l.errorText()
		case Denied:
			data["rule"] = out.Rule
		case Error:
			data["reason"] = string(out.Reason)
		}
		if out.Kind != Timeout {
			data["exitCode"] = out.ExitStatus()
		}
		add(audit.SandboxError, data)
	}
	return events, errors.Join(faults...)
}

// errorText is the end of stderr, where programs say what went wrong, or else "non-zero exit".
func (l *life) errorText() string {
	if l.streams == nil {
		return "non-zero exit"
	}
	tail := l.streams.stderr.lastBytes()
	text := strings.TrimSpace(strings.ToValidUTF8(string(tail[max(0, len(tail)-audit.MaxErrorBytes):]), "\ufffd"))
	if text == "" {
		return "non-zero exit"
	}
	return text
}

// of adds to an event's data what was run: a skill by its name, anything else by its profile.
func (l *life) of(data map[string]any) map[string]any {
	if s := l.req.Skill; s != nil {
		data["skillName"] = s.Name
	} else {
		data["profile"] = l.profile()
	}
	return data
}

// profile is the profile that decided, or the one that was asked for.
func (l *life) profile() string {
	if s := l.req.Skill; s != nil {
		return s.ProfileName()
	}
	if l.plan.Profile != "" {
		return l.plan.Profile
	}
	return policy.ProfileFor(l.req)
}

// entry is the record as far as it is known.
func (l *life) entry() (record.Entry, error) {
	out := l.out
	r := record.Record{
		Run: l.id, Client: string(l.req.Client), Profile: l.profile(), StartedAtMs: l.arrived.UnixMilli(),
		Command: commandText(l.req, l.plan.Language), Image: l.image.Digest, Tools: l.image.Tools, Input: l.in,
		Outcome: record.Outcome{
			Kind: string(out.Kind), Reason: string(out.Reason), Message: out.Message, ExitCode: out.ExitCode, Signal: out.Signal,
			Phase: out.Phase, Rule: out.Rule, Syscall: out.Syscall, Argument: out.Argument, Flags: out.Flags, Refused: out.Refused, WallMs: out.WallMs,
			Watched: out.Watched, Dropped: out.Dropped, Events: out.Events, DeadAfterUs: out.DeadAfterUs,
		},
		Usage:     record.Usage(out.Usage),
		Stdout:    l.channelRecord(out.Stdout, 0),
		Stderr:    l.channelRecord(out.Stderr, 1),
		Decisions: l.decisions,
		Replay:    l.keeping.replay,
	}
	if l.driver != nil {
		r.Driver, r.Isolation = l.driver.Name(), l.facts()
	}
	if out.Kind != "" {
		r.EndedAtMs = time.Now().UnixMilli()
	}
	r.Outcome.Egress = append(r.Outcome.Egress, out.Egress...)
	r.Outcome.EgressMore = out.EgressMore
	for _, a := range out.Artifacts {
		r.Artifacts = append(r.Artifacts, record.Artifact(a))
	}
	var err error
	if r.RequestSHA256, err = requestHash(l.req); err != nil {
		return record.Entry{}, err
	}
	e := record.Entry{Record: r}
	if !l.decided {
		return e, nil
	}
	e.Record.Policy = policyRecord(l.plan)
	if e.Record.PolicySHA256, err = record.Hash(e.Record.Policy); err != nil {
		return e, err
	}
	if e.Record.Input.SHA256, err = record.Hash(map[string]any{
		"code": l.in.CodeSHA256, "workspace": l.in.WorkspaceSHA256, "stdin": l.in.StdinSHA256, "args": l.plan.Args,
	}); err != nil {
		return e, err
	}
	if e.Plan, err = json.Marshal(withoutValues(l.plan, l.req.Env)); err != nil {
		return e, fmt.Errorf("encode plan: %w", err)
	}
	return e, nil
}

func (l *life) channelRecord(c Channel, i int) record.Channel {
	r := record.Channel{Bytes: c.Bytes, Truncated: c.Truncated, SHA256: c.SHA256}
	if all := l.channels(); all != nil && (all[i].keep.file != nil || all[i].keep.inline()) {
		r.Kept = all[i].keep.kept // else it could not be stored
	}
	r.Truncated = r.Kept < r.Bytes
	return r
}

// facts are what is known of what holds the program: silk, the machine's kind, and what the driver says of itself.
func (l *life) facts() map[string]string {
	facts := map[string]string{"architecture": runtime.GOARCH}
	if l.engine.cfg.Version != "" {
		facts["silk"] = l.engine.cfg.Version
	}
	if t, ok := l.driver.(Teller); ok {
		maps.Copy(facts, t.Facts())
	}
	if l.monitored != "" {
		facts["monitor"] = l.monitored
	}
	return facts
}

// policyRecord is the part of a plan that limits the run.
func policyRecord(p policy.Plan) record.Policy {
	r := record.Policy{
		TimeoutMs:      p.Limits.Timeout.Milliseconds(),
		MemoryBytes:    p.Limits.MemoryBytes,
		MilliCPUs:      int64(p.Limits.CPUs*1000 + 0.5),
		Processes:      p.Limits.Processes,
		WorkspaceBytes: p.Limits.WorkspaceBytes,
		TmpBytes:       p.Limits.TmpBytes,
		ShmBytes:       p.Limits.ShmBytes,
		OutputBytes:    p.Limits.OutputBytes,
		Network:        p.Network,
		Hosts:          append([]string{}, p.Hosts...),
		NoSpawn:        p.NoSpawn,
		ReadOnly:       p.ReadOnly,
		Deterministic:  p.Deterministic,
		RequireWatch:   p.RequireWatch,
		Isolation:      p.Isolation,
	}
	if p.Held != nil {
		r.Held = new(record.Held(*p.Held))
	}
	if p.Egress != nil {
		r.Targets, r.Addrs, r.Secrets, r.OnRefused = p.Egress.Targets, p.Egress.Addrs, p.Egress.Secrets, p.Egress.OnRefused
	}
	return r
}

// requestHash is the hash of everything in a request, its code by hash. Arguments and variables may be any bytes, which
// JSON is not able to hold, hence base64.
func requestHash(req policy.Request) (string, error) {
	encode := func(list []string) []string {
		done := make([]string, len(list))
		for i, s := range list {
			done[i] = base64.StdEncoding.EncodeToString([]byte(s))
		}
		return done
	}
	req.Args, req.Env, req.Files = encode(req.Args), encode(req.Env), encode(req.Files)
	return record.Hash(req)
}

// withoutValues is plan with the values of the variables that the invoker gave replaced by their hashes: they may be
// secrets, and a record is kept for long and shown to others.
func withoutValues(plan policy.Plan, given []string) policy.Plan {
	plan.Env = slices.Clone(plan.Env)
	for i, v := range plan.Env {
		if slices.Contains(given, v) {
			name, value, _ := strings.Cut(v, "=")
			plan.Env[i] = name + "=sha256:" + hashText(value)
		}
	}
	return plan
}

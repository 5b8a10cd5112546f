//go:build server || !linux || !amd64

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/note"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
)

// noteEngine runs a block: on this host, or on a server.
type noteEngine interface {
	run(ctx context.Context, b *note.Block, from run.Note) (*noteEnd, error)
	close() error
}

// noteEnd is the end of the run of a block.
type noteEnd struct {
	outcome        run.Outcome
	stdout, stderr []byte
	artifact       func(name string) ([]byte, error)
	handoffs       func(vault string) ([]note.Handoff, error) // of the run, with their notes if they become some in this vault
	close          func() error
}

// maxPicture bounds one picture in a vault.
const maxPicture = 32 << 20

// result is what the note shows of it.
func (e *noteEnd) result(stable bool) *note.Result {
	o := e.outcome
	var kept []note.Destination
	for _, d := range o.Egress {
		if !d.Allowed {
			kept = append(kept, note.Destination{Host: d.Host, Port: d.Port})
		}
	}
	return &note.Result{
		Run: o.Run, Outcome: string(o.Kind), Reason: string(o.Reason), Phase: o.Phase, Message: o.Message, ExitCode: o.ExitCode, Signal: o.Signal,
		Wall: time.Duration(o.WallMs) * time.Millisecond, Rule: o.Rule, Syscall: o.Syscall, Argument: o.Argument, Flags: o.Flags,
		Stdout:  note.Channel{Kept: e.stdout, Bytes: o.Stdout.Bytes, Truncated: o.Stdout.Truncated},
		Stderr:  note.Channel{Kept: e.stderr, Bytes: o.Stderr.Bytes, Truncated: o.Stderr.Truncated},
		Kept:    kept,
		Results: note.Results(e.pictures(), func(name string) ([]byte, error) { return e.artifact(name) }), // a refused run has none to read
		Stable:  stable,
	}
}

// pictures are the artifacts that may be some.
func (e *noteEnd) pictures() (list []note.Artifact) {
	for _, a := range e.outcome.Artifacts {
		if a.Type == "file" && a.Omitted == "" && a.PathB64 == "" && a.Size <= maxPicture {
			list = append(list, note.Artifact{Path: a.Path, MIME: a.MIME, Display: a.Display, Bytes: a.Size})
		}
	}
	return list
}

// noteEngine makes what runs the blocks: the server that the user named, or this host, where a dry run hands nothing on, and the user may be asked
// for an approval.
func (a *app) noteEngine(dry, ask bool) (noteEngine, error) {
	if a.serverURL() != "" {
		c, err := a.server()
		if err != nil {
			return nil, err
		}
		return &remoteNotes{a, c}, nil
	}
	if err := sweepScratch(); err != nil {
		return nil, fmt.Errorf("remove what a silk note left that was killed: %w", err)
	}
	h, err := a.openHost(false)
	if err != nil {
		return nil, err
	}
	if err := h.knownDriver(""); err != nil {
		return nil, errors.Join(err, h.close())
	}
	if dry {
		h.config.handoffs.routes = handoff.Routes{}
	}
	engine, err := a.engine(h)
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	deliveries, err := a.startDeliveries(h)
	if err != nil {
		return nil, errors.Join(err, engine.Close(), h.close())
	}
	return &localNotes{a, h, engine, deliveries, ask}, nil
}

// localNotes runs blocks on this host.
type localNotes struct {
	*app
	host   *host
	engine *run.Engine

	deliveries *deliveries
	ask        bool
}

func (l *localNotes) close() error {
	l.deliveries.end("")
	return errors.Join(l.engine.Close(), l.host.close())
}

func (l *localNotes) run(ctx context.Context, b *note.Block, from run.Note) (_ *noteEnd, err error) {
	dir, release, err := scratchDir(noteDirs)
	if err != nil {
		return nil, &hostError{fmt.Errorf("make directory for artifacts: %w", err)}
	}
	dir = filepath.Join(dir, "artifacts")
	end := &noteEnd{close: release}
	defer func() {
		if err != nil {
			err = errors.Join(err, end.close())
		}
	}()
	req := noteRequest(b)
	if l.ask {
		l.askApproval(l.host, &req, from.Path+", "+from.Block+": ")
	}
	if end.outcome, err = l.engine.Run(ctx, req, run.IO{Artifacts: dir, Note: from}); err != nil && end.outcome.Run == "" {
		return nil, err
	}
	if end.stdout, err = keptOf(end.outcome.Stdout); err != nil {
		return nil, err
	}
	if end.stderr, err = keptOf(end.outcome.Stderr); err != nil {
		return nil, err
	}
	end.artifact = func(name string) ([]byte, error) {
		root, err := os.OpenRoot(dir) // a program chose the name
		if err != nil {
			return nil, err
		}
		defer root.Close()
		return root.ReadFile(name)
	}
	end.handoffs = func(vault string) ([]note.Handoff, error) { return l.handoffs(ctx, end.outcome.Run, vault) }
	return end, nil
}

// handoffs are those of a run on this host.
func (l *localNotes) handoffs(ctx context.Context, id, vault string) (list []note.Handoff, err error) {
	db, _, err := l.openStore()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	entries, err := handoff.List(ctx, db, handoff.Filter{Run: id})
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		h := note.Handoff{Receiver: e.Receiver}
		if slices.ContainsFunc(l.host.handoffs.Vaults(e.Receiver), func(dir string) bool { return sameDir(dir, vault) }) {
			whole, err := handoff.Get(ctx, db, e.ID)
			if err != nil {
				return nil, err
			}
			h.Note = handoff.NotePath(*whole.Content)
		}
		list = append(list, h)
	}
	return list, nil
}

// keptOf is the output that an outcome has.
func keptOf(c run.Channel) ([]byte, error) {
	switch {
	case c.Text != nil:
		return []byte(*c.Text), nil
	case c.B64 != nil:
		return base64.StdEncoding.DecodeString(*c.B64)
	}
	return nil, nil
}

// noteRequest asks for what a block says. What goes beyond its profile is not granted by that: the note may be somebody else's.
func noteRequest(b *note.Block) policy.Request {
	s := b.Settings()
	name := "main"
	if l, ok := profile.LanguageNamed(b.Language); ok {
		name = l.File
	}
	code := newCode(name, []byte(b.Code))
	code.Given = "note"
	return policy.Request{
		Client: policy.ClientNote, Profile: s.Profile, Language: b.Language, Code: code, Args: s.Args, Limits: s.Limits,
		Network: s.Network, Hosts: s.Hosts, NoSpawn: s.NoSpawn, Deterministic: s.Deterministic, Driver: s.Driver, Isolation: s.Isolation,
	}
}

// remoteNotes runs blocks on a server.
type remoteNotes struct {
	*app
	client *client.Client
}

func (r *remoteNotes) close() error { r.client.Close(); return nil }

func (r *remoteNotes) run(ctx context.Context, b *note.Block, _ run.Note) (*noteEnd, error) {
	s := b.Settings()
	req := api.RunRequest{
		Client: string(policy.ClientNote), Profile: s.Profile, Language: b.Language, Code: &b.Code, Args: s.Args, Limits: toLimits(s.Limits),
		Network: s.Network, Hosts: s.Hosts, NoSpawn: s.NoSpawn, Deterministic: s.Deterministic, Driver: s.Driver, Isolation: s.Isolation,
	}
	end := &noteEnd{close: func() error { return nil }, handoffs: func(string) ([]note.Handoff, error) { return nil, nil }}
	accepted, err := r.client.Submit(ctx, req, rand.Text())
	if err == nil && accepted.State == api.StatePending {
		r.errorf("run %s waits for the owner's approval; the owner decides %s", accepted.ID, howToApprove(r.serverURL(), accepted.ID))
	}
	if err == nil {
		var outcome api.Outcome
		outcome, err = r.wait(ctx, accepted.ID)
		end.outcome = fromOutcome(outcome)
	}
	var p *api.Problem
	if errors.As(err, &p) && p.Type == "urn:silk:denied" && p.Run != "" { // an outcome, which has a record
		end.outcome = (&remoteRun{app: r.app}).refused(err)
		return end, nil
	}
	if err != nil {
		return nil, withHint(err)
	}
	end.handoffs = func(string) (list []note.Handoff, err error) {
		handed, err := r.handoffsOnServer(handoff.Filter{Run: accepted.ID, Limit: len(handoff.Receivers)})
		for _, h := range handed {
			list = append(list, note.Handoff{Receiver: h.Receiver})
		}
		return list, err
	}
	later, stop := after(ctx, submitGrace) // a canceled run has output too
	defer stop()
	if end.stdout, err = r.output(later, accepted.ID, "stdout"); err != nil {
		return nil, err
	}
	if end.stderr, err = r.output(later, accepted.ID, "stderr"); err != nil {
		return nil, err
	}
	end.artifact = func(name string) ([]byte, error) {
		in, err := r.client.Artifact(ctx, accepted.ID, name, 0)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(in, maxPicture))
		return data, errors.Join(err, in.Close())
	}
	return end, nil
}

// wait waits for the end of a run, which Ctrl-C is.
func (r *remoteNotes) wait(ctx context.Context, id string) (api.Outcome, error) {
	later, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	failed := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		if err := (&remoteRun{app: r.app, client: r.client, id: id}).cancel(later); err != nil && later.Err() == nil {
			failed <- fmt.Errorf("the run could not be ended: %w; end it with silk runs kill %s", err, id)
			stop()
		}
	})()
	outcome, err := r.client.Wait(later, id)
	select {
	case ended := <-failed:
		return outcome, ended
	default:
		return outcome, err
	}
}

func (r *remoteNotes) output(ctx context.Context, id, channel string) ([]byte, error) {
	in, err := r.client.Output(ctx, id, channel)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", channel, err)
	}
	data, err := io.ReadAll(in)
	return data, errors.Join(err, in.Close())
}

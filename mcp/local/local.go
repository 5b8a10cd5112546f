// Package local is the engine of this host behind the tools of package mcp: a run.Engine with what it keeps.
//
// [Open] takes over the engine's state directory as far as copies of artifacts are concerned: they are in a directory of its own,
// which is gone after [Engine.Close], or, if its process was killed, when the next one is opened; those of runs under hold go where a
// server has them. [Engine.For] is the engine as one
// identity may use it.
package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/mcp"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/retention"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/store"
)

// Dir is the directory of the copies of artifacts inside a state directory, one in it for each process.
const Dir = "mcp"

// Config is what an [Engine] is made of. All of it is needed.
type Config struct {
	Home     string // the state directory of Engine and DB
	Engine   *run.Engine
	DB       *store.DB
	Profiles func() ([]api.Profile, error)
}

// Engine runs code on this host. Safe for concurrent use.
type Engine struct {
	cfg  Config
	lock *lockfile.Lock
	dir  string // of copies of artifacts, by run
}

// Open makes a directory for artifacts, and removes those of processes that are gone.
func Open(cfg Config) (*Engine, error) {
	if cfg.Engine == nil || cfg.DB == nil || cfg.Profiles == nil || !filepath.IsAbs(cfg.Home) {
		return nil, errors.New("configure local engine: Engine, DB, Profiles and an absolute Home are needed")
	}
	base := filepath.Join(cfg.Home, Dir)
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, fmt.Errorf("make directory for artifacts: %w", err)
	}
	if err := sweep(cfg, base); err != nil {
		return nil, fmt.Errorf("remove artifacts of processes that are gone: %w", err)
	}
	e := &Engine{cfg: cfg, dir: filepath.Join(base, newID())}
	var err error
	if e.lock, err = lockfile.Create(e.dir + lockSuffix); err != nil {
		return nil, fmt.Errorf("make directory for artifacts: %w", err)
	}
	if err := os.Mkdir(e.dir, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("make directory for artifacts: %w", err), e.lock.Remove())
	}
	return e, nil
}

// lockSuffix is that of the file which says that the process of a directory lives.
const lockSuffix = ".lock"

// sweep removes the directories whose process is gone. A directory is made after its lock, and removed before it.
func sweep(cfg Config, base string) error {
	entries, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	var faults []error
	for _, entry := range entries {
		name, isLock := strings.CutSuffix(entry.Name(), lockSuffix)
		if _, err := ulid.ParseStrict(name); err != nil {
			continue // not ours, or a lock in the making
		}
		lock := filepath.Join(base, name+lockSuffix)
		if _, err := os.Lstat(lock); !isLock && err == nil {
			continue // it goes with its lock
		}
		held, err := lockfile.Held(lock)
		switch {
		case err != nil:
			faults = append(faults, err)
		case !held:
			err := discard(cfg, filepath.Join(base, name))
			if err == nil {
				err = removed(lock)
			}
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// removed removes a file that another process may remove too.
func removed(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close removes the copies of artifacts. No run may be in progress.
func (e *Engine) Close() error { return errors.Join(discard(e.cfg, e.dir), e.lock.Remove()) }

// discard removes a directory of copies of artifacts, but for those of runs under hold.
func discard(cfg Config, dir string) error {
	holds, err := retention.Holds(context.Background(), cfg.DB)
	if err != nil {
		return err
	}
	for _, h := range holds {
		kept := filepath.Join(cfg.Home, retention.ArtifactsDir, h.Run)
		if _, err := os.Lstat(filepath.Join(dir, h.Run)); err != nil {
			continue
		}
		err := os.MkdirAll(filepath.Dir(kept), 0o700)
		if err == nil {
			err = os.Rename(filepath.Join(dir, h.Run), kept)
		}
		if err != nil {
			return fmt.Errorf("keep artifacts of run %s, which is held: %w", h.Run, err)
		}
	}
	return os.RemoveAll(dir)
}

// For is the engine for one identity: what it may not do or see is refused, or not there.
func (e *Engine) For(id auth.Identity) mcp.Engine { return &view{e, id} }

// view is an engine with an identity.
type view struct {
	*Engine

	id auth.Identity
}

// Run implements mcp.Runner.
func (v *view) Run(ctx context.Context, in api.RunRequest, on func(api.Frame, []byte)) (api.Outcome, error) {
	if !v.id.Can(auth.ActRun) {
		return api.Outcome{}, &mcp.RequestError{Text: auth.ErrForbidden.Error()}
	}
	in.Client = string(policy.ClientMCP) // whatever it says
	req, err := serve.RequestOf(in)
	if err != nil {
		return api.Outcome{}, &mcp.RequestError{Text: err.Error()}
	}
	id := newID()
	on(api.Frame{Type: api.FrameHello, Run: id, Profile: policy.ProfileFor(req)}, nil) // without a state: it may be refused
	dir := filepath.Join(v.dir, id)
	defer os.Remove(dir) // which fails if there are artifacts
	out, err := v.cfg.Engine.Run(ctx, req, run.IO{
		Run: id, Decisions: []record.Decision{askedBy(v.id.Token)}, OmitText: true, Artifacts: dir, Stdin: stdinOf(in),
		OnStart: func(s run.Started) {
			on(api.Frame{Type: api.FrameStarted, Run: id, Driver: s.Driver, Profile: s.Profile}, nil)
		},
		OnFrame: func(f run.Frame) {
			on(api.Frame{Type: api.FrameOutput, Run: id, Channel: f.Channel, Offset: &f.Offset}, f.Data)
		},
	})
	if err != nil && out.Message == "" {
		return api.Outcome{}, err
	}
	return serve.OutcomeOf(out), nil
}

func stdinOf(in api.RunRequest) io.Reader {
	if in.Stdin == nil {
		return nil
	}
	return strings.NewReader(*in.Stdin)
}

func askedBy(token string) record.Decision {
	return record.Decision{What: "asked by", Text: "token " + token}
}

// Plan implements mcp.Engine.
func (v *view) Plan(ctx context.Context, in api.RunRequest) (api.Preview, error) {
	if !v.id.Can(auth.ActRun) {
		return api.Preview{}, &mcp.RequestError{Text: auth.ErrForbidden.Error()}
	}
	in.Client = string(policy.ClientMCP)
	p, err := serve.PreviewOf(ctx, v.cfg.Engine, in)
	var unread *serve.InvalidError
	if errors.As(err, &unread) {
		err = &mcp.RequestError{Text: unread.Error()}
	}
	return p, err
}

// Profiles implements mcp.Engine.
func (v *view) Profiles(context.Context) ([]api.Profile, error) { return v.cfg.Profiles() }

// entry finds the record of a run that the identity may see.
func (v *view) entry(ctx context.Context, id string) (record.Record, error) {
	e, err := record.Get(ctx, v.cfg.DB, id)
	switch {
	case errors.Is(err, record.ErrNotFound), errors.As(err, new(*record.AmbiguousError)), err == nil && (e.Record.Run != id || !v.sees(e.Record)):
		return record.Record{}, fmt.Errorf("run %q: %w", id, mcp.ErrNotFound)
	}
	return e.Record, err
}

// sees says whether a run is the identity's own, or it may see those of everybody.
func (v *view) sees(r record.Record) bool {
	return v.id.Can(auth.ActViewAll) || v.id.Can(auth.ActView) && slices.Contains(r.Decisions, askedBy(v.id.Token))
}

// Look implements mcp.Archive.
func (v *view) Look(ctx context.Context, id string) (api.Run, error) {
	r, err := v.entry(ctx, id)
	if err != nil {
		return api.Run{}, err
	}
	return serve.RunFromRecord(r.Brief()), nil
}

// Record implements mcp.Archive.
func (v *view) Record(ctx context.Context, id string) (json.RawMessage, error) {
	r, err := v.entry(ctx, id)
	if err != nil {
		return nil, err
	}
	return json.Marshal(serve.Public(r))
}

// Output implements mcp.Archive.
func (v *view) Output(ctx context.Context, id, channel string) (io.ReadCloser, error) {
	if _, err := v.entry(ctx, id); err != nil {
		return nil, err
	}
	r, err := record.Output(ctx, v.cfg.DB, v.cfg.Home, id, channel)
	if errors.Is(err, record.ErrRemoved) {
		err = fmt.Errorf("%w: %w", err, mcp.ErrNotFound)
	}
	return r, err
}

// Artifact implements mcp.Archive. Only what the record lists is opened, and never through a link.
func (v *view) Artifact(ctx context.Context, id, name string) (io.ReadCloser, error) {
	r, err := v.entry(ctx, id)
	if err != nil {
		return nil, err
	}
	gone := fmt.Errorf("artifact %q of run %s: %w", name, id, mcp.ErrNotFound)
	if !slices.ContainsFunc(r.Artifacts, func(a record.Artifact) bool { return a.Path == name && a.Type == "file" && a.Omitted == "" }) {
		return nil, gone
	}
	root, err := os.OpenRoot(filepath.Join(v.dir, id))
	if errors.Is(err, fs.ErrNotExist) { // of an earlier process, and held
		root, err = os.OpenRoot(filepath.Join(v.cfg.Home, retention.ArtifactsDir, id))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone
	}
	if err != nil {
		return nil, fmt.Errorf("open artifacts of run %s: %w", id, err)
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone
	}
	return f, err
}

// Runs implements mcp.Archive.
func (v *view) Runs(ctx context.Context, most int) ([]api.Run, error) {
	list, err := record.List(ctx, v.cfg.DB, record.Filter{Limit: most})
	if err != nil {
		return nil, err
	}
	out := []api.Run{}
	for _, e := range list {
		if v.sees(e.Record) {
			out = append(out, serve.RunFromRecord(e.Record.Brief()))
		}
	}
	return out, nil
}

// Handoffs implements mcp.Handoffs.
func (v *view) Handoffs(ctx context.Context, most int) ([]api.Handoff, error) {
	list, err := handoff.List(ctx, v.cfg.DB, handoff.Filter{Limit: most})
	if err != nil {
		return nil, err
	}
	out := []api.Handoff{}
	for _, e := range list {
		if _, err := v.entry(ctx, e.Run); err == nil {
			out = append(out, shown(e))
		}
	}
	return out, nil
}

// Handoff implements mcp.Handoffs.
func (v *view) Handoff(ctx context.Context, id string) (api.Handoff, error) {
	e, err := handoff.Get(ctx, v.cfg.DB, id)
	if err == nil && e.ID == id {
		_, err = v.entry(ctx, e.Run)
	}
	if errors.Is(err, handoff.ErrNotFound) || errors.As(err, new(*handoff.AmbiguousError)) || err == nil && e.ID != id {
		err = fmt.Errorf("hand-off %q: %w", id, mcp.ErrNotFound)
	}
	return shown(e), err
}

// shown is a hand-off as a model sees it: why a sink did not take it may name places of the host.
func shown(e handoff.Entry) api.Handoff {
	h := e.Handoff
	h.Deliveries = slices.Clone(h.Deliveries)
	for i := range h.Deliveries {
		h.Deliveries[i].Error = ""
	}
	return h
}

func newID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

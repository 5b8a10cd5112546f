//go:build unix

package local_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/mcp"
	"github.com/silk-sandbox/silk/mcp/local"
	"github.com/silk-sandbox/silk/retention"
	"github.com/silk-sandbox/silk/serve/servetest"
)

func open(t *testing.T, s *servetest.Stand) *local.Engine {
	t.Helper()
	e, err := local.Open(local.Config{Home: s.Home, Engine: s.Engine, DB: s.DB, Profiles: func() ([]api.Profile, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func program(ops ...string) api.RunRequest {
	return api.RunRequest{Profile: servetest.Profile, Args: append([]string{"fake"}, ops...), Client: "note"} // it is an agent's whatever it says
}

func run(t *testing.T, e mcp.Engine, in api.RunRequest) api.Outcome {
	t.Helper()
	out, err := e.Run(t.Context(), in, func(api.Frame, []byte) {})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestIdentities: a runner sees its own runs, who may see all sees all, and a viewer starts none.
func TestIdentities(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	e := open(t, s)
	t.Cleanup(func() { e.Close() })
	runner, other, viewer := e.For(servetest.Runner), e.For(servetest.Other), e.For(servetest.Viewer)
	out := run(t, runner, program("print:x", "write:a=text", "violate:file.accounts,openat,/etc/passwd"))
	r, err := runner.Look(t.Context(), out.Run)
	if err != nil || r.Client != "mcp" || r.Outcome == nil || r.Outcome.Kind != "violated" {
		t.Fatalf("its own: %+v, %v", r, err)
	}
	if _, err := viewer.Look(t.Context(), out.Run); err != nil {
		t.Errorf("a viewer: %v", err)
	}
	for what, look := range map[string]func() error{
		"the run":      func() error { _, err := other.Look(t.Context(), out.Run); return err },
		"its record":   func() error { _, err := other.Record(t.Context(), out.Run); return err },
		"its output":   func() error { _, err := other.Output(t.Context(), out.Run, "stdout"); return err },
		"its artifact": func() error { _, err := other.Artifact(t.Context(), out.Run, "a"); return err },
		"by a prefix":  func() error { _, err := runner.Look(t.Context(), out.Run[:20]); return err },
	} {
		if err := look(); !errors.Is(err, mcp.ErrNotFound) {
			t.Errorf("%s, for another runner: %v", what, err)
		}
	}
	if list, err := other.Runs(t.Context(), 10); err != nil || len(list) != 0 {
		t.Errorf("another runner lists %v, %v", list, err)
	}
	mine, err := runner.(mcp.Handoffs).Handoffs(t.Context(), 10)
	if err != nil || len(mine) != len(handoff.Receivers) {
		t.Fatalf("hand-offs %v, %v", mine, err)
	}
	if theirs, err := other.(mcp.Handoffs).Handoffs(t.Context(), 10); err != nil || len(theirs) != 0 {
		t.Errorf("another runner has hand-offs %v, %v", theirs, err)
	}
	if _, err := other.(mcp.Handoffs).Handoff(t.Context(), mine[0].ID); !errors.Is(err, mcp.ErrNotFound) {
		t.Errorf("another runner reads one: %v", err)
	}
	var refused *mcp.RequestError
	if _, err := viewer.Run(t.Context(), program(), func(api.Frame, []byte) {}); !errors.As(err, &refused) {
		t.Errorf("a viewer runs: %v", err)
	}
	if _, err := viewer.Plan(t.Context(), program()); !errors.As(err, &refused) {
		t.Errorf("a viewer plans: %v", err)
	}
}

// TestArtifactsGo: copies of artifacts go with the engine, or when the next one is opened; nobody takes those of a living one.
func TestArtifactsGo(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	first := open(t, s)
	out := run(t, first.For(auth.LocalOwner), program("write:d/a=text"))
	base := filepath.Join(s.Home, local.Dir)
	dead := filepath.Join(base, "01ARZ3NDEKTSV4RRFFQ69G5FAV") // of a process that was killed
	if err := os.MkdirAll(filepath.Join(dead, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := open(t, s)
	r, err := first.For(auth.LocalOwner).Artifact(t.Context(), out.Run, "d/a")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || string(text) != "text" {
		t.Errorf("artifact %q, %v", text, err)
	}
	r.Close()
	if entries := names(t, base); len(entries) != 4 { // two, each with its lock
		t.Errorf("there are %v", entries)
	}
	if run(t, second.For(auth.LocalOwner), program("print:x")); len(names(t, base)) != 4 {
		t.Errorf("there are %v", names(t, base))
	}
	for _, e := range []*local.Engine{first, second} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if entries := names(t, base); len(entries) != 0 {
		t.Errorf("left are %v", entries)
	}
	third := open(t, s)
	t.Cleanup(func() { third.Close() })
	if _, err := third.For(auth.LocalOwner).Artifact(t.Context(), out.Run, "d/a"); !errors.Is(err, mcp.ErrNotFound) {
		t.Errorf("an artifact of an engine that is gone: %v", err)
	}
}

// TestHeldArtifactsStay: copies of artifacts of a run that is held outlive the engine that made them; those of others go.
func TestHeldArtifactsStay(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	first := open(t, s)
	held := run(t, first.For(auth.LocalOwner), program("write:d/a=text"))
	other := run(t, first.For(auth.LocalOwner), program("write:d/a=text"))
	if _, err := retention.Place(t.Context(), s.DB, held.Run, "case 4711", "local"); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if left := names(t, filepath.Join(s.Home, local.Dir)); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	second := open(t, s)
	t.Cleanup(func() { second.Close() })
	r, err := second.For(auth.LocalOwner).Artifact(t.Context(), held.Run, "d/a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "text" {
		t.Errorf("artifact %q, %v", text, err)
	}
	if _, err := second.For(auth.LocalOwner).Artifact(t.Context(), other.Run, "d/a"); !errors.Is(err, mcp.ErrNotFound) {
		t.Errorf("an artifact of a run that is not held: %v", err)
	}
}

// TestLinksAreNotFollowed: what stands in the place of an artifact is not opened if it leads elsewhere.
func TestLinksAreNotFollowed(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	e := open(t, s)
	t.Cleanup(func() { e.Close() })
	out := run(t, e.For(auth.LocalOwner), program("write:a=text"))
	files, err := filepath.Glob(filepath.Join(s.Home, local.Dir, "*", out.Run, "a"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.Home, "silk.db"), files[0]); err != nil {
		t.Fatal(err)
	}
	if r, err := e.For(auth.LocalOwner).Artifact(t.Context(), out.Run, "a"); err == nil {
		r.Close()
		t.Error("a link is followed")
	}
}

// TestRunEndsWithItsContext: and Run returns when it is over.
func TestRunEndsWithItsContext(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	e := open(t, s)
	t.Cleanup(func() { e.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	out, err := e.For(auth.LocalOwner).Run(ctx, program("sleep"), func(f api.Frame, _ []byte) {
		if f.Type == api.FrameStarted {
			cancel()
		}
	})
	if err != nil || out.Kind != "canceled" || s.Fake.Running() != 0 {
		t.Errorf("outcome %+v, %v, %d sandboxes", out, err, s.Fake.Running())
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

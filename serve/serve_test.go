//go:build unix

package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// program is a request for operations of the fake driver.
func program(ops ...string) api.RunRequest {
	return api.RunRequest{Profile: servetest.Profile, Args: append([]string{"fake"}, ops...)}
}

func submit(t *testing.T, s *servetest.Stand, id auth.Identity, in api.RunRequest) api.Run {
	t.Helper()
	r, existed, err := s.Server.Submit(t.Context(), id, in, "")
	if err != nil || existed {
		t.Fatalf("submit: %v, existed %t", err, existed)
	}
	return r
}

// watch reads the frames of a run to its end.
func watch(t *testing.T, s *servetest.Stand, id auth.Identity, run string) (frames []api.Frame) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	v, err := s.Server.Stream(ctx, id, run, broker.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		text, err := v.Next(ctx)
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatalf("after %d frames: %v", len(frames), err)
		}
		var f api.Frame
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
}

// end waits for the end of a run.
func end(t *testing.T, s *servetest.Stand, run string) api.Outcome {
	t.Helper()
	frames := watch(t, s, servetest.Owner, run)
	last := frames[len(frames)-1]
	if last.Type != api.FrameExit || last.Outcome == nil {
		t.Fatalf("the last frame is %+v", last)
	}
	return *last.Outcome
}

func output(t *testing.T, s *servetest.Stand, run, channel string) string {
	t.Helper()
	out, err := s.Server.Output(t.Context(), servetest.Owner, run, channel)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRun(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	r := submit(t, s, servetest.Runner, program("print:one\\n", "eprint:two\\n", "write:made=x", "exit:3"))
	if r.Hash == "" || r.AcceptedAtMs == 0 || r.Profile != servetest.Profile {
		t.Errorf("accepted as %+v", r)
	}
	out := end(t, s, r.ID)
	if out.Kind != "failed" || *out.ExitCode != 3 || out.Run != r.ID || len(out.Artifacts) != 1 {
		t.Errorf("outcome %+v", out)
	}
	if got := output(t, s, r.ID, "stdout") + output(t, s, r.ID, "stderr"); got != "one\ntwo\n" {
		t.Errorf("output %q", got)
	}
	again, err := s.Server.Run(t.Context(), servetest.Runner, r.ID)
	if err != nil || again.State != api.StateEnded || again.Outcome == nil || again.Outcome.Kind != out.Kind || again.StartedAtMs == 0 || again.EndedAtMs == 0 {
		t.Errorf("afterwards %+v, %v", again, err)
	}
	entry, err := s.Server.Record(t.Context(), servetest.Runner, r.ID)
	if err != nil || entry.Record.Client != "api" || entry.Record.Decisions[0].Text != "token "+servetest.Runner.Token {
		t.Errorf("record %+v, %v", entry.Record, err)
	}
	f, a, err := s.Server.Artifact(t.Context(), servetest.Runner, r.ID, "made")
	if err != nil || a.Size != 1 {
		t.Fatalf("artifact %+v, %v", a, err)
	}
	f.Close()
	if _, _, err := s.Server.Artifact(t.Context(), servetest.Runner, r.ID, "../"+r.ID+"/made"); !errors.Is(err, serve.ErrNotFound) {
		t.Errorf("an artifact that the record does not list: %v", err)
	}
}

// TestReplay: whoever comes after the broker has forgotten the run gets the same bytes from the record.
func TestReplay(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	r := submit(t, s, servetest.Runner, program("flood:100000", "eprint:\\xff"))
	end(t, s, r.ID)
	for _, test := range []struct {
		name           string
		cursor         broker.Cursor
		stdout, stderr int
	}{
		{"the tail", broker.Cursor{Tail: true}, 4096, 1},
		{"all", broker.Cursor{}, 100_000, 1},
		{"the rest", broker.Cursor{Stdout: 99_000, Stderr: 1}, 1000, 0},
	} {
		var stdout, stderr []byte
		exits := 0
		err := s.Server.Replay(t.Context(), servetest.Runner, r.ID, test.cursor, func(f api.Frame) error {
			data, err := f.Bytes()
			switch {
			case f.Channel == "stdout":
				stdout = append(stdout, data...)
			case f.Channel == "stderr":
				stderr = append(stderr, data...)
			case f.Type == api.FrameExit:
				exits++
			}
			return err
		})
		if err != nil || len(stdout) != test.stdout || len(stderr) != test.stderr || exits != 1 {
			t.Errorf("%s: %d and %d bytes, %d exits, %v", test.name, len(stdout), len(stderr), exits, err)
		}
	}
	err := s.Server.Replay(t.Context(), servetest.Runner, r.ID, broker.Cursor{Stdout: 100_001}, func(api.Frame) error { return nil })
	if !errors.Is(err, broker.ErrCursor) {
		t.Errorf("a cursor behind the end: %v", err)
	}
}

// TestReplayOfALostRun: a viewer that has more of a run than the host could save is told how it ended.
// TestResults: what a program shows is said before its end, in its order, live and from the record.
func TestResults(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	r := submit(t, s, servetest.Runner, program("write:.silk/display/2.json={}", "write:a=x", "write:.silk/display/1.html=<b>", "write:.silk/display/3.png=none"))
	check := func(frames []api.Frame) {
		t.Helper()
		var got []string
		for _, f := range frames {
			if f.Type == api.FrameDisplay || f.Type == api.FrameExit {
				got = append(got, string(f.Type)+" "+f.Run+" "+f.MIME+" "+f.Path)
			}
		}
		want := []string{"display " + r.ID + " text/html .silk/display/1.html", "display " + r.ID + " application/json .silk/display/2.json", "exit " + r.ID + "  "}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	frames := watch(t, s, servetest.Owner, r.ID)
	check(frames)
	out := frames[len(frames)-1].Outcome
	if out.Artifacts[0].Display != "text/html" || out.Artifacts[2].Display != "" || out.Flags["results_refused"] != 1 {
		t.Errorf("outcome %+v", out)
	}
	f, _, err := s.Server.Artifact(t.Context(), servetest.Runner, r.ID, ".silk/display/1.html")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil || string(text) != "<b>" {
		t.Errorf("%q, %v", text, err)
	}
	frames = nil
	err = s.Server.Replay(t.Context(), servetest.Runner, r.ID, broker.Cursor{}, func(f api.Frame) error { frames = append(frames, f); return nil })
	if err != nil {
		t.Fatal(err)
	}
	check(frames)
}

func TestReplayOfALostRun(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	s.Fake.WaitErr = errors.New("it is gone")
	r := submit(t, s, servetest.Runner, program("print:abc"))
	end(t, s, r.ID)
	var got []api.Frame
	err := s.Server.Replay(t.Context(), servetest.Runner, r.ID, broker.Cursor{Stdout: 10, Stderr: 1}, func(f api.Frame) error {
		got = append(got, f)
		return nil
	})
	if err != nil || len(got) != 2 || *got[0].TailFrom != (api.Tail{Stdout: 10, Stderr: 1}) || got[1].Type != api.FrameExit || got[1].Outcome.Kind != "error" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestIdempotency(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	first, existed, err := s.Server.Submit(t.Context(), servetest.Runner, program("print:x"), "key")
	if err != nil || existed {
		t.Fatal(err, existed)
	}
	end(t, s, first.ID)
	again, existed, err := s.Server.Submit(t.Context(), servetest.Runner, program("print:x"), "key")
	if err != nil || !existed || again.ID != first.ID {
		t.Errorf("again: %q, existed %t, %v; want %q", again.ID, existed, err, first.ID)
	}
	if _, _, err := s.Server.Submit(t.Context(), servetest.Runner, program("print:y"), "key"); !errors.Is(err, queue.ErrKeyReused) {
		t.Errorf("another request with the key: %v", err)
	}
	if other, existed, err := s.Server.Submit(t.Context(), servetest.Other, program("print:x"), "key"); err != nil || existed || other.ID == first.ID {
		t.Errorf("the key of another token: %q, existed %t, %v", other.ID, existed, err)
	}
}

func TestRefused(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	text, b64, nul := "x", "eA==", "a\x00"
	of := func(files ...api.File) api.RunRequest {
		return api.RunRequest{Profile: servetest.Profile, Args: []string{"x"}, Files: files}
	}
	for _, test := range []struct {
		name  string
		in    api.RunRequest
		field string // that the answer names; "" for a denial
	}{
		{"nothing to run", api.RunRequest{}, "body.code"},
		{"an unknown language", api.RunRequest{Code: &text, Language: "cobol"}, "body.language"},
		{"an unknown profile", api.RunRequest{Profile: "x", Args: []string{"true"}}, "body.profile"},
		{"code twice", api.RunRequest{Code: &text, CodeB64: &b64}, "body.code_b64"},
		{"bad base64", api.RunRequest{Profile: servetest.Profile, Args: []string{"x"}, Files: []api.File{{Path: "a"}, {Path: "b", B64: &text}}}, "body.files[1].b64"},
		{"a link with content", of(api.File{Path: "a", Link: &text, Text: &text}), "body.files[0].link"},
		{"a directory with content", of(api.File{Path: "a", Directory: true, B64: &b64}), "body.files[0].directory"},
		{"a link to a directory that is one", of(api.File{Path: "a", Directory: true, Link: &text}), "body.files[0].directory"},
		{"a link with permissions", of(api.File{Path: "a", Mode: 0o600, Link: &text}), "body.files[0].link"},
		{"permissions twice", of(api.File{Path: "a", Mode: 0o600, Executable: true}), "body.files[0].mode"},
		{"a file below a link", of(api.File{Path: "a", Link: &text}, api.File{Path: "a/b"}), "body"},
		{"a link with a NUL", of(api.File{Path: "a", Link: &nul}), "body"},
		{"a file above", api.RunRequest{Profile: servetest.Profile, Args: []string{"x"}, Files: []api.File{{Path: "../a"}}}, "body"},
		{"a name without code", api.RunRequest{Profile: servetest.Profile, Args: []string{"x"}, Name: "a"}, "body.name"},
		{"input twice", api.RunRequest{Profile: servetest.Profile, Args: []string{"x"}, Stdin: &text, StdinOpen: true}, "body.stdin"},
		{"what nobody grants", api.RunRequest{Profile: servetest.Profile, Args: []string{"x"}, Isolation: "microvm"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := s.Server.Submit(t.Context(), servetest.Runner, test.in, "")
			var invalid *serve.InvalidError
			var denied *serve.DeniedError
			switch {
			case test.field != "":
				if !errors.As(err, &invalid) || invalid.Faults[0].Field != test.field {
					t.Errorf("%v, want a fault of %s", err, test.field)
				}
			case !errors.As(err, &denied):
				t.Errorf("%v, want a denial", err)
			default:
				for _, id := range []auth.Identity{servetest.Owner, servetest.Runner} { // who asked finds what the answer names
					entry, err := s.Server.Record(t.Context(), id, denied.Run)
					if err != nil || entry.Record.Outcome.Kind != "denied" {
						t.Errorf("%s: record %+v, %v", id.Name, entry.Record.Outcome, err)
					}
				}
				if _, err := s.Server.Run(t.Context(), servetest.Other, denied.Run); !errors.Is(err, serve.ErrNotFound) {
					t.Errorf("somebody else: %v", err)
				}
				list, err := s.Server.Runs(t.Context(), servetest.Runner, serve.Filter{Outcome: "denied", State: api.StateEnded})
				if err != nil || len(list.Items) != 1 || list.Items[0].ID != denied.Run || list.Items[0].Outcome == nil {
					t.Errorf("list %+v, %v", list, err)
				}
			}
		})
	}
}

// wide asks for more time than the profile allows.
func wide(ops ...string) api.RunRequest {
	in := program(ops...)
	in.Limits.TimeoutMs = (2 * time.Hour).Milliseconds()
	return in
}

func decide(t *testing.T, s *servetest.Stand, r api.Run, grant bool, hours int) {
	t.Helper()
	if _, err := s.Server.Decide(t.Context(), servetest.Owner, r.ID, api.DecisionRequest{Grant: grant, Hash: r.Hash, ForHours: hours, Reason: "because"}); err != nil {
		t.Fatal(err)
	}
}

func TestApproval(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	r := submit(t, s, servetest.Runner, wide("print:ran"))
	if r.State != api.StatePending {
		t.Fatalf("state %s", r.State)
	}
	a, err := s.Server.Approval(t.Context(), servetest.Owner, r.ID)
	if err != nil || a.Hash != r.Hash || !strings.Contains(a.Detail, "timeout 2h") || len(a.Plan) == 0 {
		t.Errorf("approval %+v, %v", a, err)
	}
	for who, want := range map[*auth.Identity]error{&servetest.Runner: auth.ErrForbidden, &servetest.Viewer: auth.ErrForbidden} {
		if _, err := s.Server.Decide(t.Context(), *who, r.ID, api.DecisionRequest{Grant: true, Hash: r.Hash}); !errors.Is(err, want) {
			t.Errorf("%s decides: %v", who.Name, err)
		}
	}
	if _, err := s.Server.Decide(t.Context(), servetest.Owner, r.ID, api.DecisionRequest{Grant: true, Hash: strings.Repeat("0", 64)}); !errors.Is(err, approval.ErrHash) {
		t.Errorf("another hash: %v", err)
	}
	decide(t, s, r, true, 8)
	if out := end(t, s, r.ID); out.Kind != "ok" {
		t.Errorf("outcome %+v", out)
	}
	entry, err := s.Server.Record(t.Context(), servetest.Owner, r.ID)
	if err != nil || !strings.Contains(entry.Record.Decisions[1].Text, "granted by token "+servetest.Owner.Token) {
		t.Errorf("decisions %+v, %v", entry.Record.Decisions, err)
	}

	same := submit(t, s, servetest.Runner, wide("print:ran"))
	if out := end(t, s, same.ID); same.State == api.StatePending || out.Kind != "ok" {
		t.Errorf("the same request under the grant: %s, %s", same.State, out.Kind)
	}
	if other := submit(t, s, servetest.Runner, wide("print:changed")); other.State != api.StatePending {
		t.Errorf("changed code: %s", other.State)
	}
	if other := submit(t, s, servetest.Other, wide("print:ran")); other.State != api.StatePending {
		t.Errorf("the same request of another token: %s", other.State)
	}
}

// TestDeciderLeaves: who decides and hangs up leaves no run half decided.
func TestDeciderLeaves(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	for _, grant := range []bool{true, false} {
		r := submit(t, s, servetest.Runner, wide("print:ran"))
		ctx, hangUp := context.WithCancel(t.Context())
		s.Server.OnDecided(hangUp)
		if _, err := s.Server.Decide(ctx, servetest.Owner, r.ID, api.DecisionRequest{Grant: grant, Hash: r.Hash}); err != nil {
			t.Fatal(err)
		}
		if out := end(t, s, r.ID); (out.Kind == "ok") != grant {
			t.Errorf("granted %t: %+v", grant, out)
		}
	}
}

// TestApprovalOfAnotherPlan: what the owner has seen is what runs, though the profile has changed meanwhile.
func TestApprovalOfAnotherPlan(t *testing.T) {
	s := servetest.New(t, servetest.Config{Idle: true})
	r := submit(t, s, servetest.Runner, wide("print:ran"))
	decide(t, s, r, true, 0)
	s.Processes.Store(32) // the profile's, by now
	s.Work()
	if out := end(t, s, r.ID); out.Kind != "denied" || out.Rule != policy.RuleApproval || out.Stdout.Bytes != 0 {
		t.Errorf("outcome %+v", out)
	}
}

func TestApprovalDenied(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	r := submit(t, s, servetest.Runner, wide("print:ran"))
	decide(t, s, r, false, 0)
	if out := end(t, s, r.ID); out.Kind != "denied" || out.Rule != policy.RuleApproval || !strings.Contains(out.Message, "because") || out.Stdout.Bytes != 0 {
		t.Errorf("outcome %+v", out)
	}
}

func TestApprovalExpires(t *testing.T) {
	s := servetest.New(t, servetest.Config{Serve: serve.Config{ApprovalFor: 10 * time.Millisecond}})
	r := submit(t, s, servetest.Runner, wide("print:ran"))
	if out := end(t, s, r.ID); out.Kind != "denied" || !strings.Contains(out.Message, "in time") {
		t.Errorf("outcome %+v", out)
	}
}

func TestCancel(t *testing.T) {
	s := servetest.New(t, servetest.Config{Queue: queue.Config{Running: 1}})
	running := submit(t, s, servetest.Runner, program("print:started\\n", "sleep"))
	pending := submit(t, s, servetest.Runner, wide("print:x"))
	queued := submit(t, s, servetest.Runner, program("print:x"))
	waitRunning(t, s, running.ID)
	if err := s.Server.Cancel(t.Context(), servetest.Other, running.ID); !errors.Is(err, serve.ErrNotFound) {
		t.Errorf("another token cancels: %v", err)
	}
	if err := s.Server.Cancel(t.Context(), servetest.Viewer, running.ID); !errors.Is(err, auth.ErrForbidden) {
		t.Errorf("a viewer cancels: %v", err)
	}
	for _, r := range []api.Run{pending, queued, running} {
		if err := s.Server.Cancel(t.Context(), servetest.Runner, r.ID); err != nil {
			t.Fatal(err)
		}
		if out := end(t, s, r.ID); out.Kind != "canceled" {
			t.Errorf("outcome %+v", out)
		}
		if err := s.Server.Cancel(t.Context(), servetest.Runner, r.ID); !errors.Is(err, serve.ErrState) {
			t.Errorf("a second time: %v", err)
		}
	}
	if out := output(t, s, running.ID, "stdout"); out != "started\n" {
		t.Errorf("output %q", out)
	}
	a, err := s.Server.Approval(t.Context(), servetest.Owner, pending.ID)
	if err != nil || a.State != string(approval.Withdrawn) {
		t.Errorf("approval %s, %v", a.State, err)
	}
}

// TestPositions: who waits hears how the queue moves.
func TestPositions(t *testing.T) {
	s := servetest.New(t, servetest.Config{Queue: queue.Config{Running: 1, TokenRunning: 1}, Idle: true})
	var runs []api.Run
	for range 3 {
		runs = append(runs, submit(t, s, servetest.Runner, program("print:x")))
	}
	v, err := s.Server.Stream(t.Context(), servetest.Runner, runs[2].ID, broker.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	s.Work()
	var positions []int
	for {
		text, err := v.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		var f api.Frame
		if err = errors.Join(err, json.Unmarshal(text, &f)); err != nil {
			t.Fatal(err)
		}
		if f.Type == api.FrameQueued {
			positions = append(positions, f.Position)
		}
	}
	if len(positions) == 0 || positions[0] > 3 {
		t.Errorf("positions %v", positions)
	}
	for i := 1; i < len(positions); i++ {
		if positions[i] >= positions[i-1] {
			t.Errorf("positions %v do not fall", positions)
		}
	}
}

// TestServerStops: a run that a server does not let end is no client's doing.
func TestServerStops(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	r := submit(t, s, servetest.Runner, program("print:started\\n", "sleep"))
	v, err := s.Server.Stream(t.Context(), servetest.Runner, r.ID, broker.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	var last api.Frame
	for stopped := false; ; {
		text, err := v.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = api.Frame{}
		if err := json.Unmarshal(text, &last); err != nil {
			t.Fatal(err)
		}
		if last.Type == api.FrameOutput && !stopped {
			stopped = true
			s.Stop()
		}
	}
	if out := last.Outcome; out == nil || out.Kind != "error" || out.Reason != "host" || !strings.Contains(out.Message, "the server was ended") {
		t.Errorf("outcome %+v", out)
	}
}

func TestInput(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	in := program("cat")
	in.StdinOpen = true
	r := submit(t, s, servetest.Runner, in)
	for _, piece := range []api.Input{{Data: "one "}, {B64: "dHdv"}, {End: true}} {
		if _, err := s.Server.Input(t.Context(), servetest.Runner, r.ID, piece); err != nil {
			t.Fatal(err)
		}
	}
	if out := end(t, s, r.ID); out.Kind != "ok" {
		t.Errorf("outcome %+v", out)
	}
	if got := output(t, s, r.ID, "stdout"); got != "one two" {
		t.Errorf("output %q", got)
	}
	if _, err := s.Server.Input(t.Context(), servetest.Runner, r.ID, api.Input{Data: "late"}); !errors.Is(err, serve.ErrState) {
		t.Errorf("after the end: %v", err)
	}
	closed := submit(t, s, servetest.Runner, program("sleep"))
	if _, err := s.Server.Input(t.Context(), servetest.Runner, closed.ID, api.Input{Data: "x"}); !errors.Is(err, serve.ErrState) {
		t.Errorf("to a run that has none: %v", err)
	}
	if err := s.Server.Resize(t.Context(), servetest.Runner, closed.ID, api.Size{Columns: 1, Rows: 1}); !errors.Is(err, serve.ErrState) {
		t.Errorf("the size of a terminal that is not there: %v", err)
	}
	if err := s.Server.Cancel(t.Context(), servetest.Runner, closed.ID); err != nil {
		t.Error(err)
	}
	text := "given"
	whole := program("cat")
	whole.Stdin = &text
	w := submit(t, s, servetest.Runner, whole)
	end(t, s, w.ID)
	if got := output(t, s, w.ID, "stdout"); got != text {
		t.Errorf("output %q", got)
	}
}

// TestOthers: a runner sees its own runs, a viewer those of all.
func TestOthers(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	mine := submit(t, s, servetest.Runner, program("print:x"))
	end(t, s, mine.ID)
	for _, test := range []struct {
		id   auth.Identity
		sees bool
	}{{servetest.Runner, true}, {servetest.Other, false}, {servetest.Viewer, true}, {servetest.Owner, true}, {auth.Identity{}, false}} {
		_, err := s.Server.Run(t.Context(), test.id, mine.ID)
		if (err == nil) != test.sees || err != nil && !errors.Is(err, serve.ErrNotFound) {
			t.Errorf("%s: %v", test.id.Name, err)
		}
		page, err := s.Server.Runs(t.Context(), test.id, serve.Filter{})
		if (len(page.Items) == 1) != test.sees {
			t.Errorf("%s lists %d runs, %v", test.id.Name, len(page.Items), err)
		}
		if _, err := s.Server.Output(t.Context(), test.id, mine.ID, "stdout"); (err == nil) != test.sees {
			t.Errorf("%s reads output: %v", test.id.Name, err)
		}
	}
	if _, _, err := s.Server.Submit(t.Context(), servetest.Viewer, program("print:x"), ""); !errors.Is(err, auth.ErrForbidden) {
		t.Errorf("a viewer submits: %v", err)
	}
}

func TestList(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	var ids []string
	for i, op := range []string{"print:x", "exit:1", "print:x", "exit:1", "print:x"} {
		r := submit(t, s, servetest.Runner, program(op, "write:n="+strings.Repeat("x", i)))
		end(t, s, r.ID)
		ids = append(ids, r.ID)
	}
	var got []string
	for cursor := ""; ; {
		page, err := s.Server.Runs(t.Context(), servetest.Runner, serve.Filter{Cursor: cursor, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Items {
			got = append(got, r.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for i, id := range got {
		if want := ids[len(ids)-1-i]; id != want {
			t.Errorf("item %d is %s, want %s", i, id, want)
		}
	}
	failed, err := s.Server.Runs(t.Context(), servetest.Runner, serve.Filter{Outcome: "failed", State: api.StateEnded, Profile: servetest.Profile})
	if err != nil || len(got) != len(ids) || len(failed.Items) != 2 {
		t.Errorf("%d runs, %d failed, %v", len(got), len(failed.Items), err)
	}
}

func TestSession(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	session, err := s.Server.NewSession(t.Context(), servetest.Runner, api.NewSession{Name: "note"})
	if err != nil {
		t.Fatal(err)
	}
	many, err := s.Server.SessionStream(t.Context(), servetest.Runner, session.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Server.SessionStream(t.Context(), servetest.Other, session.ID, nil); !errors.Is(err, serve.ErrNotFound) {
		t.Errorf("another token: %v", err)
	}
	want := map[string]string{}
	for _, text := range []string{"one", "two"} {
		in := program("print:" + text)
		in.Session = session.ID
		want[submit(t, s, servetest.Runner, in).ID] = text
	}
	submit(t, s, servetest.Runner, program("print:of no session"))
	got, exits := map[string]string{}, 0
	for exits < len(want) {
		text, err := many.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var f api.Frame
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		if f.Type == api.FrameOutput {
			got[f.Run] += f.Data
		}
		if f.Type == api.FrameExit {
			exits++
		}
	}
	for run, text := range want {
		if got[run] != text {
			t.Errorf("run %s printed %q, want %q", run, got[run], text)
		}
	}
	in := program("print:x")
	in.Session = session.ID
	if _, _, err := s.Server.Submit(t.Context(), servetest.Other, in, ""); !errors.Is(err, serve.ErrNotFound) {
		t.Errorf("another token's run in the session: %v", err)
	}
}

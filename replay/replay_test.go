package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
)

var (
	prof = profile.Profile{Name: "test", Image: "test", Network: "deny", Limits: profile.Defaults}
	tarA = []byte("a workspace")
)

// kept is a run of a request that was decided about, kept and signed for.
func kept(t *testing.T, change func(*policy.Request, *Run)) (Kept, Request) {
	t.Helper()
	req := policy.Request{
		Client: policy.ClientCLI, Profile: "test", Language: "sh", Args: []string{"plain", "\xff\x00"[:1], "ü"}, Env: []string{"SEED=secret"}, Deterministic: true,
		Code: &policy.Code{Name: "x.sh", Bytes: []byte("echo"), SHA256: "c0de"}, Limits: profile.Limits{MemoryBytes: 64 << 20},
	}
	run := Run{ID: "01RUN", Driver: "fake", Image: "sha256:" + strings.Repeat("1", 64), Workspace: Part{Present: true, SHA256: hashOf(tarA), Bytes: int64(len(tarA))}}
	if change != nil {
		change(&req, &run)
	}
	plan, err := policy.Decide(req, prof, policy.Grants{Stores: []string{"/store"}})
	if err != nil {
		t.Fatal(err)
	}
	r, text, err := Keep(req, plan, run)
	if err != nil {
		t.Fatal(err)
	}
	rec := record.Record{
		Run: run.ID, Image: run.Image, PolicySHA256: "x", Outcome: record.Outcome{Kind: "ok"}, Replay: &record.Replay{RequestSHA256: hashOf(text), Obstacles: r.Obstacles},
		Tools: []record.Tool{{Name: "dash", Version: "1"}},
	}
	k := Kept{Record: rec, Request: text}
	if run.Workspace.Present {
		k.Workspace = tarA
	}
	return k, r
}

func TestKeptAgain(t *testing.T) {
	k, want := kept(t, nil)
	if strings.Contains(string(k.Request), "secret") {
		t.Errorf("the value of a variable is kept: %s", k.Request)
	}
	r, err := k.Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("it is another when it is read: -want +got:\n%s", diff)
	}
	req, err := r.Again(tarA, []string{"SEED=secret"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := policy.Decide(req, prof, policy.Grants{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sh", "x.sh", "plain", "\xff", "ü"}, plan.Args); diff != "" {
		t.Errorf("arguments: -want +got:\n%s", diff)
	}
	if plan.Limits != r.Limits || plan.Held == nil || *plan.Held != policy.Usual || plan.Image != r.Image || !bytes.Equal(plan.Kept.Tar, tarA) {
		t.Errorf("plan %+v of request %+v", plan, r)
	}
}

func TestRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*policy.Request, *Run)
		env    []string
		want   string
	}{
		{"a variable is missing", nil, nil, "give it again with --env SEED=VALUE"},
		{"a variable has another value", nil, []string{"SEED=other"}, "SEED had another value"},
		{"a variable that there was not", nil, []string{"SEED=secret", "MORE=1"}, "it had no variable MORE"},
		{"a mount", func(r *policy.Request, _ *Run) {
			r.Mounts = []policy.Mount{{Source: "/store/x", Target: "/workspace/x"}}
		}, nil, "what was mounted on /workspace/x"},
		{"a terminal", func(r *policy.Request, _ *Run) { r.Terminal = true }, nil, "it had a terminal"},
		{"a large workspace", func(_ *policy.Request, run *Run) { run.Workspace = Part{Bytes: 64 << 20} }, nil, "its workspace is not kept: it had 64MiB"},
		{"a large input", func(_ *policy.Request, run *Run) { run.Stdin = Part{Bytes: 64 << 20} }, nil, "its input is not kept: it had 64MiB"},
		{"an input that was left behind", func(_ *policy.Request, run *Run) { run.StdinLost = true }, nil, "is not known"},
		{"a full disk", func(_ *policy.Request, run *Run) {
			run.Missing, run.Workspace = "its workspace could not be kept: full", Part{}
		}, nil, "could not be kept: full"},
		{"an engine's container", func(r *policy.Request, _ *Run) { r.Client = policy.ClientRuntime }, nil, "container engine"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, _ := kept(t, test.change)
			r, err := k.Read()
			if err == nil {
				_, err = r.Again(tarA, test.env)
			}
			var refusal *Refusal
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	for name, r := range map[string]record.Record{
		"it has not ended": {}, "nothing ran": {Outcome: record.Outcome{Kind: "denied"}}, "nothing of its request is kept": {Outcome: record.Outcome{Kind: "ok"}, PolicySHA256: "x"},
	} {
		if _, err := (Kept{Record: r}).Read(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

func TestReadNamesWhatWasChanged(t *testing.T) {
	for what, change := range map[string]func(*Kept){
		"request":   func(k *Kept) { k.Request[len(k.Request)/2] ^= 1 },
		"workspace": func(k *Kept) { k.Workspace = []byte("another") },
	} {
		k, _ := kept(t, nil)
		change(&k)
		var changed *ChangedError
		if _, err := k.Read(); !errors.As(err, &changed) || changed.What != what {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestText(t *testing.T) {
	for _, s := range []Text{"", "plain", "ü", "\xff\xfe", `{"b64":"x"}`} {
		text, err := json.Marshal(s)
		var back Text
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || back != s {
			t.Errorf("%q becomes %s, and that %q: %v", s, text, back, err)
		}
	}
}

func exit(n int) *int { return &n }

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// result is the record of a run that printed out, and left what is in files.
func result(run, out string, files map[string]string) record.Record {
	r := record.Record{Run: run, Driver: "fake", Outcome: record.Outcome{Kind: "ok", ExitCode: exit(0)}, Stdout: record.Channel{SHA256: sum(out)}, Stderr: record.Channel{SHA256: sum("")}}
	for _, name := range []string{"a", "b"} {
		if text, ok := files[name]; ok {
			r.Artifacts = append(r.Artifacts, record.Artifact{Path: name, Type: "file", SHA256: sum(text)})
		}
	}
	return r
}

func TestCompare(t *testing.T) {
	before := result("1", "x", map[string]string{"a": "1"})
	after := result("2", "x", map[string]string{"a": "2", "b": "3"})
	after.Outcome.Kind, after.Outcome.ExitCode, after.Driver = "failed", exit(3), "other"
	rep := Compare(before, after)
	var what []string
	for _, d := range rep.Differences {
		what = append(what, d.What)
	}
	if diff := cmp.Diff([]string{"outcome", "artifact a", "artifact b"}, what); diff != "" || rep.Same {
		t.Errorf("same %t; -want +got:\n%s", rep.Same, diff)
	}
	if diff := cmp.Diff([]string{"stdout", "stderr"}, rep.Matched); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"the driver is other, it was fake"}, rep.Notes); diff != "" {
		t.Error(diff)
	}
	if same := Compare(before, before); !same.Same || len(same.Matched) != 4 || len(same.Notes) != 0 {
		t.Errorf("a run is not the same as itself: %+v", same)
	}
}

func TestExplain(t *testing.T) {
	trials := func(all, again, clock, seed string) []Trial {
		var list []Trial
		for i, out := range []string{all, again, clock, seed} {
			list = append(list, Trial{Held: Trials()[i], Record: result("t", out, nil)})
		}
		return list
	}
	plain := func(*record.Record) {}
	for _, test := range []struct {
		name   string
		trials []Trial
		change func(after *record.Record)
		want   string
	}{
		{"time", trials("x", "x", "y", "x"), plain, ReasonTime},
		{"randomness", trials("x", "x", "x", "y"), plain, ReasonRandomness},
		{"both", trials("x", "x", "y", "y"), plain, ReasonTime + " " + ReasonRandomness},
		{"order", trials("x", "y", "x", "x"), plain, ReasonOrder},
		{"processors", trials("x", "x", "x", "x"), func(r *record.Record) { r.Usage.Processes = 4 }, ReasonOrder},
		{"no reason", trials("x", "x", "x", "x"), plain, ReasonUnknown},
		{"no trials", nil, plain, ReasonUnknown},
		{"network", nil, func(r *record.Record) { r.Outcome.Egress = []record.Destination{{Host: "x", Allowed: true}} }, ReasonNetwork},
		{"refused network", nil, func(r *record.Record) { r.Outcome.Egress = []record.Destination{{Host: "x"}} }, ReasonUnknown},
		{"deadline", nil, func(r *record.Record) { r.Outcome.Kind = "timeout" }, ReasonEnd},
		{"another host", nil, func(r *record.Record) { r.Isolation = map[string]string{"architecture": "arm64"} }, ReasonHost},
		{"deterministic", nil, func(r *record.Record) { r.Policy.Deterministic = true }, ReasonOrder},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, after := result("1", "p", nil), result("2", "q", nil)
			test.change(&after)
			rep := Compare(before, after)
			Explain(&rep, before, after, test.trials)
			for _, d := range rep.Differences {
				var kinds []string
				for _, r := range d.Reasons {
					kinds = append(kinds, r.Kind)
				}
				if got := strings.Join(kinds, " "); d.What == "stdout" && got != test.want {
					t.Errorf("reasons %q, want %q", got, test.want)
				}
				if len(kinds) == 0 {
					t.Errorf("%s has no reason", d.What)
				}
			}
		})
	}
}

// TestTrialsDiffer: each of them holds something else, and what it is matters to nobody who has looked at another.
func TestTrialsDiffer(t *testing.T) {
	all, again, clock, seed := *HeldAll.Of(nil), *HeldAgain.Of(nil), *OtherClock.Of(nil), *OtherSeed.Of(nil)
	if all != again || all != policy.Usual || clock.ClockMs == all.ClockMs || clock.StepNs == all.StepNs || clock.Seed != all.Seed || seed.Seed == all.Seed || seed.ClockMs != all.ClockMs {
		t.Errorf("%+v %+v %+v %+v", all, again, clock, seed)
	}
	for _, h := range Trials() {
		if got := h.Of(&policy.Held{ClockMs: 1, StepNs: 1, Seed: 1<<32 - 1}); got.Seed < 0 || got.Seed >= 1<<32 {
			t.Errorf("%s: %+v", h, got)
		}
	}
}

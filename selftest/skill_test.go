package selftest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

var someHost = SkillHost{Service: "http://127.0.0.1:1", Other: "http://127.0.0.1:2", Inside: "http://service.silk.internal:2"}

// TestSkillTests: every test is one that can be decided, names rules that there are, and restricts something.
func TestSkillTests(t *testing.T) {
	names, published := map[string]bool{}, 0
	for _, test := range SkillTests() {
		if names[test.Name] || test.About == "" || !strings.Contains(test.Program, SkillEffect) && test.Program != ask {
			t.Errorf("%q is there twice, says nothing or has no effect", test.Name)
		}
		names[test.Name] = true
		if test.Published {
			published++
		}
		if r := test.Want.Refused; r != "" {
			if _, ok := rules.Named(r); !ok {
				t.Errorf("%s: there is no rule %s", test.Name, r)
			}
		}
		free, held := decideSkillTest(t, test, test.Free), decideSkillTest(t, test, test.Held)
		if !held.ReadOnly || held.Limits.CPUs != 0.5 || held.Network != "deny" || test.Held.Lab {
			t.Errorf("%s: what is attacked is no skill: %+v", test.Name, held)
		}
		if same := free.Hash() == held.Hash(); same != (test.Ordinary || test.Tampered) {
			t.Errorf("%s: with and without the restriction are the same: %t", test.Name, same)
		}
	}
	if published != 5 {
		t.Errorf("%d published tests, want 5", published)
	}
}

func decideSkillTest(t *testing.T, test SkillTest, s SkillSetup) policy.Plan {
	t.Helper()
	req := test.Request(s, someHost)
	prof, err := profile.NewSet().Lookup(policy.ProfileFor(req))
	if err == nil && req.Skill != nil {
		prof, err = req.Skill.Profile(prof)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Decide(req, prof, policy.Grants{})
	if err != nil {
		t.Fatalf("%s: %v", test.Name, err)
	}
	return p
}

func TestSkillJudge(t *testing.T) {
	test := SkillTest{Name: "x", Want: SkillWant{Outcome: "violated", Rule: "network.", Refused: "process.spawn", Flag: "tmp_full", MostMs: 100, ExitCode: 159}}
	works := SkillResult{Outcome: "ok", Effect: true, Asked: 1}
	good := SkillResult{Outcome: "violated", Rule: "network.inet", Refused: map[string]int64{"process.spawn": 1}, Flags: map[string]int64{"tmp_full": 1}, WallMs: 100, ExitCode: 159}
	for _, tt := range []struct {
		name   string
		change func(test *SkillTest, free, held *SkillResult)
		want   Verdict
	}{
		{"as it should be", func(*SkillTest, *SkillResult, *SkillResult) {}, Holds},
		{"no effect without the restriction", func(_ *SkillTest, free, _ *SkillResult) { free.Effect = false }, NotReached},
		{"no run without the restriction", func(_ *SkillTest, free, _ *SkillResult) { free.Outcome = "error" }, Broken},
		{"no run with it", func(_ *SkillTest, _, held *SkillResult) { held.Outcome = "error" }, Broken},
		{"refused before it began", func(_ *SkillTest, _, held *SkillResult) { held.Outcome = "denied" }, Broken},
		{"the effect", func(_ *SkillTest, _, held *SkillResult) { held.Effect = true }, Hole},
		{"another outcome", func(_ *SkillTest, _, held *SkillResult) { held.Outcome = "failed" }, Hole},
		{"another rule", func(_ *SkillTest, _, held *SkillResult) { held.Rule = "file.accounts" }, Hole},
		{"a violation of a rule that nobody named", func(test *SkillTest, _, _ *SkillResult) { test.Want.Rule = "" }, Hole},
		{"nothing refused", func(_ *SkillTest, _, held *SkillResult) { held.Refused = nil }, Hole},
		{"no flag", func(_ *SkillTest, _, held *SkillResult) { held.Flags = nil }, Hole},
		{"too late", func(_ *SkillTest, _, held *SkillResult) { held.WallMs = 101 }, Hole},
		{"another exit code", func(_ *SkillTest, _, held *SkillResult) { held.ExitCode = 137 }, Hole},
		{"its service was asked", func(_ *SkillTest, _, held *SkillResult) { held.Asked = 1 }, Hole},
		{"another service was asked", func(_ *SkillTest, _, held *SkillResult) { held.Others = 1 }, Hole},
		{"nothing is restricted", func(test *SkillTest, free, held *SkillResult) {
			test.Ordinary, held.Effect, *free = true, true, SkillResult{}
		}, Holds},
		{"nothing is restricted, and it does not work", func(test *SkillTest, _, _ *SkillResult) { test.Ordinary = true }, Hole},
		{"refused as it was changed", func(test *SkillTest, _, held *SkillResult) {
			test.Tampered, test.Want, *held = true, SkillWant{Outcome: "denied", Rule: "file_hash", ExitCode: 126}, SkillResult{Outcome: "denied", Rule: "file_hash_mismatch", ExitCode: 126}
		}, Holds},
		{"run as it was changed", func(test *SkillTest, _, held *SkillResult) {
			test.Tampered, test.Want, *held = true, SkillWant{Outcome: "denied", Rule: "file_hash", ExitCode: 126}, SkillResult{Outcome: "ok"}
		}, Hole},
	} {
		test, free, held := test, works, good
		tt.change(&test, &free, &held)
		if got, problems := test.Judge(free, held); got != tt.want || (len(problems) == 0) != (got == Holds) {
			t.Errorf("%s: %s %q, want %s", tt.name, got, problems, tt.want)
		}
	}
}

func TestSkillServices(t *testing.T) {
	s, err := OpenSkillServices()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	h := s.Host()
	transport := &http.Transport{DisableKeepAlives: true}
	for _, url := range []string{h.Service, h.Other, h.Other} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || string(text) != SkillEffect || resp.Body.Close() != nil {
			t.Errorf("%s answers %q, %v", url, text, err)
		}
	}
	if asked, others := s.Taken(h.Service); asked != 1 || others != 2 {
		t.Errorf("%d asked, %d others", asked, others)
	}
	if asked, others := s.Taken(""); asked != 0 || others != 0 {
		t.Errorf("%d asked, %d others a second time", asked, others)
	}
	if !strings.HasSuffix(h.Other, h.Inside[strings.LastIndex(h.Inside, ":"):]) || h.Service == h.Other {
		t.Errorf("%+v", h)
	}
}

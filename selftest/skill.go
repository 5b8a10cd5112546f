package selftest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// SkillTest is a test of what a skill must not be able to do. Its program runs twice, each time in a sandbox: once where the restriction is
// not there, and must have its effect; and once as a skill with it, and must not. A test whose program has no effect in the first run shows
// nothing.
type SkillTest struct {
	Name      string
	About     string // what the program tries
	Published bool   // one of the five that were published; the others are what they leave out

	Program  string     // Python; it prints [SkillEffect] when it has what it wants
	Free     SkillSetup // without the restriction
	Held     SkillSetup // with it
	Ordinary bool       // nothing is restricted: Held must have the effect, and there is no Free
	Tampered bool       // Held is the registered skill of Free, one byte of whose file was changed

	Want SkillWant // of Held
}

// SkillEffect is what a program prints when its attack has worked.
const SkillEffect = "EFFECT"

// SkillSetup is what a program runs with.
type SkillSetup struct {
	Lab       bool   // as an ordinary run of lab:python, which may more than a skill
	Processes int    // with Lab: processes at most; 0: the profile's
	MemoryMb  int    // of the skill; 0: 128
	TimeoutMs int    // of the skill; 0: 30,000
	Spawn     bool   // allowSpawn
	Network   bool   // networkAccess
	API       string // which of [SkillHost]'s services is the skill's: its placeholder; empty: none

	Args []string // of the program; placeholders are filled in
}

// SkillWant is what must come of a run as a skill. Fields that are zero are not looked at.
type SkillWant struct {
	Outcome  string // one of run.Outcome's; empty: ok
	Rule     string // the begin of that of the outcome
	Refused  string // a rule that must have refused a call
	Flag     string // a limit that must have been hit
	MostMs   int64  // wall clock
	ExitCode int    // of the published result
}

// SkillHost is what placeholders stand for.
type SkillHost struct {
	Service string // {service}: URL of a service of this host
	Other   string // {other}: that of another one
	Inside  string // {inside}: the other one's as a sandbox would name it, which it must not reach
}

func (h SkillHost) fill(text string) string {
	return strings.NewReplacer("{service}", h.Service, "{other}", h.Other, "{inside}", h.Inside).Replace(text)
}

// SkillResult is what came of one run.
type SkillResult struct {
	Outcome  string           `json:"outcome"`
	Message  string           `json:"message,omitempty"`
	ExitCode int              `json:"exitCode"` // as published
	Rule     string           `json:"rule,omitempty"`
	Refused  map[string]int64 `json:"refused,omitempty"`
	Flags    map[string]int64 `json:"flags,omitempty"`
	WallMs   int64            `json:"wall_ms"`
	Effect   bool             `json:"effect"`
	Asked    int              `json:"asked,omitempty"`  // requests that the skill's service got
	Others   int              `json:"others,omitempty"` // requests that any other service of this host got
}

// Request is a run of the test's program with a setup.
func (t SkillTest) Request(s SkillSetup, h SkillHost) policy.Request {
	sum := sha256.Sum256([]byte(t.Program))
	req := policy.Request{Client: policy.ClientCLI, Code: &policy.Code{Name: "main.py", Bytes: []byte(t.Program), SHA256: hex.EncodeToString(sum[:])}}
	for _, arg := range s.Args {
		req.Args = append(req.Args, h.fill(arg))
	}
	if s.Lab {
		req.Profile, req.Limits = "lab:python", profile.Limits{Processes: s.Processes}
		return req
	}
	req.Skill = &policy.Skill{
		Name: "selftest", Manifest: "0x" + strings.Repeat("0", 64), Publisher: "0x" + strings.Repeat("0", 40), MemoryMb: 128, TimeoutMs: 30_000,
		AllowSpawn: s.Spawn, NetworkAccess: s.Network, API: h.fill(s.API),
	}
	if s.MemoryMb > 0 {
		req.Skill.MemoryMb = s.MemoryMb
	}
	if s.TimeoutMs > 0 {
		req.Skill.TimeoutMs = s.TimeoutMs
	}
	return req
}

// Judge says what the two runs show.
func (t SkillTest) Judge(free, held SkillResult) (Verdict, []string) {
	var p problems
	for _, r := range []SkillResult{free, held} {
		if r.Outcome == "error" || r.Outcome == "canceled" || r.Outcome == "denied" && !t.Tampered {
			return Broken, []string{fmt.Sprintf("outcome %s: %s", r.Outcome, r.Message)}
		}
	}
	if !t.Ordinary && !free.Effect {
		return NotReached, []string{fmt.Sprintf("it does not work without the restriction either: outcome %s, rule %q, %s", free.Outcome, free.Rule, free.Message)}
	}
	if w := or(t.Want.Outcome, "ok"); held.Outcome != w {
		p.add("outcome %s, want %s", held.Outcome, w)
	}
	if held.Effect != t.Ordinary {
		p.add("its effect: %t, want %t", held.Effect, t.Ordinary)
	}
	if !strings.HasPrefix(held.Rule, t.Want.Rule) || t.Want.Rule == "" && held.Outcome == "violated" {
		p.add("rule %q, want %q", held.Rule, t.Want.Rule)
	}
	if t.Want.Refused != "" && held.Refused[t.Want.Refused] == 0 {
		p.add("rule %s has refused nothing", t.Want.Refused)
	}
	if t.Want.Flag != "" && held.Flags[t.Want.Flag] == 0 {
		p.add("%s is not flagged", t.Want.Flag)
	}
	if t.Want.MostMs > 0 && held.WallMs > t.Want.MostMs {
		p.add("it took %d ms, more than %d", held.WallMs, t.Want.MostMs)
	}
	if held.ExitCode != t.Want.ExitCode {
		p.add("exit code %d, want %d", held.ExitCode, t.Want.ExitCode)
	}
	if held.Others > 0 || held.Asked > 0 {
		p.add("a service of this host was reached %d times", held.Others+held.Asked)
	}
	if len(p) > 0 {
		return Hole, p
	}
	return Holds, nil
}

// SkillSchema is the version of [SkillReport]'s JSON form.
const SkillSchema = "silk.skill-selftest/v1"

// SkillReport is what `silk skill selftest --json` prints.
type SkillReport struct {
	Schema  string            `json:"schema"`
	Silk    string            `json:"silk"` // version
	Image   string            `json:"image"`
	UID     int               `json:"uid"`
	Began   string            `json:"began"` // RFC 3339
	WallMs  int64             `json:"wall_ms"`
	Drivers []string          `json:"drivers"` // the columns
	Tests   []SkillTestReport `json:"tests"`
}

// SkillTestReport is what one test has shown, on each driver.
type SkillTestReport struct {
	Name      string                 `json:"name"`
	About     string                 `json:"about"`
	Published bool                   `json:"published"`
	On        map[string]SkillColumn `json:"on"`
}

// SkillColumn is what one test has shown on one driver.
type SkillColumn struct {
	Verdict  Verdict      `json:"verdict"`
	Problems []string     `json:"problems,omitempty"`
	Without  *SkillResult `json:"without,omitempty"` // the restriction; absent if nothing is restricted
	With     SkillResult  `json:"with"`
}

// Failures counts what does not hold.
func (r SkillReport) Failures() (n int) {
	for _, t := range r.Tests {
		for _, name := range r.Drivers {
			if t.On[name].Verdict != Holds {
				n++
			}
		}
	}
	return n
}

// SkillTests are all tests, the published ones first.
func SkillTests() []SkillTest { return slices.Clone(skillTests) }

package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/record"
)

// Report says what came of a replay. Its JSON form is what silk record replay --json prints.
type Report struct {
	Run           string       `json:"run"`
	Replay        string       `json:"replay"`
	Deterministic bool         `json:"deterministic"` // both were
	Same          bool         `json:"same"`
	Matched       []string     `json:"matched"` // outcome, stdout, stderr, artifact PATH
	Differences   []Difference `json:"differences"`
	Notes         []string     `json:"notes"`            // what else was not as it was: driver, policy, host
	Trials        []Trial      `json:"trials,omitempty"` // runs that were made to find the reasons
}

// Difference is one thing that came out otherwise.
type Difference struct {
	What    string   `json:"what"`
	Before  string   `json:"before"` // "": there was none
	After   string   `json:"after"`
	Reasons []Reason `json:"reasons"`
}

// Reason is why something came out otherwise.
type Reason struct {
	Kind string `json:"kind"` // one of the Reason... constants
	Text string `json:"text"`
}

// Kinds of reasons.
const (
	ReasonTime       = "time"
	ReasonRandomness = "randomness"
	ReasonOrder      = "order"
	ReasonNetwork    = "network"
	ReasonEnd        = "end"  // when it was ended
	ReasonHost       = "host" // what it ran on
	ReasonUnknown    = "unknown"
)

// Held is what a trial holds still: the clock and random numbers, with everything else as in the replay. A second one that holds the
// same says whether that is enough; one in which something is another says whether it matters.
type Held string

// Trials, in the order in which they are made.
const (
	HeldAll    Held = "clock and random numbers are held still"
	HeldAgain  Held = "the same once more"
	OtherClock Held = "the clock starts and runs otherwise"
	OtherSeed  Held = "random numbers are others"
)

// Trials are all of them.
func Trials() []Held { return []Held{HeldAll, HeldAgain, OtherClock, OtherSeed} }

// Trial is a run that was made to find a reason.
type Trial struct {
	Run    string        `json:"run"`
	Held   Held          `json:"held"`
	Record record.Record `json:"-"`
}

// Compare holds what came out of a replay against what came out before.
func Compare(before, after record.Record) Report {
	rep := Report{
		Run: before.Run, Replay: after.Run, Deterministic: before.Policy.Deterministic && after.Policy.Deterministic,
		Matched: []string{}, Differences: []Difference{}, Notes: notes(before, after),
	}
	was, is := things(before), things(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, what := range slices.SortedFunc(maps.Keys(all), inOrder) {
		if was[what] == is[what] {
			rep.Matched = append(rep.Matched, what)
			continue
		}
		rep.Differences = append(rep.Differences, Difference{What: what, Before: was[what], After: is[what], Reasons: []Reason{}})
	}
	rep.Same = len(rep.Differences) == 0
	return rep
}

// things are what comes out of a run, by name.
func things(r record.Record) map[string]string {
	o := r.Outcome
	end := o.Kind
	switch {
	case o.Signal != 0:
		end += fmt.Sprintf(", signal %d", o.Signal)
	case o.ExitCode != nil:
		end += fmt.Sprintf(", exit %d", *o.ExitCode)
	}
	if o.Rule != "" {
		end += fmt.Sprintf(", %s: %s(%s)", o.Rule, o.Syscall, o.Argument)
	}
	all := map[string]string{"outcome": end, "stdout": "sha256:" + r.Stdout.SHA256, "stderr": "sha256:" + r.Stderr.SHA256}
	for _, a := range r.Artifacts {
		is := a.Type
		switch {
		case a.SHA256 != "":
			is = "sha256:" + a.SHA256
		case a.Omitted != "":
			is = fmt.Sprintf("%s of %d bytes, %s", a.Type, a.Size, a.Omitted)
		}
		name := a.Path
		if a.PathB64 != "" {
			name = "base64:" + a.PathB64
		}
		all["artifact "+name] = is
	}
	return all
}

// inOrder is the order of names for people: outcome, stdout, stderr, artifacts.
func inOrder(a, b string) int {
	rank := func(s string) int {
		return max(0, slices.Index([]string{"artifact", "stderr", "stdout", "outcome"}, strings.Fields(s)[0]))
	}
	if n := rank(b) - rank(a); n != 0 {
		return n
	}
	return strings.Compare(a, b)
}

// notes are what a replay did not have as the run had it.
func notes(before, after record.Record) []string {
	list := []string{}
	add := func(what, was, is string) {
		if was != is {
			list = append(list, fmt.Sprintf("%s is %s, it was %s", what, orNone(is), orNone(was)))
		}
	}
	add("the driver", before.Driver, after.Driver)
	add("the image", before.Image, after.Image)
	add("the workspace at the start", before.Input.WorkspaceSHA256, after.Input.WorkspaceSHA256)
	add("the input that was read", before.Input.StdinSHA256, after.Input.StdinSHA256)
	if before.PolicySHA256 != after.PolicySHA256 {
		list = append(list, "the policy is another: profiles, grants or silk have changed since")
	}
	facts := maps.Clone(before.Isolation)
	if facts == nil {
		facts = map[string]string{}
	}
	maps.Copy(facts, after.Isolation)
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		add(name, before.Isolation[name], after.Isolation[name])
	}
	return list
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Explain gives each difference of rep its reasons, by what the records say and by the trials, which may be none.
func Explain(rep *Report, before, after record.Record, trials []Trial) {
	rep.Trials = trials
	results := map[Held]map[string]string{}
	for _, t := range trials {
		results[t.Held] = things(t.Record)
	}
	for i := range rep.Differences {
		d := &rep.Differences[i]
		d.Reasons = append(d.Reasons, reasonsOf(d.What, before, after, rep.Notes, results)...)
	}
}

func reasonsOf(what string, before, after record.Record, notes []string, trials map[Held]map[string]string) (list []Reason) {
	add := func(kind, text string) { list = append(list, Reason{kind, text}) }
	held := trials[HeldAll]
	varies := func(h Held) bool { return held != nil && trials[h] != nil && held[what] != trials[h][what] }
	switch {
	case varies(HeldAgain):
		add(ReasonOrder, "it is another each time, even with clock and random numbers held still: it depends on the order in which threads, processes or the network get on")
	default:
		if varies(OtherClock) {
			add(ReasonTime, "it is another when the clock is, and the same when it is held still")
		}
		if varies(OtherSeed) {
			add(ReasonRandomness, "it is another when random numbers are, and the same when they are held still")
		}
	}
	if reached(before) || reached(after) {
		add(ReasonNetwork, "it reached other hosts, which may have answered otherwise")
	}
	for _, r := range []record.Record{before, after} {
		switch r.Outcome.Kind {
		case "timeout", "oom", "canceled":
			add(ReasonEnd, fmt.Sprintf("run %s was ended (%s) at a moment of its own", r.Run, r.Outcome.Kind))
		}
	}
	if len(notes) > 0 {
		add(ReasonHost, "what it ran on is not as it was: "+strings.Join(notes, "; "))
	}
	if list != nil {
		return list
	}
	switch {
	case held != nil && after.Usage.Processes > 1:
		add(ReasonOrder, "with one processor, clock and random numbers held still it is the same each time: it depends on how its threads or processes get on beside each other")
	case held != nil:
		add(ReasonUnknown, "with one processor, clock and random numbers held still it is the same each time, but neither of them alone makes a difference")
	case after.Policy.Deterministic:
		add(ReasonOrder, "clock and random numbers were held still: it depends on the order in which threads or processes get on, or on the processor itself")
	default:
		add(ReasonUnknown, "time, randomness or the order of threads: the driver "+after.Driver+" cannot hold them still, so that it cannot be told which")
	}
	return list
}

func reached(r record.Record) bool {
	return slices.ContainsFunc(r.Outcome.Egress, func(d record.Destination) bool { return d.Allowed })
}

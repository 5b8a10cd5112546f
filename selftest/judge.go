package selftest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Verdict is what a row has shown.
type Verdict string

const (
	Holds      Verdict = "holds"       // what must come of it came of it
	Hole       Verdict = "hole"        // the sandbox is not what it says
	NotReached Verdict = "not reached" // the attack program did not get to the call, so nothing is shown
	Broken     Verdict = "error"       // no run could be made of it
)

// Result is what came of a run: the fields of an outcome, as `silk run --json` prints it, that rows look at.
type Result struct {
	Outcome  string           `json:"outcome"`
	Message  string           `json:"message"`
	ExitCode *int             `json:"exit_code"`
	Signal   int              `json:"signal"`
	Rule     string           `json:"rule"`
	Syscall  string           `json:"syscall"`
	Argument string           `json:"argument"`
	Refused  map[string]int64 `json:"refused"`
	Flags    map[string]int64 `json:"flags"`
	Egress   []Destination    `json:"egress"`

	Output   []byte   `json:"-"` // what was kept of stdout
	Problems []string `json:"-"` // found on the host: a connection that came, a process that stayed
	Served   bool     `json:"-"` // a decoy that may be reached was, as it may be
	Reached  bool     `json:"-"` // a decoy of a run with a way out was reached otherwise
}

// Destination is what a run has reached, or was kept from.
type Destination struct {
	Allowed bool   `json:"allowed"`
	Rule    string `json:"rule"`
	Count   int    `json:"count"`
}

// countEgress adds to Refused what was refused on the way out, by rule.
func (r *Result) countEgress() {
	for _, d := range r.Egress {
		if d.Allowed || d.Rule == "" { // no rule: those of more destinations than are told apart
			continue
		}
		if r.Refused == nil {
			r.Refused = map[string]int64{}
		}
		r.Refused[Egress+d.Rule] += int64(d.Count)
	}
}

// want is a Want, and what a rule adds to it.
type want struct {
	Want
	rule    string // must have decided: by a violation (killed) or a count (counted)
	killed  bool
	counted bool
	gone    string // a rule that is off and so can have decided nothing
	serves  bool   // a decoy that may be reached must have been
	reached bool   // a decoy must have been reached that may not be
}

// Judge says what got shows of r, and why if it does not hold.
func (r Row) Judge(got Result) (Verdict, []string) { return r.want().judge(got) }

// JudgeWithout says whether got, a run with the rules Off(n) switched off, is as layer n says.
func (r Row) JudgeWithout(n int, got Result) (Verdict, []string) { return r.without(n).judge(got) }

func (w want) judge(got Result) (Verdict, []string) {
	said := listen(got.Output)
	switch {
	case got.Outcome == "error" || got.Outcome == "denied" || got.Outcome == "canceled":
		return Broken, []string{fmt.Sprintf("outcome %s: %s", got.Outcome, got.Message)}
	case !w.Unstarted && !said.reached || said.setup != "":
		return NotReached, []string{fmt.Sprintf("the attack did not get to its call: outcome %s, rule %q, %s", got.Outcome, got.Rule, or(said.setup, got.Message))}
	}
	p := append(problems(nil), got.Problems...)
	w.outcome(got, &p)
	w.answers(got, said, &p)
	w.decoys(got, &p)
	if w.Text != "" && !bytes.Contains(got.Output, []byte(w.Text)) {
		p.add("its output is not what it wrote")
	}
	if strings.ContainsFunc(got.Rule+got.Syscall+got.Argument+got.Message, unicode.IsControl) {
		p.add("the outcome has control characters in it: %q", got.Argument)
	}
	if len(p) > 0 {
		return Hole, p
	}
	return Holds, nil
}

func (w want) outcome(got Result, p *problems) {
	if want := or(w.Outcome, "ok"); !slices.Contains(strings.Split(want, "|"), got.Outcome) {
		p.add("outcome %s, want %s%s%s", got.Outcome, strings.ReplaceAll(want, "|", " or "), tail("; rule ", got.Rule), tail("; ", got.Message))
	} else if w.killed && got.Rule != w.rule {
		p.add("rule %q decided, want %q", got.Rule, w.rule)
	}
	if w.counted && got.Refused[w.rule] == 0 {
		p.add("rule %q refused nothing; refused are %v", w.rule, got.Refused)
	}
	if w.gone != "" && (got.Rule == w.gone || got.Refused[w.gone] != 0) {
		p.add("rule %q decided, though it is off", w.gone)
	}
	if w.Flag != "" && got.Flags[w.Flag] == 0 {
		p.add("limit %s was not hit; hit are %v", w.Flag, got.Flags)
	}
	if w.Exit != 0 && (got.ExitCode == nil || *got.ExitCode != w.Exit) {
		p.add("the exit status is not %d", w.Exit)
	}
	if got.Signal != w.Signal {
		p.add("signal %d, want %d", got.Signal, w.Signal)
	}
}

func (w want) answers(got Result, said heard, p *problems) {
	if !w.Effect {
		for _, effect := range said.effects {
			p.add("the effect happened: %s", effect)
		}
	} else if len(said.effects) == 0 {
		p.add("the effect did not happen; the kernel's last answer is %q", said.errno)
	}
	if w.killed && said.errno != "" {
		p.add("the program went on after the violation: errno %s", said.errno)
	}
	if w.Errno != "" && !slices.Contains(strings.Split(w.Errno, "|"), said.errno) {
		p.add("the kernel answered %q, want %s", said.errno, w.Errno)
	}
}

func (w want) decoys(got Result, p *problems) {
	switch {
	case got.Reached && !w.reached:
		p.add("a service of the host was reached")
	case !got.Reached && w.reached:
		p.add("no service of the host was reached")
	}
	if got.Served != w.serves && !w.reached {
		p.add("the service that may be reached: reached %t, want %t", got.Served, w.serves)
	}
}

type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// heard is what the attack program said.
type heard struct {
	reached bool
	errno   string   // the last answer
	effects []string //
	setup   string   // what kept it from the call
}

// listen reads what the attack program said. Its output is as trustworthy as the program, which is ours; what another
// process in the sandbox writes between its lines can only make a row fail.
func listen(output []byte) (h heard) {
	for line := range bytes.Lines(output) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		switch word {
		case "reached":
			h.reached = true
		case "errno":
			h.errno = rest
		case "EFFECT:":
			h.effects = append(h.effects, rest)
		case "setup":
			h.setup = rest
		}
	}
	return h
}

func tail(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

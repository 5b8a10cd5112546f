package fuzz

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/tests/fuzz/tree"
)

// leads are where links and paths of TestRules lead to besides: what is forbidden, and what is beside it. None of the
// forbidden ones exists in the image or may be searched, but for what procfs has.
var leads = []string{
	"/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers/d", "/root", "/root/.ssh/id_rsa", "/boot", "/boot/vmlinuz",
	"/proc/kcore", "/proc/kallsyms", "/proc/sys/kernel/core_pattern", "/sys/kernel/notes", "/dev/sda", "/dev/mem", "/dev/net/tun", "/proc/1/environ", "/proc/1/mem",
	"/etc", "/etc/hosts", "/etc/passwd-", "/etc/shadow.d", "/rootx", "/boots/a", "/proc/version", "/dev/sdx/..", "/dev/shm/sda", "/proc/1/root/etc/passwd", "/proc/1/cwd",
}

// ruleOf is the rule that ends the run of a program that opens what has that name, or "". driver/rules says which; this is
// written anew, to be compared.
func ruleOf(name string) string {
	if rest, ok := strings.CutPrefix(name, "/proc/"); ok && rest != "" && rest[0] >= '1' && rest[0] <= '9' {
		switch path.Base(name) {
		case "environ":
			return rules.FileEnviron
		case "mem":
			return rules.FileMemory
		}
		return ""
	}
	if rules.HostDevice(name) {
		return rules.FileDevice
	}
	for _, e := range rules.Startup() {
		if rules.Covers(e.Name, name) || rules.Covers(name, e.Name) {
			return ""
		}
	}
	for _, r := range rules.All() {
		for _, file := range r.Files {
			if r.Action == rules.Kill && rules.Covers(file, name) {
				return r.Name
			}
		}
	}
	return ""
}

// open says whether it is open what becomes of a question: Linux does not get to the name, or not by that way, and a kernel
// that judges it nevertheless is only stricter.
func open(q tree.Question, a tree.Answer) bool {
	w := a.Way
	return w.Dots || w.LinkFD || w.Links >= 40 || has(q, tree.OCreate) && w.SlashFinal ||
		fails(a, syscall.EINVAL) || a.Errno != 0 && w.Link != nil && w.FileFD || w.Gone
}

// TestRules: what leads to a forbidden name ends the run by its rule, and nothing else does.
func TestRules(t *testing.T) {
	s := newSides(t)
	most, seed := duration(t)
	allowed, ended := 0, map[string]int{}
	singles := 12
	if most > 0 {
		singles = 60
	}
	for start, n := time.Now(), batch(most); ; seed += uint64(n) {
		cases := make([]tree.Case, n)
		for i := range cases {
			cases[i] = tree.New(seed+uint64(i), tree.Config{Leads: leads})
		}
		asked, err := s.harmless(t, cases)
		if err != nil {
			t.Fatal(err)
		}
		allowed += asked
		if err := s.forbidden(t, cases, singles, ended); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) >= most || t.Failed() && os.Getenv("SILK_FUZZ_ALL") == "" {
			break
		}
	}
	t.Logf("%d questions ended no run; ended by rule: %v", allowed, ended)
	if allowed == 0 || len(ended) < 3 {
		t.Error("the cases do not lead to what is forbidden")
	}
}

// without asks the host, and again without the steps and the questions that drop says something about, until there are
// none: what is left out may have made the way of others.
func (s sides) without(t *testing.T, cases []tree.Case, drop func(tree.Answer, tree.Question) bool, questions bool) ([]tree.Case, []tree.Answers, error) {
	t.Helper()
	some := slices.Clone(cases)
	for {
		answers, err := s.host(t.Context(), some)
		if err != nil {
			return nil, nil, err
		}
		dropped := false
		for i, c := range some {
			some[i].Steps, some[i].Questions = nil, nil
			for j, step := range c.Steps {
				if flags, ok := step.Opens(); ok && drop(answers[i].Opened[j], tree.Question{Flags: flags}) {
					dropped = true
				} else {
					some[i].Steps = append(some[i].Steps, step)
				}
			}
			for j, q := range c.Questions {
				if questions && drop(answers[i].Answers[j], q) {
					dropped = true
				} else {
					some[i].Questions = append(some[i].Questions, q)
				}
			}
		}
		if !dropped {
			return some, answers, nil
		}
	}
}

// doubtful says whether a rule is about what was asked, or may be.
func doubtful(a tree.Answer, q tree.Question) bool {
	rule, _ := ruleOn(a)
	return rule != "" || anyOpen(q, a)
}

// ruleOn is the rule that ends the run which asks, and the name that it is about.
func ruleOn(a tree.Answer) (rule string, name []byte) {
	for _, n := range append([]tree.Named{{Name: a.Name, Way: a.Way}}, a.Then...) {
		if rule := ruleOf(string(n.Name)); rule != "" {
			return rule, n.Name
		}
	}
	return "", a.Name
}

// anyOpen is open for the name and for the interpreters of a script.
func anyOpen(q tree.Question, a tree.Answer) bool {
	return open(q, a) || slices.ContainsFunc(a.Then, func(n tree.Named) bool {
		return q.Flags&tree.AtNoFollow != 0 || open(tree.Question{Exec: true}, tree.Answer{Errno: a.Errno, Name: n.Name, Way: n.Way})
	})
}

// harmless asks all questions that no rule is about, in one sandbox.
func (s sides) harmless(t *testing.T, cases []tree.Case) (asked int, err error) {
	t.Helper()
	some, answers, err := s.without(t, cases, doubtful, true)
	if err != nil {
		return 0, err
	}
	for _, c := range some {
		asked += len(c.Questions)
	}
	got, err := s.box(t.Context(), some)
	if err == nil && got.last.Outcome != "ok" {
		i, j := got.culprit(some)
		t.Errorf("no rule is about it, and at mark %d the run ended with %s by %s: %s\n%s", got.killed, got.last.Outcome, got.last.Rule, got.last.Message,
			report(some[i], j, answers[i].Answers[j], tree.Answer{Name: []byte(got.killer.Argument)}))
	}
	return asked, err
}

// culprit is the case and the question that a run ended with, or the one before.
func (b boxed) culprit(cases []tree.Case) (i, j int) {
	number := b.killed
	for i, c := range cases {
		if number <= len(c.Questions) {
			return i, max(0, min(number, len(c.Questions)-1))
		}
		number -= len(c.Questions) + 1
	}
	return 0, 0
}

// forbidden asks questions that a rule is about, each in a sandbox of its own.
func (s sides) forbidden(t *testing.T, cases []tree.Case, most int, ended map[string]int) error {
	t.Helper()
	cases, answers, err := s.without(t, cases, doubtful, false)
	if err != nil {
		return err
	}
	var some []tree.Case
	seen := map[string]int{}
	for i, c := range cases {
		for j := range c.Questions {
			rule, _ := ruleOn(answers[i].Answers[j])
			if rule == "" || len(some) == most || seen[rule] > most/5 {
				continue
			}
			seen[rule]++
			some = append(some, c.Only(j))
		}
	}
	if answers, err = s.host(t.Context(), some); err != nil { // without the questions before
		return err
	}
	for i, c := range some {
		a, q := answers[i].Answers[0], c.Questions[0]
		rule, name := ruleOn(a)
		if rule == "" {
			continue
		}
		got, err := s.box(t.Context(), []tree.Case{c})
		if err != nil {
			return err
		}
		switch {
		case got.last.Outcome == "violated" && got.last.Rule == rule && (sameName(name, []byte(got.killer.Argument)) || anyOpen(q, a)):
			ended[rule]++
		case got.last.Outcome == "ok" && anyOpen(q, a):
			ended["open"]++
		default:
			t.Errorf("want rule %s; the run ended with %s %s\n%s", rule, got.last.Outcome, got.last.Rule,
				report(c, 0, a, tree.Answer{Name: []byte(got.killer.Argument)}))
		}
	}
	return nil
}

// TestFixed holds cases that were wrong once, and those that seeds seldom make.
func TestFixed(t *testing.T) {
	s := newSides(t)
	link := func(name, target string) tree.Step {
		return tree.Step{Kind: tree.Link, Name: []byte(name), Target: []byte(target)}
	}
	for _, test := range []struct {
		name  string
		steps []tree.Step
		asks  tree.Question
	}{
		{"O_PATH passes over O_CREAT and O_EXCL, and follows", []tree.Step{link("a", "/etc/shadow")}, tree.Question{Name: []byte("a"), Flags: tree.OPath | tree.OCreate | tree.OExclusive}},
		{"O_EXCL without O_CREAT follows", []tree.Step{link("a", "/etc/shadow")}, tree.Question{Name: []byte("a"), Flags: tree.OExclusive}},
		{"a slash makes O_NOFOLLOW follow", []tree.Step{link("a", "/etc/shadow")}, tree.Question{Name: []byte("a/"), Flags: tree.ONoFollow}},
		{"a dot makes O_NOFOLLOW follow", []tree.Step{link("a", "/boot")}, tree.Question{Name: []byte("a/."), Flags: tree.ONoFollow}},
		{"making a file under a link to nothing", []tree.Step{link("a", "/etc/sudoers")}, tree.Question{Name: []byte("a"), Flags: tree.OCreate | tree.OWrite}},
		{"a link that ends in a slash", []tree.Step{link("a", "/boot/"), link("b", "a")}, tree.Question{Name: []byte("b")}},
		{"a link through the root of procfs", []tree.Step{link("a", "/proc/self/root/etc"), link("b", "a/./shadow")}, tree.Question{Name: []byte("b")}},
		{"a link through the working directory of procfs", []tree.Step{link("a", "/proc/thread-self/cwd/../../etc/passwd")}, tree.Question{Name: []byte("a")}},
		{"up from a directory that is gone", []tree.Step{
			{Kind: tree.Dir, Name: []byte("d"), Mode: 0o755}, {Kind: tree.Open, Name: []byte("d"), FD: 20, Flags: tree.ODirectory}, {Kind: tree.Remove, Name: []byte("d")},
		}, tree.Question{DirFD: 20, Name: []byte("../../../etc/passwd")}},
		{"a link beside a file, through a directory descriptor", []tree.Step{
			{Kind: tree.Dir, Name: []byte("d"), Mode: 0o755}, link("d/a", "../../../root/x"), {Kind: tree.Open, Name: []byte("d"), FD: 21, Flags: tree.OPath},
		}, tree.Question{DirFD: 21, Name: []byte("a")}},
		{"executing a link", []tree.Step{link("a", "/boot/vmlinuz")}, tree.Question{Exec: true, Name: []byte("a")}},
		{"executing a link from a descriptor", []tree.Step{
			link("a", "/root/x"), {Kind: tree.Open, Name: []byte("."), FD: 20, Flags: tree.OPath},
		}, tree.Question{Exec: true, DirFD: 20, Name: []byte("./a")}},
		{"an interpreter", []tree.Step{{Kind: tree.Script, Name: []byte("a"), Target: []byte("/root/x"), Mode: 0o755}}, tree.Question{Exec: true, Name: []byte("a")}},
		{"the interpreter of an interpreter, behind links", []tree.Step{
			{Kind: tree.Script, Name: []byte("a"), Target: []byte("/workspace/w/b"), Mode: 0o755},
			link("b", "c"),
			{Kind: tree.Script, Name: []byte("c"), Target: []byte("./d"), Mode: 0o755},
			link("d", "/proc/self/root/boot/x"),
		}, tree.Question{Exec: true, Name: []byte("./a")}},
		{"as many links as a path may have", chain(39, "/etc/shadow"), tree.Question{Name: []byte("l0")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.asks.DirFD == 0 {
				test.asks.DirFD = tree.NoDir
			}
			c := tree.Case{Steps: []tree.Step{
				{Kind: tree.Dir, Name: []byte(tree.Work), Mode: 0o755}, {Kind: tree.Chdir, Name: []byte(tree.Work)},
			}, Questions: []tree.Question{test.asks}}
			c.Steps = append(c.Steps, test.steps...)
			ended := map[string]int{}
			if err := s.forbidden(t, []tree.Case{c}, 5, ended); err != nil {
				t.Fatal(err)
			}
			if !t.Failed() && (len(ended) != 1 || ended["open"] != 0) {
				t.Errorf("the case leads to nothing that is forbidden: %v", ended)
			}
		})
	}
}

// chain is n links, of which the last leads to target.
func chain(n int, target string) []tree.Step {
	var steps []tree.Step
	for i := range n {
		to := fmt.Sprintf("l%d", i+1)
		if i == n-1 {
			to = target
		}
		steps = append(steps, tree.Step{Kind: tree.Link, Name: fmt.Appendf(nil, "l%d", i), Target: []byte(to)})
	}
	return steps
}

package selftest

import (
	"maps"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver/rules"
)

func said(lines ...string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

func status(n int) *int { return &n }

// TestJudge: what holds, and everything that must not be taken for holding.
func TestJudge(t *testing.T) {
	var (
		kill  = Row{Class: "c", Name: "n", Rule: rules.FileAccounts, Attack: do("read"), Behind: happens}
		deny  = Row{Class: "c", Name: "n", Rule: "system.chroot", Attack: do("chroot"), Behind: happens}
		allow = Row{Class: "c", Name: "n", Rule: rules.FileWorkspace, Attack: do("keep"), Behind: happens}
		plain = func(w Want) Row { return Row{Class: "c", Name: "n", Attack: do("x"), Want: w} }
	)
	violated := Result{Outcome: "violated", Rule: rules.FileAccounts, Output: said("reached")}
	refused := Result{Outcome: "ok", Refused: map[string]int64{"system.chroot": 1}, Output: said("reached", "errno EPERM")}
	out := Row{Class: "c", Name: "n", Rule: Egress + "name", Hosts: []string{"h:1"}, Attack: do("ask"), Want: Want{Errno: "ECONNREFUSED"}, Behind: happens}
	kept := Result{Outcome: "ok", Refused: map[string]int64{Egress + "name": 1}, Output: said("reached", "errno ECONNREFUSED")}
	with := func(r Result, change func(*Result)) Result { change(&r); return r }
	for _, test := range []struct {
		name    string
		row     Row
		got     Result
		want    Verdict
		problem string // in the first problem
	}{
		{"a violation of the rule", kill, violated, Holds, ""},
		{"a violation of another rule", kill, with(violated, func(r *Result) { r.Rule = rules.FileBoot }), Hole, "file.boot"},
		{"a violation after the effect", kill, with(violated, func(r *Result) { r.Output = said("reached", "EFFECT: read it") }), Hole, "read it"},
		{"a violation after an answer", kill, with(violated, func(r *Result) { r.Output = said("reached", "errno EACCES") }), Hole, "went on"},
		{"a violation before the call", kill, with(violated, func(r *Result) { r.Output = nil }), NotReached, "did not get to"},
		{"a violation in the setup", kill, with(violated, func(r *Result) { r.Output = said("setup make a link: EPERM", "reached") }), NotReached, "make a link"},
		{"no violation", kill, Result{Outcome: "ok", Output: said("reached", "errno ENOENT")}, Hole, "outcome ok"},
		{"no run", kill, Result{Outcome: "error", Message: "no image"}, Broken, "no image"},
		{"a run that was refused", kill, Result{Outcome: "denied"}, Broken, "denied"},
		{"a call that was refused and counted", deny, refused, Holds, ""},
		{"a call that was refused and not counted", deny, with(refused, func(r *Result) { r.Refused = nil }), Hole, "refused nothing"},
		{"a call that was refused with another errno", deny, with(refused, func(r *Result) { r.Output = said("reached", "errno ENOSYS") }), Hole, "ENOSYS"},
		{"a call that was counted and happened", deny, with(refused, func(r *Result) { r.Output = said("reached", "EFFECT: another root", "errno EPERM") }), Hole, "another root"},
		{"a call that ended the run", deny, with(refused, func(r *Result) { r.Outcome = "violated" }), Hole, "violated"},
		{"an ordinary act", allow, Result{Outcome: "ok", Output: said("reached", "EFFECT: wrote it")}, Holds, ""},
		{"an ordinary act that failed", allow, Result{Outcome: "ok", Output: said("reached", "errno EACCES")}, Hole, "did not happen"},
		{"one of two errnos", plain(Want{Errno: "EROFS|EACCES"}), Result{Outcome: "ok", Output: said("reached", "errno EACCES")}, Holds, ""},
		{"an errno that only contains one", plain(Want{Errno: "EACCES"}), Result{Outcome: "ok", Output: said("reached", "errno EACCESS")}, Hole, "EACCESS"},
		{"the last answer counts", plain(Want{Errno: "EMFILE"}), Result{Outcome: "ok", Output: said("reached", "errno 0", "errno EMFILE")}, Holds, ""},
		{"a limit that was hit", plain(Want{Flag: "tmp_full"}), Result{Outcome: "ok", Output: said("reached"), Flags: map[string]int64{"tmp_full": 2}}, Holds, ""},
		{"a limit that was not hit", plain(Want{Flag: "tmp_full"}), Result{Outcome: "ok", Output: said("reached"), Flags: map[string]int64{"disk_full": 2}}, Hole, "tmp_full"},
		{"an outcome that was not faked", plain(Want{Outcome: "failed", Exit: 137}), Result{Outcome: "failed", ExitCode: status(137), Output: said("reached")}, Holds, ""},
		{"an outcome that was faked", plain(Want{Outcome: "failed", Exit: 137}), Result{Outcome: "oom", ExitCode: status(137), Output: said("reached")}, Hole, "oom"},
		{"another exit status", plain(Want{Outcome: "failed", Exit: 5}), Result{Outcome: "failed", ExitCode: status(0), Output: said("reached")}, Hole, "exit status"},
		{"no exit status", plain(Want{Outcome: "failed", Exit: 5}), Result{Outcome: "failed", Output: said("reached")}, Hole, "exit status"},
		{"a signal of its own", plain(Want{Outcome: "failed", Signal: 9}), Result{Outcome: "failed", Signal: 9, Output: said("reached")}, Holds, ""},
		{"a signal that nobody wants", plain(Want{Outcome: "failed"}), Result{Outcome: "failed", Signal: 11, Output: said("reached")}, Hole, "signal 11"},
		{"output that was changed", plain(Want{Text: "\x1b[2J"}), Result{Outcome: "ok", Output: said("reached", "[2J")}, Hole, "not what it wrote"},
		{"escape codes in the outcome", kill, with(violated, func(r *Result) { r.Argument = "/etc/\x1b[2J" }), Hole, "control characters"},
		{"a service of the host that was reached", kill, with(violated, func(r *Result) { r.Problems = []string{"a service was reached"} }), Hole, "a service"},
		{"a way out that was refused", out, kept, Holds, ""},
		{"a way out that another rule refused", out, with(kept, func(r *Result) { r.Refused = map[string]int64{Egress + "port": 1} }), Hole, "refused nothing"},
		{"a way out that led to a decoy", out, with(kept, func(r *Result) { r.Reached = true }), Hole, "was reached"},
		{"a way out whose refusal the program did not see", out, with(kept, func(r *Result) { r.Output = said("reached") }), Hole, "ECONNREFUSED"},
		{"an effect in the middle of a line is none", kill, with(violated, func(r *Result) { r.Output = said("reached", "x EFFECT: no") }), Holds, ""},
		{"a very long line before the effect", deny, with(refused, func(r *Result) { r.Output = said("reached", strings.Repeat("x", 1<<20), "EFFECT: late") }), Hole, "late"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, problems := test.row.Judge(test.got)
			if got != test.want {
				t.Fatalf("%s: %q, want %s", got, problems, test.want)
			}
			if test.want != Holds && (len(problems) == 0 || !strings.Contains(strings.Join(problems, "\n"), test.problem)) {
				t.Errorf("%q, want %q among them", problems, test.problem)
			}
		})
	}
}

// TestJudgeWithout: a layer is shown by what happens instead, and never by the rule that is off.
func TestJudgeWithout(t *testing.T) {
	r := Row{Class: "c", Name: "n", Rule: rules.FileAccounts, Attack: do("read"), Behind: unlistedThen(kernel("ENOENT", notThere))}
	unlistedStops := Result{Outcome: "ok", Refused: map[string]int64{rules.FileUnlisted: 1}, Output: said("reached", "errno EACCES")}
	kernelStops := Result{Outcome: "ok", Output: said("reached", "errno ENOENT")}
	for _, test := range []struct {
		name  string
		layer int
		got   Result
		want  Verdict
	}{
		{"the next rule stops it", 0, unlistedStops, Holds},
		{"the rule that is off stops it", 0, Result{Outcome: "violated", Rule: rules.FileAccounts, Output: said("reached")}, Hole},
		{"nothing stops it though a rule should", 0, Result{Outcome: "ok", Output: said("reached", "EFFECT: read")}, Hole},
		{"the kernel stops it", 1, kernelStops, Holds},
		{"a rule counts though it is off", 1, Result{Outcome: "ok", Refused: map[string]int64{rules.FileAccounts: 1}, Output: said("reached", "errno ENOENT")}, Hole},
		{"the effect happens though the kernel should stop it", 1, Result{Outcome: "ok", Output: said("reached", "EFFECT: read", "errno ENOENT")}, Hole},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, problems := r.JudgeWithout(test.layer, test.got); got != test.want {
				t.Errorf("%s: %q, want %s", got, problems, test.want)
			}
		})
	}
	out := Row{Class: "c", Name: "n", Rule: Egress + "port", Hosts: []string{"h:1"}, Attack: do("ask"), Behind: thenRule(Egress+"address", Layer{Effect: true})}
	for n, want := range []Verdict{Hole, Holds} { // the first layer is another rule
		if got, problems := out.JudgeWithout(n, Result{Outcome: "ok", Reached: true, Output: said("reached", "EFFECT: an answer")}); got != want {
			t.Errorf("a decoy that was reached behind %d layers: %s, %q", n, got, problems)
		}
	}
	if got, problems := out.JudgeWithout(1, Result{Outcome: "ok", Output: said("reached", "EFFECT: an answer")}); got != Hole {
		t.Errorf("an answer that is no decoy's: %s, %q", got, problems)
	}
	if got := strings.Join(r.Off(1), ","); got != "file.accounts,file.unlisted" {
		t.Errorf("the second layer is seen without %s", got)
	}
	unstartedRow := Row{Class: "c", Name: "n", Rule: rules.FileWorkspace, Attack: do("keep"), Behind: behind(Layer{Want: unstarted, Why: programGone})}
	if got, problems := unstartedRow.JudgeWithout(0, Result{Outcome: "failed", ExitCode: status(126)}); got != Holds {
		t.Errorf("a program that is not started: %s, %q", got, problems)
	}
}

// TestCountEgress: refusals are counted by rule, and what was allowed is not.
func TestCountEgress(t *testing.T) {
	r := Result{Refused: map[string]int64{"system.chroot": 1}, Egress: []Destination{{Rule: "name", Count: 2}, {Allowed: true, Rule: "bytes", Count: 1}, {Rule: "name", Count: 1}, {Rule: "udp", Count: 1}, {Count: 7}}}
	r.countEgress()
	if want := map[string]int64{"system.chroot": 1, Egress + "name": 3, Egress + "udp": 1}; !maps.Equal(r.Refused, want) {
		t.Errorf("%v, want %v", r.Refused, want)
	}
}

// TestFaults: rows that would prove nothing are found.
func TestFaults(t *testing.T) {
	good := Row{Class: "c", Name: "n", Rule: rules.FileAccounts, Attack: do("read"), Behind: happens}
	if fault := good.fault(); fault != "" {
		t.Fatal(fault)
	}
	for name, spoil := range map[string]func(*Row){
		"no name":                          func(r *Row) { r.Name = "" },
		"no attack":                        func(r *Row) { r.Attack = nil },
		"a misspelt rule":                  func(r *Row) { r.Rule = "file.acounts" },
		"nothing behind":                   func(r *Row) { r.Behind = nil },
		"nothing wanted":                   func(r *Row) { r.Rule, r.Behind = "", nil },
		"layers without a rule":            func(r *Row) { r.Rule, r.Want = "", Want{Errno: "EPERM"} },
		"an effect that its rule stops":    func(r *Row) { r.Want.Effect = true },
		"a misspelt refusal":               func(r *Row) { r.Rule = Egress + "nmae" },
		"a refusal by no rule":             func(r *Row) { r.Rule, r.Behind, r.Hosts, r.Want = "", nil, []string{"h:1"}, unknownName },
		"a refusal without a way out":      func(r *Row) { r.Rule = Egress + "name" },
		"a decoy without a way out":        func(r *Row) { r.Serves = true },
		"a misspelt rule behind":           func(r *Row) { r.Behind = thenRule("file.unlistd") },
		"a layer behind one of the kernel": func(r *Row) { r.Behind = behind(kernel("EPERM", noCapability), Layer{Effect: true}) },
		"a layer without a reason":         func(r *Row) { r.Behind = behind(Layer{Errno: "EPERM"}) },
	} {
		r := good
		if spoil(&r); r.fault() == "" {
			t.Errorf("%s: no fault is found", name)
		}
	}
}

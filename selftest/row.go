package selftest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// Row is one attack, or one ordinary act that the policy must leave alone.
type Row struct {
	Class string // what it attacks, one of Classes
	Name  string // says the attack in words; no two rows of a class have the same
	Rule  string // of driver/rules that decides, or Egress and a kind of refusal; empty: no rule but Want says what must come of it

	// Attack is what the attack program is called with: the name of an attack and its arguments. The placeholders of
	// [Host] are filled in.
	Attack []string

	Network  string         // as in policy.Request; empty: deny, or what Hosts say
	Hosts    []string       // as in policy.Request; placeholders are filled in. A decoy of the host has the port {open}
	Serves   bool           // that decoy must be reached, besides what the attack tries; else it must not
	Inner    bool           // what the attack is after is an answer of the gateway, of which no decoy knows
	NoSpawn  bool           //
	Mounted  bool           // {dir}/mounted is mounted on /workspace/mounted
	Limits   profile.Limits // zero fields: the profile's
	Artifact bool           // artifacts are copied out, and looked at
	Times    int            // runs, one after the other; 0: one
	Idle     bool           // it takes long, and most of that it waits
	Needs    []string       // of a driver, besides what Mounted needs: see Applies

	// Want is what must come of a row without a rule. With one it follows from the rule's action: a violation of it, its
	// errno and a count of it, or the effect.
	Want Want

	// Behind says what stops the attack when Rule is switched off, layer by layer; see [Layer]. Empty only without Rule.
	Behind []Layer
}

// Want is what must come of a run. Fields that are zero are not looked at, but for Effect: an effect that is not wanted is
// a hole.
type Want struct {
	Outcome string // one of run.Outcome's, alternatives separated by |; empty: ok
	Effect  bool   // it must happen
	Errno   string // the last answer of the kernel, alternatives separated by |
	Flag    string // of the outcome: a limit that must have been hit
	Exit    int    // status of the program, with outcome failed
	Signal  int    // that ended it
	Text    string // must be in the output, byte for byte

	Unstarted bool // the attack program is not even started; only of layers
}

// Layer is what an attack meets when the rules before it are switched off: the row's own rule, then Rule of the layers
// before. One of Rule, Errno, Effect and Want is set.
type Layer struct {
	Rule   string // another rule stops it
	Errno  string // the kernel's own answer, alternatives separated by |
	Effect bool   // nothing does: the effect happens
	Want   Want   // what happens instead of an answer or effect
	Why    string // what the layer is; empty for Rule and Effect
}

// ID names a row in reports and for --only.
func (r Row) ID() string { return r.Class + "/" + r.Name }

// timeout bounds a row that says nothing of it. Rows take a tenth of a second; races and floods a second or two.
const timeout = time.Minute

// program is where the attack program lies in the sandbox.
const program = "/workspace/silk-attack"

// Request is the row as a run. attack is the host path of the attack program, whose base name must be silk-attack.
func (r Row) Request(attack string, h Host) policy.Request {
	args := []string{program}
	for _, arg := range r.Attack {
		args = append(args, h.fill(arg))
	}
	req := policy.Request{
		Client: policy.ClientCLI, Profile: "lab:text", Args: args, Files: []string{attack},
		Network: r.Network, NoSpawn: r.NoSpawn, Limits: r.Limits,
	}
	for _, host := range r.Hosts {
		req.Hosts = append(req.Hosts, h.fill(host))
	}
	if h.Dir != "" {
		req.Files = append(req.Files, filepath.Join(h.Dir, "copied"))
	}
	if r.Mounted {
		req.Mounts = []policy.Mount{{Source: filepath.Join(h.Dir, "mounted"), Target: policy.Workspace + "/mounted"}}
	}
	if req.Limits.Timeout == 0 {
		req.Limits.Timeout = timeout
	}
	return req
}

// rule is the row's rule, if it has one.
func (r Row) rule() (rules.Rule, bool) { return ruleNamed(r.Rule) }

// Egress begins the names of rules that are kinds of refusals of package egress.
const Egress = "egress."

// ruleNamed is the rule of driver/rules with a name, or the refusal of package egress as one.
func ruleNamed(name string) (rules.Rule, bool) {
	if kind, ok := strings.CutPrefix(name, Egress); ok && slices.Contains(egress.Kinds(), kind) {
		return rules.Rule{Name: name, Action: rules.Deny}, true
	}
	return rules.Named(name)
}

// want is what must come of the row.
func (r Row) want() want {
	w := want{Want: r.Want}
	if rule, ok := r.rule(); ok {
		w = wantOf(rule, r.Want)
	}
	w.serves = r.Serves
	return w
}

// without is what must come of the row when its rule, and those of the first n layers, are off.
func (r Row) without(n int) want {
	l := r.Behind[n]
	if rule, ok := ruleNamed(l.Rule); ok {
		w := wantOf(rule, l.Want)
		w.serves = r.Serves
		return w
	}
	w := want{Want: l.Want, gone: r.Rule, serves: r.Serves}
	w.Effect = l.Effect
	w.reached = l.Effect && len(r.Hosts) > 0 && !r.Inner
	if l.Errno != "" {
		w.Errno = l.Errno
	}
	return w
}

// Off is the rules that the control of layer n switches off.
func (r Row) Off(n int) []string {
	off := []string{r.Rule}
	for _, l := range r.Behind[:n] {
		off = append(off, l.Rule)
	}
	return off
}

// wantOf is what must come of an attack that rule decides about.
func wantOf(rule rules.Rule, more Want) want {
	w := want{Want: more, rule: rule.Name}
	switch rule.Action {
	case rules.Kill:
		w.Outcome, w.killed = "violated", true
	case rules.Deny, rules.Absent:
		if w.Errno == "" {
			w.Errno = rule.Errno
		}
		w.counted = true
	case rules.Allow:
		w.Effect = true
	}
	return w
}

// Host is what rows know of the host that they must not find. Its zero value has no placeholders.
type Host struct {
	Name     string // {host-name}
	Variable string // {variable}: name of an environment variable that silk itself has
	Dir      string // {dir}: a directory with secret; socket, on which somebody listens; copied, which is copied in; mounted, see Decoys
	Port     string // {port}: somebody listens there, on 127.0.0.1
	Open     string // {open}: of a decoy on 127.0.0.1 that the run's owner lets it reach, if the row has Hosts
	Closed   string // {closed}: of one that he does not
}

func (h Host) fill(arg string) string {
	return strings.NewReplacer("{host-name}", h.Name, "{variable}", h.Variable, "{dir}", h.Dir, "{port}", h.Port, "{open}", h.Open, "{closed}", h.Closed).Replace(arg)
}

// fault says what makes a row useless, or "".
func (r Row) fault() string {
	rule, known := r.rule()
	switch {
	case r.Name == "" || len(r.Attack) == 0:
		return "it has no name, or does nothing"
	case r.Rule != "" && !known:
		return fmt.Sprintf("there is no rule %q", r.Rule)
	case r.Rule != "" && len(r.Behind) == 0:
		return "nothing says what stops it when its rule is off"
	case r.Rule == "" && len(r.Behind) > 0:
		return "it has layers behind a rule that it has not"
	case r.Rule == "" && r.Want == (Want{}):
		return "it wants nothing"
	case len(r.Hosts) == 0 && (r.Serves || r.Inner || strings.HasPrefix(r.Rule, Egress)):
		return "it has no way out"
	case r.Rule == "" && slices.Contains([]Want{cutOff, answered403, unknownName}, r.Want):
		return "it wants a refusal, and does not say by which rule"
	case r.Rule != "" && rule.Action != rules.Allow && r.Want.Effect:
		return "it wants an effect that its rule prevents"
	}
	for i, l := range r.Behind {
		_, known := ruleNamed(l.Rule)
		switch last := i == len(r.Behind)-1; {
		case l.Rule != "" && !known:
			return fmt.Sprintf("there is no rule %q", l.Rule)
		case l.Rule == "" && !last:
			return "only a rule can be switched off to see the next layer"
		case l.Rule == "" && !l.Effect && l.Why == "":
			return "a layer does not say what it is"
		}
	}
	return ""
}

package selftest

import (
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/egress"
)

// What a class may have: fewer rows show little of it, more belong to two.
const fewest, most = 3, 12

func TestRows(t *testing.T) {
	classes := map[string]int{}
	seen := map[string]bool{}
	for _, r := range All() {
		classes[r.Class]++
		if fault := r.fault(); fault != "" {
			t.Errorf("%s: %s", r.ID(), fault)
		}
		if seen[r.ID()] {
			t.Errorf("two rows are called %s", r.ID())
		}
		seen[r.ID()] = true
	}
	if len(classes) < 16 || len(All()) < 130 {
		t.Errorf("%d rows in %d classes, want at least 130 in 16", len(All()), len(classes))
	}
	for class, n := range classes {
		if n < fewest || n > most {
			t.Errorf("class %q has %d rows, want %d to %d", class, n, fewest, most)
		}
	}
}

// TestEveryRuleHasRows holds the suite against the policy: each rule is attacked, and each system call that it names.
func TestEveryRuleHasRows(t *testing.T) {
	for _, rule := range rules.All() {
		attacked := func(what string) bool {
			return slices.ContainsFunc(All(), func(r Row) bool {
				return r.Rule == rule.Name && strings.Contains(" "+r.Name+" "+strings.Join(r.Attack, " ")+"(", what)
			})
		}
		if !attacked("") {
			t.Errorf("no row attacks rule %s (%s)", rule.Name, rule.Reason)
		}
		for _, call := range rule.Calls {
			if !attacked(" "+call+"(") && !attacked(" "+call+" ") {
				t.Errorf("no row attacks %s, which rule %s is about", call, rule.Name)
			}
		}
		for _, name := range rule.Files {
			if !attacked(name) && !attacked("root"+name) {
				t.Errorf("no row attacks %s, which rule %s is about", name, rule.Name)
			}
		}
	}
}

// TestEveryRefusalHasRows is the same for the way out.
func TestEveryRefusalHasRows(t *testing.T) {
	for _, kind := range egress.Kinds() {
		if !slices.ContainsFunc(All(), func(r Row) bool { return r.Rule == Egress+kind }) {
			t.Errorf("no row attacks what is refused as %q", kind)
		}
	}
}

// TestNobodyIsAsked: all names that rows may reach lead where the suite says, so that no row asks a resolver.
func TestNobodyIsAsked(t *testing.T) {
	h := Host{Open: "1", Closed: "2"}
	for _, r := range All() {
		for _, host := range r.Hosts {
			rule, err := egress.ParseRule(h.fill(host))
			if err != nil {
				t.Errorf("%s: %v", r.ID(), err)
				continue
			}
			if _, ok := leads[rule.Name]; !ok && !rule.Prefix.IsValid() && (!rule.Below || rule.Name != "selftest.test") {
				t.Errorf("%s: %s leads nowhere", r.ID(), host)
			}
		}
	}
}

// TestWantsFollowFromRules: what must come of an attack is what its rule says, and nothing that contradicts it.
func TestWantsFollowFromRules(t *testing.T) {
	for _, r := range All() {
		rule, ok := r.rule()
		if !ok {
			continue
		}
		w := r.want()
		switch rule.Action {
		case rules.Kill:
			if !w.killed || w.Errno != "" || w.Effect {
				t.Errorf("%s: wants %s, but the rule kills", r.ID(), w)
			}
		case rules.Allow:
			if !w.Effect || w.killed {
				t.Errorf("%s: wants %s, but the rule allows", r.ID(), w)
			}
		default:
			if !w.counted || w.Errno == "" || w.Effect {
				t.Errorf("%s: wants %s, but the rule refuses with %s", r.ID(), w, rule.Errno)
			}
		}
	}
}

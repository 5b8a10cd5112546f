package escape

import (
	"strings"
	"sync"
	"testing"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/selftest"
)

// What a control build obeys: a variable of the program, and for refusals of the way out rules of the allow-list.
const (
	rulesOff  = "SILK_TEST_RULES_OFF="
	egressOff = ".off.selftest.test:1"
)

// without asks for rules to be switched off.
func without(off ...string) func(*policy.Request) {
	return func(req *policy.Request) {
		req.Env = append(req.Env, rulesOff+strings.Join(off, ","))
		for _, rule := range off {
			if kind, ok := strings.CutPrefix(rule, selftest.Egress); ok {
				req.Hosts = append(req.Hosts, kind+egressOff)
			}
		}
	}
}

// TestControls switches off what stops each row, layer by layer. With its rule off, a row must not hold any more, and
// what happens instead must be what the row says.
func TestControls(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	testenv.NoLeaks(t)
	suite := newSuite(t, newSilk(t, controlSilk(t), plantedImages(t)))
	var mu sync.Mutex
	noticed, ran, controls := map[string]bool{}, 0, 0
	t.Run("row", func(t *testing.T) {
		for _, r := range rows {
			for n, layer := range r.Behind {
				off := r.Off(n)
				controls++
				t.Run(r.ID()+" without "+strings.Join(off, ","), func(t *testing.T) {
					t.Parallel()
					mu.Lock()
					ran++
					mu.Unlock()
					got, err := suite.Once(t.Context(), r, without(off...))
					if err != nil {
						t.Fatal(err)
					}
					if verdict, problems := r.JudgeWithout(n, got); verdict != selftest.Holds {
						t.Errorf("%s: %q; layer %+v, outcome %s, rule %q, refused %v; it said %.500q", verdict, problems, layer, got.Outcome, got.Rule, got.Refused, got.Output)
					}
					if n > 0 {
						return
					}
					if verdict, _ := r.Judge(got); verdict == selftest.Holds {
						t.Errorf("the row holds without its rule, so it shows nothing of it")
						return
					}
					mu.Lock()
					defer mu.Unlock()
					noticed[r.Rule] = true
				})
			}
		}
	})
	if ran < controls {
		return // -run names some
	}
	for _, rule := range rules.All() {
		if !noticed[rule.Name] {
			t.Errorf("no row notices that rule %s is off", rule.Name)
		}
	}
	for _, kind := range egress.Kinds() {
		if !noticed[selftest.Egress+kind] {
			t.Errorf("no row notices that refusals of kind %s are off", kind)
		}
	}
}

// TestNoSwitchInTheProduct asks the ordinary silk to switch rules off: one row of each rule holds all the same.
func TestNoSwitchInTheProduct(t *testing.T) {
	testenv.Require(t, testenv.Silk, testenv.Image("lab:text"))
	testenv.NoLeaks(t)
	suite := newSuite(t, newSilk(t, testenv.SilkPath(), testImages()))
	tried := map[string]bool{"": true}
	t.Run("rule", func(t *testing.T) {
		for _, r := range selftest.All() {
			if tried[r.Rule] {
				continue
			}
			tried[r.Rule] = true
			t.Run(r.Rule, func(t *testing.T) {
				t.Parallel()
				got, err := suite.Once(t.Context(), r, without(r.Rule))
				if err != nil {
					t.Fatal(err)
				}
				if verdict, problems := r.Judge(got); verdict != selftest.Holds {
					t.Errorf("%s: %q", verdict, problems)
				}
			})
		}
	})
}

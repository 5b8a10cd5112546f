package main

import (
	"testing"

	"github.com/silk-sandbox/silk/selftest"
)

// within are attacks that only others perform, or their other half.
var within = map[string]bool{"pause": true, "ran": true, "ran-from": true, "flip": true, "parent-of-pause": true, "traced": true}

// TestAttacksAndRows: each row has its attack, and each attack a row. A misspelt name would show only in a sandbox.
func TestAttacksAndRows(t *testing.T) {
	known, used := attacks(), map[string]bool{}
	for _, r := range selftest.All() {
		if known[r.Attack[0]] == nil {
			t.Errorf("%s: no attack is called %q", r.ID(), r.Attack[0])
		}
		for _, word := range r.Attack {
			used[word] = true // wrappers name another in their arguments
		}
	}
	for name := range known {
		if !used[name] && !within[name] {
			t.Errorf("no row uses the attack %q", name)
		}
	}
}

package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/profile"
)

// TestForeign: who passes on what somebody else has written lends it none of his rights: neither limits nor hosts, addresses or secrets.
func TestForeign(t *testing.T) {
	prof := profile.Profile{Name: "test", Image: "test", Network: "deny", Limits: profile.Defaults}
	for name, test := range map[string]struct {
		req  Request
		rule string
	}{
		"nothing beyond the profile": {Request{Args: []string{"true"}}, ""},
		"memory":                     {Request{Args: []string{"true"}, Limits: profile.Limits{MemoryBytes: 1 << 40}}, RuleApproval},
		"a host":                     {Request{Args: []string{"true"}, Network: "allowlist", Hosts: []string{"example.org:443"}}, RuleApproval},
		"an address of the network":  {Request{Args: []string{"true"}, Network: "allowlist", Hosts: []string{"169.254.169.254:80"}}, RuleNetwork},
		"a secret of the invoker's":  {Request{Args: []string{"true"}, Network: "allowlist", Hosts: []string{"example.org:443"}, Secrets: []string{"TOKEN@example.org:443/X-Token"}}, RuleSecret},
	} {
		t.Run(name, func(t *testing.T) {
			own := test.req
			own.Client = ClientCLI
			if _, err := Decide(own, prof, Grants{}); err != nil {
				t.Errorf("one's own: %v", err)
			}
			foreign := own
			foreign.Foreign = true
			plan, err := Decide(foreign, prof, Grants{})
			var denial *Denial
			switch {
			case test.rule == "" && err != nil:
				t.Error(err)
			case test.rule != "" && (!errors.As(err, &denial) || denial.Rule != test.rule):
				t.Fatalf("%v, want a denial by %s", err, test.rule)
			}
			if test.rule != RuleApproval {
				return
			}
			if !strings.Contains(denial.Fix, "--approve "+plan.Hash()) {
				t.Errorf("fix: %s", denial.Fix)
			}
			foreign.Approve = plan.Hash()
			if _, err := Decide(foreign, prof, Grants{}); err != nil {
				t.Errorf("approved: %v", err)
			}
		})
	}
}

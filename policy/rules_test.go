package policy

import (
	"strings"
	"testing"
)

func TestEnforced(t *testing.T) {
	text := func(p Plan) string {
		var b strings.Builder
		for _, e := range Enforced(p) {
			b.WriteString(e.Rule + ": " + e.What + "\n")
		}
		return b.String()
	}
	tests := []struct {
		name       string
		plan       Plan
		has, lacks string
	}{
		{"deny ends at the socket", Plan{Network: "deny"}, "network.*: creating an INET,", "loopback"},
		{"loopback ends at the address", Plan{Network: "loopback"}, "an address that is not loopback", "an INET,"},
		{"a refusal goes on", Plan{Network: "allowlist", Egress: &Egress{OnRefused: "deny"}}, ": looking up, connecting or sending to what the network does not allow; UDP", "egress.*"},
		{"a refusal ends", Plan{Network: "allowlist", Egress: &Egress{OnRefused: "kill"}}, "egress.*: looking up, connecting or sending", "UDP"},
		{"spawning is free", Plan{Network: "deny"}, "privilege.*: mount", "second exec"},
		{"spawning is not", Plan{Network: "deny", NoSpawn: true}, "a second exec", "loopback"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := text(tt.plan); !strings.Contains(got, tt.has) || strings.Contains(got, tt.lacks) {
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

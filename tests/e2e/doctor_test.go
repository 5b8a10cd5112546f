package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// Where the tests run, doctor finds nothing fatal, starts a sandbox, and knows which gVisor it has.
func TestDoctor(t *testing.T) {
	testenv.NoLeaks(t)
	s := newSilk(t, "lab:text")
	out, err := s.Command(t.Context(), "doctor", "--json").Output()
	if err != nil {
		t.Errorf("silk doctor: %v", err)
	}
	var facts []struct{ Name, State, Text string }
	if err := json.Unmarshal(out, &facts); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ name, text string }{
		{"sandbox kernel", "gVisor v"}, {"driver gvisor", "started a sandbox with lab:text"}, {"images", "lab:text"},
	} {
		found := false
		for _, f := range facts {
			found = found || f.Name == want.name && f.State == "yes" && strings.Contains(f.Text, want.text)
		}
		if !found {
			t.Errorf("no line %q says yes and %q: %s", want.name, want.text, out)
		}
	}
}

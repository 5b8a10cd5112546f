package profile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/internal/strictyaml"
)

// What YAML writes is read back the same: the built-in profiles, and one with everything that could go wrong.
func TestYAMLIsReadBack(t *testing.T) {
	odd := Profile{
		Name: "team:odd", Summary: "colons: and # hashes, \"quotes\"", Image: "a:b", Language: "c++", Network: NetworkLoopback,
		Limits: Limits{
			Timeout: 1500 * time.Millisecond, MemoryBytes: 1000, CPUs: 0.25, Processes: 3, WorkspaceBytes: 1 << 40, TmpBytes: 1, ShmBytes: 5 << 10, OutputBytes: 7,
		},
		Max:  Limits{Timeout: time.Hour, CPUs: 2},
		Env:  map[string]string{"EMPTY": "", "ODD": "a\"b\n\t\x01ü: [1]", "NUMBER": "0x10", "NO": "no"},
		Dirs: []string{".made", "two words"},
	}
	for name, value := range DefaultEnv { // a profile can change one, not leave it out
		odd.Env[name] = value
	}
	odd.Ignore = append([]string{".bash_history", ".cache", ".git", ".made"}, CommonIgnore[3:]...)
	odd.Ignore = append(odd.Ignore, "two words")
	listed, served := odd, odd
	listed.Network, listed.Hosts, listed.OnRefused = NetworkAllowlist, []string{"*.a.org:443", "tcp:[2001:db8::1]:22"}, RefusedKills
	served.Network, served.Service = NetworkDeny, &Service{Variable: "API_URL", URL: "http://127.0.0.1:3100/a: b"}
	all := []Profile{odd, listed, served}
	for _, name := range builtinNames {
		p, err := (*Set)(nil).Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for _, want := range all {
		t.Run(want.Name, func(t *testing.T) {
			text := want.YAML()
			d, root := strictyaml.Open("x.yaml", []byte(text))
			got := ReadAll(d, root)
			if err := d.Err(); err != nil {
				t.Fatalf("%v in:\n%s", err, text)
			}
			if diff := cmp.Diff([]Profile{want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

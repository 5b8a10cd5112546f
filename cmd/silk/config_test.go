package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// TestDocumentedConfiguration reads the example of docs/howto/configure.md.
func TestDocumentedConfiguration(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(), "docs/howto/configure.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(example, "```\n")
	if !ok {
		t.Fatal("docs/howto/configure.md has no example")
	}
	c, err := parseConfig("configure.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.profiles.Lookup("lab:python")
	if err != nil || p.Limits.MemoryBytes != 1<<30 || p.Max.MemoryBytes != 4<<30 || p.Env["MPLBACKEND"] != "Agg" {
		t.Errorf("lab:python is %+v, %v", p, err)
	}
	if c.home != "/srv/silk" || c.grants.Max.Timeout != 30*time.Minute || len(c.grants.Stores) != 1 || c.mirror == "" || c.npmRegistry == "" {
		t.Errorf("got %+v", c)
	}
}

func TestHome(t *testing.T) {
	tests := []struct {
		name, flag, env, config, want string
	}{
		{"flag first", "/a", "/b", "/c", "/a"},
		{"then the environment", "", "/b", "/c", "/b"},
		{"then the configuration", "", "", "/c", "/c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &app{homeFlag: tt.flag, env: func(name string) string {
				return map[string]string{"SILK_HOME": tt.env, "HOME": "/home/u"}[name]
			}}
			if got, err := a.home(config{home: tt.config}); err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestWantsJSON(t *testing.T) {
	for line, want := range map[string][2]bool{
		"run --json x": {true, false}, "run --jsonl x": {true, true}, "run --json=true": {true, false}, "run --json --jsonl": {true, true},
		"run x -- --json": {}, "run x": {}, "run --jsonx": {},
	} {
		if json, lines := wantsJSON(strings.Fields(line)); json != want[0] || lines != want[1] {
			t.Errorf("wantsJSON(%q) = %v, %v", line, json, lines)
		}
	}
}

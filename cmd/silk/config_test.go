package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/alert"
	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/handoff"
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
	wantAlerts := alertConfig{
		files:    []string{"/var/log/silk/alerts.jsonl"},
		webhooks: []alert.Webhook{{URL: "https://alerts.example.org/silk", SecretFile: "/etc/silk/webhook.key", Timeout: 5 * time.Second}},
	}
	if !reflect.DeepEqual(c.alerts, wantAlerts) {
		t.Errorf("alerts are %+v, want %+v", c.alerts, wantAlerts)
	}
	wantSinks := []handoff.Sink{
		{Name: "notes", Vault: "/home/ann/Vault"},
		{Name: "agent", URL: "https://agent.example.org/silk", SecretFile: "/etc/silk/agent.key", Receivers: []string{handoff.CodeExplainer}},
	}
	if !reflect.DeepEqual(c.handoffs.sinks, wantSinks) || c.handoffs.keep != 30*24*time.Hour || !reflect.DeepEqual(c.handoffs.routes["denied"], []string{handoff.WidowWeaver}) || len(c.handoffs.routes["failed"]) != 2 || len(c.handoffs.routes["ok"]) != 0 {
		t.Errorf("handoffs are %+v", c.handoffs)
	}
	if want := (audit.Policy{MaxBytes: 4 << 20, MaxAge: 30 * 24 * time.Hour, Keep: 1000, Retention: 365 * 24 * time.Hour}); c.audit != want {
		t.Errorf("audit is %+v, want %+v", c.audit, want)
	}
}

// The user's file comes before the host's, and one that was named before both.
func TestWhichConfiguration(t *testing.T) {
	dir := t.TempDir()
	user, named := filepath.Join(dir, "silk", "config.yaml"), filepath.Join(dir, "named.yaml")
	for _, err := range []error{os.Mkdir(filepath.Dir(user), 0o700), os.WriteFile(user, nil, 0o600), os.WriteFile(named, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ flag, env, want string }{{"", "", user}, {"", named, named}, {named, user, named}} {
		a := &app{configFlag: test.flag, env: func(name string) string {
			return map[string]string{"SILK_CONFIG": test.env, "XDG_CONFIG_HOME": dir}[name]
		}}
		if c, err := a.loadConfig(); err != nil || c.file != test.want {
			t.Errorf("with --config %q and SILK_CONFIG %q: %s, %v; want %s", test.flag, test.env, c.file, err, test.want)
		}
	}
}

// Code is read into memory, so only so much of it.
func TestCodeIsBounded(t *testing.T) {
	for size, fits := range map[int]bool{maxCode: true, maxCode + 1: false} {
		code, err := readCode(strings.NewReader(strings.Repeat("x", size)), "x")
		if (err == nil) != fits || fits && len(code) != size {
			t.Errorf("%d bytes: read %d, %v", size, len(code), err)
		}
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

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddRuntime(t *testing.T) {
	entry := daemonRuntime{Path: "/usr/bin/silk", Args: []string{"runtime"}}
	own := map[string]any{"path": "/usr/bin/silk", "runtimeArgs": []any{"runtime"}}
	for _, test := range []struct {
		name, before string
		want         map[string]any
	}{
		{"no file", "", map[string]any{"runtimes": map[string]any{"silk": own}}},
		{"other settings stay", `{"debug": true, "log-opts": {"max-size": "1m"}}`, map[string]any{
			"debug": true, "log-opts": map[string]any{"max-size": "1m"}, "runtimes": map[string]any{"silk": own},
		}},
		{"other runtimes stay", `{"runtimes": {"other": {"path": "/x"}, "silk": {"path": "/old"}}}`, map[string]any{
			"runtimes": map[string]any{"other": map[string]any{"path": "/x"}, "silk": own},
		}},
	} {
		out, err := addRuntime([]byte(test.before), entry)
		var got map[string]any
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s: %s", test.name, d)
		}
	}
	for _, bad := range []string{"{", "[]", `{"runtimes": []}`} {
		if out, err := addRuntime([]byte(bad), entry); err == nil {
			t.Errorf("%s becomes %s", bad, out)
		}
	}
}

// TestWriteRuntime: a file that cannot be read stays as it is.
func TestWriteRuntime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "docker/daemon.json")
	a := newApp(nil)
	if err := a.writeRuntime(file, daemonRuntime{Path: "/x"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := a.writeRuntime(file, daemonRuntime{Path: "/x"}); err == nil {
		t.Error("a broken file is written over")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{broken" {
		t.Errorf("it has %q now, %v", text, err)
	}
}

func TestRegistration(t *testing.T) {
	for _, test := range []struct {
		name, home, config string // flags
		env                map[string]string
		want               []string
	}{
		{"as it is", "", "", nil, []string{"runtime"}},
		{"by flags", "/srv/silk", "/etc/other.yaml", map[string]string{"SILK_HOME": "/not", "SILK_CONFIG": "/not"}, []string{"runtime", "--home", "/srv/silk", "--config", "/etc/other.yaml"}},
		{"by the environment", "", "", map[string]string{"SILK_HOME": "/srv/silk", "SILK_CONFIG": "/etc/other.yaml"}, []string{"runtime", "--home", "/srv/silk", "--config", "/etc/other.yaml"}},
	} {
		a := newApp(nil)
		a.homeFlag, a.configFlag, a.env = test.home, test.config, func(name string) string { return test.env[name] }
		entry, err := a.registration()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(test.want, entry.Args); d != "" || !filepath.IsAbs(entry.Path) {
			t.Errorf("%s: %q, %s", test.name, entry.Path, d)
		}
	}
}

func TestSignalNumber(t *testing.T) {
	for text, want := range map[string]int{"9": 9, "KILL": 9, "SIGKILL": 9, "sigterm": 15, "TERM": 15, "USR1": 10, "SYS": 31, "34": 34} {
		if got, err := signalNumber(text); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "65", "SIG", "SIGNONE", "nonsense"} {
		if got, err := signalNumber(text); err == nil {
			t.Errorf("%q is taken for signal %d", text, got)
		}
	}
}

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// FuzzConfig: a configuration is refused line by line, or is one that can be used; and no key is lost, whatever stands
// before or behind it: a rule that somebody wrote must not silently be none.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"home: /x\nprofiles: {a: {image: b}}\ngrants: {max: {memory: 1GiB}, hosts: [a:1], stores: [/s]}\nmirror: x\nnpm_registry: y\nsystem_store: /z\n",
		"grants: [1]\nhome: relative",
		"alerts:\n- stderr: false\n- file: /a/b\n- webhook: {url: 'https://x.example/y', secret_file: /k, timeout: 5s}\nrequire_watch: true\nwatch: false\n",
		"docker: {host: 'unix:///var/run/docker.sock'}\n", "docker: {host: tcp://1.2.3.4:2375}\n",
		"audit: {max_size: 4MiB, max_age: 30d, keep: 10, retention: 1h}\n# no more\n",
		"mirror: |\n  two\n  lines\n\nhome: \"/\\u2028\"\n...\n",
		"mirror: >-\n  x\n\n y\nnpm_registry: 'it''s'\nprofiles:\n  b:c:\n    from: lab:text\n    env: {A: ~}\n",
		"{home: /x,\n mirror: [\n",
		"? watch\n: true\n",
	} {
		f.Add([]byte(seed))
	}
	if text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(), "docs/howto/configure.md")); err == nil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig("c.yaml", data)
		if err != nil {
			var faults *strictyaml.Error
			if !errors.As(err, &faults) || len(faults.Faults) == 0 {
				t.Errorf("error %v has no lines", err)
			}
			return
		}
		switch {
		case c.profiles == nil:
			t.Error("no profiles")
		case c.home != "" && !filepath.IsAbs(c.home) || c.systemStore != "" && !filepath.IsAbs(c.systemStore):
			t.Errorf("home %q, system store %q", c.home, c.systemStore)
		case c.audit.MaxBytes < 0 || c.audit.MaxAge < 0 || c.audit.Keep < 0 || c.audit.Retention < 0:
			t.Errorf("audit %+v", c.audit)
		}
		for _, name := range append(c.grants.Stores, c.alerts.files...) {
			if !filepath.IsAbs(name) {
				t.Errorf("accepted the path %q", name)
			}
		}
		for _, w := range c.alerts.webhooks {
			if err := w.Check(); err != nil {
				t.Errorf("accepted a webhook: %v", err)
			}
		}
		const key = "require_watch: true\n"
		for _, text := range []string{key + string(data), string(data) + "\n" + key} {
			if c, err := parseConfig("c.yaml", []byte(text)); err == nil && !c.mustWatch {
				t.Errorf("a key was lost: %q", text)
			}
		}
	})
}

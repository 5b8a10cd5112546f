package profile

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/silk-sandbox/silk/internal/strictyaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestBuiltin(t *testing.T) {
	for _, name := range (*Set)(nil).Names() {
		t.Run(name, func(t *testing.T) {
			p, err := (*Set)(nil).Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", strings.ReplaceAll(name, ":", "-")+".json")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestPromisedEnvironment holds every profile to what programs may rely on.
func TestPromisedEnvironment(t *testing.T) {
	everywhere := map[string]string{"HOME": "/workspace", "LANG": "C.UTF-8", "TZ": "UTC", "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache", "SHELL": "/bin/sh"}
	for _, name := range (*Set)(nil).Names() {
		p, err := (*Set)(nil).Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range everywhere {
			if got := p.Env[k]; got != want {
				t.Errorf("%s: %s is %q, want %q", name, k, got, want)
			}
		}
		for _, k := range []string{"USER", "LOGNAME", "PATH"} {
			if p.Env[k] == "" {
				t.Errorf("%s: %s is not set", name, k)
			}
		}
		for _, dir := range p.Dirs {
			if !slices.Contains(p.Ignore, dir) {
				t.Errorf("%s: directory %s would be an artifact", name, dir)
			}
		}
	}
}

func TestParse(t *testing.T) {
	base := Profile{Name: "mine", Image: "i", Language: "sh", Network: "deny", Limits: Defaults, Env: DefaultEnv, Ignore: CommonIgnore}
	tests := []struct {
		name, yaml string
		change     func(*Profile)
		fault      string
	}{
		{name: "least", yaml: "image: i", change: func(*Profile) {}},
		{name: "one limit leaves the others alone", yaml: "image: i\nlimits: {memory: 1GiB}", change: func(p *Profile) { p.Limits.MemoryBytes = 1 << 30 }},
		{name: "max", yaml: "image: i\nmax:\n  timeout: 10m\n  cpus: 2\n  processes: 100", change: func(p *Profile) {
			p.Max = Limits{Timeout: 10 * time.Minute, CPUs: 2, Processes: 100}
		}},
		{name: "numbers in env are text", yaml: "image: i\nenv: {A: 1, B: true, C:, D: 1e3}", change: func(p *Profile) {
			p.Env = maps.Clone(DefaultEnv)
			maps.Copy(p.Env, map[string]string{"A": "1", "B": "true", "C": "", "D": "1e3"})
		}},
		{name: "dirs are never artifacts", yaml: "image: i\ndirs: [.x]", change: func(p *Profile) {
			p.Dirs, p.Ignore = []string{".x"}, slices.Sorted(slices.Values(append(slices.Clone(CommonIgnore), ".x")))
		}},
		{name: "language by fence word", yaml: "image: i\nlanguage: py", change: func(p *Profile) { p.Language = "python" }},
		{name: "no image", yaml: "summary: x", fault: "f.yaml:1: profile mine names no image"},
		{name: "misspelt key", yaml: "image: i\nlimts: {}", fault: `f.yaml:2: unknown key "limts" in profile mine; did you mean "limits"?`},
		{name: "misspelt limit", yaml: "image: i\nlimits:\n  memroy: 1GiB", fault: `f.yaml:3: unknown key "memroy" in limits; did you mean "memory"?`},
		{name: "ambiguous size", yaml: "image: i\nlimits: {memory: 512M}", fault: "f.yaml:2: \"512M\" is ambiguous; write 512MiB or 512MB"},
		{name: "timeout without unit", yaml: "image: i\nlimits: {timeout: 30}", fault: `f.yaml:2: "30" has no unit; write 30s`},
		{name: "processes beyond what a kernel numbers", yaml: "image: i\nlimits: {processes: 32769}", fault: `"32769" is not a number of processes between 1 and 32768`},
		{name: "negative processes", yaml: "image: i\nlimits: {processes: -1}", fault: `f.yaml:2: "-1" is not a number of processes`},
		{name: "no processors", yaml: "image: i\nlimits: {cpus: 0}", fault: `"0" is not a number of processors`},
		{name: "network that no profile may default to", yaml: "image: i\nnetwork: allow", fault: `f.yaml:2: network allow is not for profiles`},
		{name: "hosts without a list for them", yaml: "image: i\nhosts: [a.org:443]", fault: `has network deny and 1 hosts`},
		{name: "a list without hosts", yaml: "image: i\nnetwork: allowlist", fault: `has network allowlist and 0 hosts`},
		{name: "a host without a port", yaml: "image: i\nnetwork: allowlist\nhosts: [a.org]", fault: `f.yaml:3: hosts: host "a.org" has no port`},
		{name: "a service beside a network", yaml: "image: i\nnetwork: loopback\nservice: {variable: A, url: 'http://127.0.0.1:1'}", fault: `has network loopback and a service`},
		{name: "a service without a host", yaml: "image: i\nservice: {variable: A, url: '/v1'}", fault: `service: url "/v1" is not http://HOST:PORT`},
		{name: "a service with a password", yaml: "image: i\nservice: {variable: A, url: 'http://a:b@c.test'}", fault: `is not http://HOST:PORT`},
		{name: "a service by TLS at an address", yaml: "image: i\nservice: {variable: A, url: 'https://127.0.0.1:1'}", fault: `for which nobody has a certificate`},
		{name: "a service in no variable", yaml: "image: i\nservice: {variable: A-B, url: 'http://c.test'}", fault: `variable "A-B" is not the name`},
		{name: "an unknown end", yaml: "image: i\non_refused: warn", fault: `on_refused "warn" is not deny or kill`},
		{name: "unknown language", yaml: "image: i\nlanguage: cobol", fault: `f.yaml:2: language "cobol" is not known`},
		{name: "bad variable", yaml: "image: i\nenv: {A=B: c}", fault: `"A=B" is not the name of an environment variable`},
		{name: "dir outside", yaml: "image: i\ndirs: [../x]", fault: `f.yaml:2: dirs has "../x"`},
		{name: "from unknown", yaml: "from: lab:pyton", fault: `f.yaml:1: from names "lab:pyton", which is not a built-in profile; did you mean "lab:python"?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse("mine", "f.yaml", []byte(tt.yaml))
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Fatalf("got error %v, want %q", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := base
			tt.change(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFromKeepsTheBase(t *testing.T) {
	got, err := Parse("lab:python", "f.yaml", []byte("limits: {timeout: 5m}\nenv: {TZ: Europe/Berlin}\nfrom: lab:python\n"))
	if err != nil {
		t.Fatal(err)
	}
	base, err := (*Set)(nil).Lookup("lab:python")
	if err != nil {
		t.Fatal(err)
	}
	base.Limits.Timeout = 5 * time.Minute
	base.Env["TZ"] = "Europe/Berlin"
	if diff := cmp.Diff(base, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	again, err := (*Set)(nil).Lookup("lab:python")
	if err != nil || again.Env["TZ"] != "UTC" {
		t.Errorf("the built-in profile was changed: TZ=%s, %v", again.Env["TZ"], err)
	}
}

func TestReadAllAndSet(t *testing.T) {
	d, root := strictyaml.Open("config.yaml", []byte("lab:python:\n  from: lab:python\n  summary: ours\nteam:small:\n  image: lab:text\nBad Name:\n  image: x\n"))
	all := ReadAll(d, root)
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), `config.yaml:6: profile name "Bad Name"`) {
		t.Errorf("got %v", err)
	}
	s := NewSet(all...)
	if diff := cmp.Diff([]string{"lab:text", "lab:python", "lab:node", "lab:repo", "lab:quantum", "lab:evm", "team:small"}, s.Names()); diff != "" {
		t.Error(diff)
	}
	if p, err := s.Lookup("lab:python"); err != nil || p.Summary != "ours" {
		t.Errorf("the owner's lab:python does not count: %+v, %v", p, err)
	}
	for name, want := range map[string]string{
		"python": "did you mean lab:python?", "lab:pyhton": "did you mean lab:python?", "team:smal": "did you mean team:small?",
		"zebra": "there are lab:text, lab:python, lab:node, lab:repo, lab:quantum, lab:evm, team:small",
	} {
		if _, err := s.Lookup(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Lookup(%q): %v, want %q", name, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"lab:python": true, "team": true, "a.b_c-1:2": true, "": false, ":": false, "a:": false, ":a": false, "a:b:c": false, "A": false, "-a": false, "a b": false, "a/b": false,
		strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
	} {
		if got := profileName(name); got != want {
			t.Errorf("profileName(%q) = %v", name, got)
		}
	}
	for name, want := range map[string]bool{"A": true, "_a1": true, "1a": false, "": false, "A=B": false, "A-B": false, "Ä": false} {
		if got := IsEnvName(name); got != want {
			t.Errorf("IsEnvName(%q) = %v", name, got)
		}
	}
}

func TestLimitsJSON(t *testing.T) {
	want := Limits{Timeout: 1500 * time.Millisecond, MemoryBytes: 5, CPUs: 0.5, Processes: 3, WorkspaceBytes: 7, TmpBytes: 8, ShmBytes: 9, OutputBytes: 10}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"timeout_ms":1500,"memory_bytes":5,"cpus":0.5,"processes":3,"workspace_bytes":7,"tmp_bytes":8,"shm_bytes":9,"output_bytes":10}`
	if string(data) != text {
		t.Errorf("got %s, want %s", data, text)
	}
	var got Limits
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if data, err = json.Marshal(Limits{Timeout: 1}); err != nil || string(data) != `{"timeout_ms":1}` {
		t.Errorf("a set timeout reads as unset: %s, %v", data, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range builtinNames {
		data, err := builtinFiles.ReadFile("builtin/" + strings.ReplaceAll(name, ":", "-") + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("from: lab:text\nmax: {memory: 1e9GiB, timeout: -5s, cpus: nan}\nenv: {A: [1]}"))
	f.Add([]byte("image: \xff\nsummary: \"\\xff \\u2028\\x85\"\nenv: {A: \"\\0\", B: '\xc3\x28'}\ndirs: [\"a\\nb\", \"\\U0001f9f5\"]\nmax: {timeout: 1ns, cpus: 1e-300, memory: 1.9B}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("x", "f.yaml", data)
		if err != nil {
			return
		}
		l := p.Limits
		if p.Image == "" || l.Timeout <= 0 || l.MemoryBytes <= 0 || l.CPUs <= 0 || l.Processes <= 0 || l.WorkspaceBytes <= 0 || l.TmpBytes <= 0 || l.ShmBytes <= 0 || l.OutputBytes <= 0 {
			t.Errorf("accepted an unusable profile: %+v", p)
		}
		if p.Network != NetworkDeny && p.Network != NetworkLoopback && p.Network != NetworkLocalFork {
			t.Errorf("accepted network %q", p.Network)
		}
		text := p.YAML()
		d, root := strictyaml.Open("again.yaml", []byte(text))
		again := ReadAll(d, root)
		if err := d.Err(); err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		if diff := cmp.Diff([]Profile{p}, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("what YAML writes of it is read as another, -it +other:\n%s\n%s", diff, text)
		}
	})
}

func TestEndpoint(t *testing.T) {
	for url, want := range map[string]string{
		"http://127.0.0.1:3100/v1": "http:service.silk.internal:3100 127.0.0.1 http://service.silk.internal:3100/v1",
		"http://localhost:3100":    "http:service.silk.internal:3100 127.0.0.1 http://service.silk.internal:3100",
		"http://[::1]:80":          "http:service.silk.internal:80 ::1 http://service.silk.internal:80",
		"https://api.example/x/":   "tls:api.example:443 invalid IP https://api.example:443/x/",
		"http://API.test":          "http:api.test:80 invalid IP http://API.test:80",
	} {
		e, err := Service{URL: url}.Endpoint()
		if got := e.Rule.String() + " " + e.Addr.String() + " " + e.URL; got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", url, got, err, want)
		}
	}
}

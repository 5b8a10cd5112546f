package profile

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/nearest"
	"github.com/silk-sandbox/silk/internal/strictyaml"
)

// profileName says whether s is one or two words of lower-case letters, digits, dots, underscores and hyphens, with a
// colon between. (A regular expression would be compiled at each start of silk.)
func profileName(s string) bool {
	first, second, two := strings.Cut(s, ":")
	return nameWord(first) && (!two || nameWord(second))
}

func nameWord(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// IsEnvName reports whether every shell can read a variable of that name (POSIX.1-2017 section 8.1).
func IsEnvName(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Parse reads one profile from YAML. name is what it is called; file stands in messages. An error is a
// [*strictyaml.Error] with every fault and its line.
func Parse(name, file string, data []byte) (Profile, error) {
	d, root := strictyaml.Open(file, data)
	p := Read(d, name, root)
	if err := d.Err(); err != nil {
		return Profile{}, err
	}
	return p, nil
}

// ReadAll reads a mapping of names to profiles, as the configuration file has one under `profiles:`. Faults go to d.
func ReadAll(d *strictyaml.Decoder, n strictyaml.Node) []Profile {
	var all []Profile
	d.Entries(n, "profiles", func(name string, at, value strictyaml.Node) {
		if !profileName(name) {
			d.Fail(at, "profile name %q is not like lab:name (lower-case letters, digits, . _ -)", name)
			return
		}
		all = append(all, Read(d, name, value))
	})
	return all
}

// Read reads one profile. Its faults go to d, and what it returns then is not to be used.
//
// `from: NAME` starts from a built-in profile, and what the new one says replaces it key by key (env entry by entry);
// without it the profile starts from [Defaults], [DefaultEnv] and network deny, and must name an image.
func Read(d *strictyaml.Decoder, name string, n strictyaml.Node) Profile {
	p := Profile{Name: name, Language: "sh", Network: NetworkDeny, Limits: Defaults, Env: DefaultEnv}
	// from decides what the other keys are laid over, wherever it stands.
	var scratch strictyaml.Decoder // what is wrong with the mapping itself, Fields says below
	scratch.Entries(n, "profile "+name, func(key string, _, value strictyaml.Node) {
		if key == "from" {
			p = readFrom(d, name, value)
		}
	})
	p.Env = maps.Clone(p.Env)
	p.Ignore = slices.Clone(p.Ignore)

	d.Fields(n, "profile "+name, map[string]func(strictyaml.Node){
		"from":       func(strictyaml.Node) {},
		"summary":    func(v strictyaml.Node) { p.Summary = d.Text(v, "summary") },
		"image":      func(v strictyaml.Node) { p.Image = d.Text(v, "image") },
		"language":   func(v strictyaml.Node) { p.Language = readLanguage(d, v) },
		"network":    func(v strictyaml.Node) { p.Network = readNetwork(d, v) },
		"hosts":      func(v strictyaml.Node) { p.Hosts = readHosts(d, v) },
		"service":    func(v strictyaml.Node) { p.Service = readService(d, v) },
		"on_refused": func(v strictyaml.Node) { p.OnRefused = readOnRefused(d, v) },
		"limits":     func(v strictyaml.Node) { p.Limits = ReadLimits(d, "limits", v).Or(p.Limits) },
		"max":        func(v strictyaml.Node) { p.Max = ReadLimits(d, "max", v).Or(p.Max) },
		"env":        func(v strictyaml.Node) { readEnv(d, v, p.Env) },
		"dirs":       func(v strictyaml.Node) { p.Dirs = readNames(d, "dirs", v) },
		"ignore":     func(v strictyaml.Node) { p.Ignore = append(p.Ignore, readNames(d, "ignore", v)...) },
	})
	if p.Image == "" {
		d.Fail(n, "profile %s names no image; add image: or from:", name)
	}
	if (len(p.Hosts) > 0) != (p.Network == NetworkAllowlist) {
		d.Fail(n, "profile %s has network %s and %d hosts; hosts are for network: allowlist, which needs some", name, p.Network, len(p.Hosts))
	}
	if p.Service != nil && p.Network != NetworkDeny {
		d.Fail(n, "profile %s has network %s and a service; a service is what network: deny lets through, beside hosts it is one of them", name, p.Network)
	}
	p.Ignore = append(p.Ignore, CommonIgnore...)
	for _, dir := range p.Dirs {
		p.Ignore = append(p.Ignore, filepath.Base(dir))
	}
	slices.Sort(p.Ignore)
	p.Ignore = slices.Compact(p.Ignore)
	return p
}

func readFrom(d *strictyaml.Decoder, name string, n strictyaml.Node) Profile {
	from := d.Text(n, "from")
	base, err := (*Set)(nil).Lookup(from)
	if err != nil {
		hint := ""
		if near := nearest.To(from, builtinNames); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		d.Fail(n, "from names %q, which is not a built-in profile%s", from, hint)
		return Profile{Name: name, Image: from, Language: "sh", Network: NetworkDeny, Limits: Defaults, Env: DefaultEnv}
	}
	base.Name = name
	return base
}

func readLanguage(d *strictyaml.Decoder, n strictyaml.Node) string {
	name := d.Text(n, "language")
	if l, ok := LanguageNamed(name); ok {
		return l.Name
	}
	d.Fail(n, "language %q is not known; known: %s", name, strings.Join(LanguageNames(), ", "))
	return name
}

func readNetwork(d *strictyaml.Decoder, n strictyaml.Node) string {
	mode := d.Text(n, "network")
	switch mode {
	case NetworkDeny, NetworkLoopback, NetworkLocalFork, NetworkAllowlist:
	case NetworkAllow: // each run with it takes an approval of its own
		d.Fail(n, "network allow is not for profiles; name hosts, or let a request ask for it")
	default:
		d.Fail(n, "network %q is not deny, loopback, local-fork or allowlist", mode)
	}
	return mode
}

// readHosts reads the hosts of an allow-list.
func readHosts(d *strictyaml.Decoder, n strictyaml.Node) []string {
	hosts := d.Texts(n, "hosts")
	for i, text := range hosts {
		rule, err := egress.ParseRule(text)
		if err != nil {
			d.Fail(n, "hosts: %v", err)
			continue
		}
		hosts[i] = rule.String()
	}
	return hosts
}

func readService(d *strictyaml.Decoder, n strictyaml.Node) *Service {
	var s Service
	d.Fields(n, "service", map[string]func(strictyaml.Node){
		"variable": func(v strictyaml.Node) { s.Variable = d.Text(v, "service: variable") },
		"url":      func(v strictyaml.Node) { s.URL = d.Text(v, "service: url") },
	})
	if !IsEnvName(s.Variable) {
		d.Fail(n, "service: variable %q is not the name of an environment variable", s.Variable)
	}
	if _, err := s.Endpoint(); err != nil {
		d.Fail(n, "%v", err)
	}
	return &s
}

func readOnRefused(d *strictyaml.Decoder, n strictyaml.Node) string {
	what := d.Text(n, "on_refused")
	if what != RefusedGoesOn && what != RefusedKills {
		d.Fail(n, "on_refused %q is not %s or %s", what, RefusedGoesOn, RefusedKills)
	}
	return what
}

// ReadLimits reads a mapping of limits, as a profile and the configuration file (under `grants: max:`) have one. Faults go
// to d.
func ReadLimits(d *strictyaml.Decoder, what string, n strictyaml.Node) Limits {
	var l Limits
	size := func(dst *int64) func(strictyaml.Node) {
		return func(v strictyaml.Node) { *dst = read(d, v, ParseBytes) }
	}
	d.Fields(n, what, map[string]func(strictyaml.Node){
		"timeout":   func(v strictyaml.Node) { l.Timeout = read(d, v, ParseTimeout) },
		"memory":    size(&l.MemoryBytes),
		"cpus":      func(v strictyaml.Node) { l.CPUs = read(d, v, ParseCPUs) },
		"processes": func(v strictyaml.Node) { l.Processes = read(d, v, ParseProcesses) },
		"workspace": size(&l.WorkspaceBytes),
		"tmp":       size(&l.TmpBytes),
		"shm":       size(&l.ShmBytes),
		"output":    size(&l.OutputBytes),
	})
	return l
}

func read[T any](d *strictyaml.Decoder, n strictyaml.Node, parse func(string) (T, error)) T {
	v, err := parse(d.Text(n, "a limit"))
	if err != nil {
		d.Fail(n, "%v", err)
	}
	return v
}

// ParseProcesses reads a number of processes and threads: 1 to MaxProcesses.
func ParseProcesses(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxProcesses {
		return 0, fmt.Errorf("%q is not a number of processes between 1 and %d", text, MaxProcesses)
	}
	return n, nil
}

func readEnv(d *strictyaml.Decoder, n strictyaml.Node, env map[string]string) {
	d.Entries(n, "env", func(key string, at, value strictyaml.Node) {
		if !IsEnvName(key) {
			d.Fail(at, "%q is not the name of an environment variable", key)
		}
		if value.Absent() {
			env[key] = ""
			return
		}
		env[key] = d.Text(value, "the value of "+key)
	})
}

func readNames(d *strictyaml.Decoder, what string, n strictyaml.Node) []string {
	names := d.Texts(n, what)
	for _, name := range names {
		if name != filepath.Base(name) || name == "." || name == ".." || name == "" {
			d.Fail(n, "%s has %q, which is not a plain file name", what, name)
		}
	}
	return names
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/retention"
)

// config is what the configuration file says. Every key may be left out.
type config struct {
	file        string // where it was read from; empty: there is none
	home        string
	systemStore string
	profiles    *profile.Set
	grants      policy.Grants
	mirror      string
	npmRegistry string
	alerts      alertConfig
	audit       audit.Policy
	retention   retention.Policy
	watch       bool // the host's kernel watches besides
	mustWatch   bool // and without it nothing runs
	serve       serveConfig
	handoffs    handoffsConfig
	notes       notesConfig
	egress      egressConfig
	skills      skillsConfig
	docker      dockerConfig
	records     recordsConfig
}

// loadConfig reads the one configuration file that counts: --config, else $SILK_CONFIG, else the user's, else the host's.
// A file that was named must be there.
func (a *app) loadConfig() (config, error) {
	named := a.configFlag
	if named == "" {
		named = a.env("SILK_CONFIG")
	}
	candidates := []string{named}
	if named == "" {
		candidates = []string{"/etc/silk/config.yaml"}
		if dir := a.userDir("XDG_CONFIG_HOME", ".config"); dir != "" {
			candidates = []string{filepath.Join(dir, "silk", "config.yaml"), "/etc/silk/config.yaml"}
		}
	}
	for _, file := range candidates {
		data, err := os.ReadFile(file)
		switch {
		case err == nil:
			return parseConfig(file, data)
		case named == "" && errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, fs.ErrNotExist):
			return config{}, missingf("there is no configuration file %s", file)
		default:
			return config{}, fmt.Errorf("read configuration: %w", err)
		}
	}
	return config{profiles: profile.NewSet(), serve: defaultServe()}, nil
}

func parseConfig(file string, data []byte) (config, error) {
	c := config{file: file, serve: defaultServe()}
	var profiles []profile.Profile
	d, root := strictyaml.Open(file, data)
	d.Fields(root, "the configuration", map[string]func(strictyaml.Node){
		"home":          func(n strictyaml.Node) { c.home = absolute(d, n, "home") },
		"system_store":  func(n strictyaml.Node) { c.systemStore = absolute(d, n, "system_store") },
		"profiles":      func(n strictyaml.Node) { profiles = profile.ReadAll(d, n) },
		"grants":        func(n strictyaml.Node) { readGrants(d, n, &c.grants) },
		"mirror":        func(n strictyaml.Node) { c.mirror = d.Text(n, "mirror") },
		"npm_registry":  func(n strictyaml.Node) { c.npmRegistry = d.Text(n, "npm_registry") },
		"alerts":        func(n strictyaml.Node) { c.alerts = readAlerts(d, n) },
		"watch":         func(n strictyaml.Node) { c.watch = readBool(d, n, "watch") },
		"require_watch": func(n strictyaml.Node) { c.mustWatch = readBool(d, n, "require_watch") },
		"serve":         func(n strictyaml.Node) { c.serve = readServe(d, n) },
		"handoffs":      func(n strictyaml.Node) { c.handoffs = readHandoffs(d, n) },
		"audit":         func(n strictyaml.Node) { c.audit = readAudit(d, n) },
		"retention":     func(n strictyaml.Node) { c.retention = readRetention(d, n) },
		"notes":         func(n strictyaml.Node) { c.notes = readNotes(d, n) },
		"skills":        func(n strictyaml.Node) { c.skills = readSkills(d, n) },
		"records":       func(n strictyaml.Node) { c.records = readRecords(d, n) },
		"docker":        func(n strictyaml.Node) { c.docker = readDocker(d, n) },
		"egress":        func(n strictyaml.Node) { c.egress = readEgress(d, n, &c.grants) },
	})
	if err := d.Err(); err != nil {
		return config{}, err
	}
	c.profiles = profile.NewSet(profiles...)
	return c, nil
}

func readGrants(d *strictyaml.Decoder, n strictyaml.Node, g *policy.Grants) {
	d.Fields(n, "grants", map[string]func(strictyaml.Node){
		"max":   func(v strictyaml.Node) { g.Max = profile.ReadLimits(d, "grants: max", v) },
		"hosts": func(v strictyaml.Node) { g.Hosts = readRules(d, v, "grants: hosts") },
		"stores": func(v strictyaml.Node) {
			g.Stores = d.Texts(v, "grants: stores")
			for _, s := range g.Stores {
				if !filepath.IsAbs(s) || filepath.Clean(s) != s {
					d.Fail(v, "grants: stores has %q, which is not a plain absolute path", s)
				}
			}
		},
	})
}

func absolute(d *strictyaml.Decoder, n strictyaml.Node, what string) string {
	s := d.Text(n, what)
	if !filepath.IsAbs(s) {
		d.Fail(n, "%s is %q, which is not an absolute path", what, s)
	}
	return filepath.Clean(s)
}

// home is the state directory, absolute. It is not made.
func (a *app) home(c config) (string, error) {
	home := a.homeFlag
	if home == "" {
		home = a.env("SILK_HOME")
	}
	if home == "" {
		home = c.home
	}
	if home == "" && os.Geteuid() == 0 && runtime.GOOS == "linux" {
		home = rootHome
	}
	if home == "" {
		dir := a.userDir("XDG_DATA_HOME", ".local/share")
		if dir == "" {
			return "", usagef("neither HOME nor SILK_HOME is set; name a state directory with --home")
		}
		home = filepath.Join(dir, "silk")
	}
	return filepath.Abs(home)
}

// rootHome is root's state directory. Others find images there.
const rootHome = "/var/lib/silk"

// makeHome makes the state directory. Root's may be read by others, for its images: what is private in it is private on its
// own.
func makeHome(home string) error {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	if err := os.MkdirAll(home, mode); err != nil {
		return &hostError{fmt.Errorf("make state directory (choose another one with --home or SILK_HOME): %w", err)}
	}
	return nil
}

// userDir is an XDG base directory of the user, or "" if the user has no home.
func (a *app) userDir(variable, below string) string {
	if dir := a.env(variable); filepath.IsAbs(dir) {
		return dir
	}
	if home := a.env("HOME"); home != "" {
		return filepath.Join(home, below)
	}
	return ""
}

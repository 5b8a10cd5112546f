// Package install puts an entry for a server of the Model Context Protocol into the configuration files of agents.
//
// [Agents] are those that it knows. [Plan] reads the file of one and says what it would become; nothing in it is lost or written
// anew but the entry itself: its order, its comments (of TOML), its white space and what it does not understand stay byte for byte.
// A file that it cannot read is left alone, with an error that has the entry for people to paste. [Change.Apply] writes the file
// at once and whole, unless it is another one by then.
package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// Name is that of the entry.
const Name = "silk"

// Server is what an agent starts, or speaks to.
type Server struct {
	Command string   // absolute path of the executable
	Args    []string // its arguments
	Env     map[string]string
}

// Agent is a program that has a configuration file for servers.
type Agent struct {
	Name  string // as the user types it
	Title string

	// Project says that the file is in a directory, a checkout or a vault, in place of the user's own.
	Project bool

	file  func(p Places) string
	skill func(p Places) string // folder of skills; nil: it has none
	keys  []string              // of the object with the servers
	typed bool                  // an entry says that it is a program: "type": "stdio"
	toml  bool
}

// Places are the directories that files lie in.
type Places struct {
	Home    string // of the user
	Config  string // os.UserConfigDir
	Project string // of a checkout or vault, for agents with Project
	Env     func(string) string
}

func under(parts ...string) func(Places) string {
	return func(p Places) string { return filepath.Join(append([]string{p.Home}, parts...)...) }
}

func inProject(parts ...string) func(Places) string {
	return func(p Places) string { return filepath.Join(append([]string{p.Project}, parts...)...) }
}

// Agents are all that are known. The places are those of the agents' own documentation, read in November 2026.
var Agents = []Agent{
	{Name: "claude-code", Title: "Claude Code, in every project", file: under(".claude.json"), skill: under(".claude", "skills"), keys: []string{"mcpServers"}, typed: true},
	{Name: "claude-code-project", Title: "Claude Code, in one project (.mcp.json)", Project: true, file: inProject(".mcp.json"), skill: inProject(".claude", "skills"), keys: []string{"mcpServers"}, typed: true},
	{Name: "claude-desktop", Title: "Claude Desktop", file: func(p Places) string { return filepath.Join(p.Config, "Claude", "claude_desktop_config.json") }, keys: []string{"mcpServers"}},
	{Name: "claudian", Title: "Claudian, in one vault (.claude/mcp.json)", Project: true, file: inProject(".claude", "mcp.json"), skill: inProject(".claude", "skills"), keys: []string{"mcpServers"}},
	{Name: "codex", Title: "Codex", file: func(p Places) string {
		if dir := p.Env("CODEX_HOME"); dir != "" {
			return filepath.Join(dir, "config.toml")
		}
		return filepath.Join(p.Home, ".codex", "config.toml")
	}, skill: func(p Places) string {
		if dir := p.Env("CODEX_HOME"); dir != "" {
			return filepath.Join(dir, "skills")
		}
		return filepath.Join(p.Home, ".codex", "skills")
	}, keys: []string{"mcp_servers"}, toml: true},
	{Name: "cursor", Title: "Cursor", file: under(".cursor", "mcp.json"), keys: []string{"mcpServers"}},
	{Name: "gemini", Title: "Gemini CLI", file: under(".gemini", "settings.json"), keys: []string{"mcpServers"}},
	{Name: "vscode", Title: "Visual Studio Code", file: func(p Places) string { return filepath.Join(p.Config, "Code", "User", "mcp.json") }, keys: []string{"servers"}, typed: true},
}

// Named returns the agent with a name.
func Named(name string) (Agent, bool) {
	i := slices.IndexFunc(Agents, func(a Agent) bool { return a.Name == name })
	if i < 0 {
		return Agent{}, false
	}
	return Agents[i], true
}

// Change is what a file would become.
type Change struct {
	Agent Agent
	File  string
	Old   []byte // nil: there is no file
	New   []byte

	mode fs.FileMode
}

// Same says whether the entry is there already.
func (c Change) Same() bool { return c.Old != nil && bytes.Equal(c.Old, c.New) }

// PlanSkill says what a skill of the agent becomes: the file SKILL.md in a folder of that name. Without one, ok is false.
func PlanSkill(a Agent, p Places, name string, text []byte) (c Change, ok bool, err error) {
	if a.skill == nil {
		return Change{}, false, nil
	}
	c = Change{Agent: a, File: filepath.Join(a.skill(p), name, "SKILL.md"), New: text, mode: 0o644}
	if c.Old, err = os.ReadFile(c.File); errors.Is(err, fs.ErrNotExist) {
		c.Old, err = nil, nil
	}
	return c, true, err
}

// UnreadableError says that a file is not one that an entry can be put into.
type UnreadableError struct {
	File, Why, Entry string
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("%s: %s; it is left as it is. Put this in by hand:\n%s", e.File, e.Why, e.Entry)
}

// maxFile bounds a configuration file. Claude Code keeps the history of its projects in it.
const maxFile = 64 << 20

// Plan says what the file of an agent becomes with an entry for s. Errors: [*UnreadableError], and what keeps it from reading.
func Plan(a Agent, p Places, s Server) (Change, error) {
	c := Change{Agent: a, File: a.file(p), mode: 0o600}
	if target, err := filepath.EvalSymlinks(c.File); err == nil {
		c.File = target // people keep such files elsewhere, and link to them
	}
	info, err := os.Stat(c.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return c, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return c, &UnreadableError{c.File, "it is no file of a configuration", a.entry(s)}
	default:
		c.mode = info.Mode().Perm()
		if c.Old, err = os.ReadFile(c.File); err != nil {
			return c, err
		}
	}
	if a.toml {
		c.New, err = putTOML(c.Old, a.keys[0], Name, tomlEntry(a.keys[0], s))
	} else {
		c.New, err = putJSON(c.Old, a.keys, Name, a.value(s))
	}
	if err != nil {
		return c, &UnreadableError{c.File, err.Error(), a.entry(s)}
	}
	return c, nil
}

// value is the entry as JSON.
func (a Agent) value(s Server) []byte {
	v := struct {
		Type    string            `json:"type,omitempty"`
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env,omitempty"`
	}{Command: s.Command, Args: s.Args, Env: s.Env}
	if a.typed {
		v.Type = "stdio"
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings can be encoded
	}
	return bytes.TrimSpace(b.Bytes())
}

// entry is what people would paste.
func (a Agent) entry(s Server) string {
	if a.toml {
		return tomlEntry(a.keys[0], s)
	}
	text, err := putJSON(nil, a.keys, Name, a.value(s))
	if err != nil {
		panic(err) // nothing can be put into
	}
	return strings.TrimSpace(string(text))
}

// ErrChanged is returned by [Change.Apply]: somebody else has written the file since it was read.
var ErrChanged = errors.New("the file has changed meanwhile; try again")

// Apply writes the file, whole or not at all, with the permissions that it had, 0600 if it is new.
func (c Change) Apply() error {
	now, err := os.ReadFile(c.File)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.Old == nil:
		if err := os.MkdirAll(filepath.Dir(c.File), 0o755); err != nil {
			return fmt.Errorf("make directory for %s: %w", c.File, err)
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil, c.Old == nil, !bytes.Equal(now, c.Old):
		return fmt.Errorf("%s: %w", c.File, ErrChanged)
	}
	return atomicfile.Write(c.File, c.New, c.mode)
}

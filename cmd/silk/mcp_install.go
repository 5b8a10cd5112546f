package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/internal/nearest"
	"github.com/silk-sandbox/silk/mcp/install"
	"github.com/silk-sandbox/silk/skills"
)

// installFlags are those of `silk mcp install`.
type installFlags struct {
	agents  []string
	project string
	skill   bool
	dryRun  bool
}

func (a *app) mcpInstallCommand() *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use: "install --for AGENT", Short: "Write the entry for silk mcp into an agent's configuration file", Args: needArgs(0, 0, "no arguments"),
		Long: "Write the entry for silk mcp into an agent's configuration file. Everything else in the file stays as it is, and one that\n" +
			"cannot be read is left alone. --server, --token-file, --fingerprint, --home and --config become a part of the entry.\n\nAgents:\n" + agentList(),
		Example: `  silk mcp install --for claude-code
  silk mcp install --for codex --dry-run
  silk mcp install --for claudian --project ~/vault --server unix:///var/lib/silk/silk.sock`,
		RunE: func(*cobra.Command, []string) error { return a.mcpInstall(f) },
	}
	c.Flags().StringSliceVar(&f.agents, "for", nil, "`AGENT`, or several with commas")
	c.Flags().StringVar(&f.project, "project", ".", "`DIR` of the project or vault, for agents that have a file there")
	c.Flags().BoolVar(&f.skill, "skill", false, "also write the skill silk-sandbox into the agent's folder of skills, if it has one")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be written, and write nothing")
	return a.jsonFlag(c)
}

func agentList() string {
	var b strings.Builder
	for _, agent := range install.Agents {
		b.WriteString("  " + agent.Name + strings.Repeat(" ", max(1, 22-len(agent.Name))) + agent.Title + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// installAnswer is one agent in the JSON of `silk mcp install`.
type installAnswer struct {
	Agent   string `json:"agent"`
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Written bool   `json:"written"`
	Text    string `json:"text,omitempty"` // with --dry-run: what the file would be
}

func (a *app) mcpInstall(f installFlags) error {
	var agents []install.Agent
	for _, name := range f.agents {
		agent, ok := install.Named(name)
		if !ok {
			var names []string
			for _, known := range install.Agents {
				names = append(names, known.Name)
			}
			if near := nearest.To(name, names); near != "" {
				return usagef("--for %s is no known agent; did you mean %s?", printable(name), near)
			}
			return usagef("--for %s is no known agent; there are %s", printable(name), strings.Join(names, ", "))
		}
		agents = append(agents, agent)
	}
	if len(agents) == 0 {
		return usagef("name an agent with --for:\n%s", agentList())
	}
	places, err := a.places(f.project)
	if err != nil {
		return err
	}
	server, err := a.mcpEntry()
	if err != nil {
		return err
	}
	answers := []installAnswer{}
	var faults []error
	for _, agent := range agents {
		done, err := installFor(agent, places, server, f)
		var unread *install.UnreadableError
		if errors.As(err, &unread) {
			err = usagef("%v", err)
		}
		faults = append(faults, err)
		answers = append(answers, done...)
		for _, answer := range done {
			if !a.json {
				faults = append(faults, a.sayInstalled(answer))
			}
		}
	}
	if a.json && len(answers) > 0 {
		faults = append(faults, a.printJSON(answers))
		a.json = false // the rest is said on stderr
	}
	return errors.Join(faults...)
}

// installFor writes the files of one agent, and says what it wrote. One that cannot be written does not keep the other from it.
func installFor(agent install.Agent, places install.Places, server install.Server, f installFlags) (done []installAnswer, err error) {
	var errs []error
	write := func(c install.Change, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		answer := installAnswer{Agent: agent.Name, File: c.File, Changed: !c.Same()}
		switch {
		case f.dryRun:
			answer.Text = string(c.New)
		case answer.Changed:
			if err := c.Apply(); err != nil {
				errs = append(errs, err)
				return
			}
			answer.Written = true
		}
		done = append(done, answer)
	}
	write(install.Plan(agent, places, server))
	if f.skill {
		if c, ok, err := install.PlanSkill(agent, places, skills.SandboxName, skills.Sandbox); ok || err != nil {
			write(c, err)
		}
	}
	return done, errors.Join(errs...)
}

func (a *app) sayInstalled(answer installAnswer) error {
	switch {
	case !answer.Changed:
		return a.print("%s: %s is as it should be", answer.Agent, printable(answer.File))
	case answer.Written:
		return a.print("%s: written to %s; start the agent again", answer.Agent, printable(answer.File))
	}
	return a.print("%s: %s would be\n%s", answer.Agent, printable(answer.File), strings.TrimSuffix(answer.Text, "\n"))
}

// places are where configuration files of agents lie.
func (a *app) places(project string) (install.Places, error) {
	p := install.Places{Env: a.env}
	var err error
	if p.Home, err = os.UserHomeDir(); err != nil {
		return p, usagef("there is no home directory: %v", err)
	}
	if p.Config, err = os.UserConfigDir(); err != nil {
		return p, usagef("there is no directory for configuration: %v", err)
	}
	if p.Project, err = filepath.Abs(project); err != nil {
		return p, err
	}
	return p, nil
}

// mcpEntry is the call of silk mcp that an agent makes: as this one, whatever the agent's working directory and environment are.
func (a *app) mcpEntry() (install.Server, error) {
	exe, err := os.Executable()
	if err != nil {
		return install.Server{}, err
	}
	s := install.Server{Command: calledSilk(exe), Args: []string{"mcp"}}
	for _, flag := range []struct {
		name, value string
		path        bool
	}{
		{"--home", or(a.homeFlag, a.env("SILK_HOME")), true},
		{"--config", or(a.configFlag, a.env("SILK_CONFIG")), true},
		{"--server", a.serverURL(), false},
		{"--token-file", or(a.remote.tokenFile, a.env("SILK_TOKEN_FILE")), true},
		{"--fingerprint", or(a.remote.fingerprint, a.env("SILK_FINGERPRINT")), false},
	} {
		if flag.value == "" {
			continue
		}
		if flag.path {
			if flag.value, err = filepath.Abs(flag.value); err != nil {
				return s, err
			}
		}
		s.Args = append(s.Args, flag.name, flag.value)
	}
	if a.env("SILK_TOKEN") != "" {
		return s, usagef("the token of $SILK_TOKEN would have to be in the agent's file, where everybody looks; put it into a file and name it with --token-file")
	}
	return s, nil
}

// calledSilk is the silk beside the server's executable, which an update may replace; agents call that.
func calledSilk(exe string) string {
	dir, name := filepath.Split(exe)
	plain := strings.Replace(name, "silk-server", "silk", 1)
	for _, path := range []string{filepath.Join(dir, plain), filepath.Join(dir, "..", "..", "bin", plain)} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return exe
}

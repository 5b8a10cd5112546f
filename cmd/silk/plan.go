package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/driver/promise"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
)

func (a *app) planCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "plan [FILE|-] [-- ARGV...]",
		Short: "Show what silk run would do, without doing it",
		Long: `Show what silk run with the same flags would do: the image, the limits, the network, the mounts, what was granted, and
what this host cannot enforce. Nothing is run. The hash names the plan, for --approve.`,
		Example: `  silk plan hello.py
  silk plan --dir . -p lab:repo --memory 8GiB -- make test
  silk plan --net loopback -p lab:python -c 'print(1)' --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.plan(&f, cmd, args) },
	}
	f.add(a, c)
	return a.jsonFlag(c)
}

// planAnswer is the JSON of `silk plan`.
type planAnswer struct {
	Hash string `json:"hash"`
	run.Preview
	Enforced []policy.Enforcement `json:"enforced"` // what ends the run, and what fails in it
}

func (a *app) plan(f *runFlags, cmd *cobra.Command, args []string) error {
	h, err := a.openHost(f.requireWatch)
	if err != nil {
		return err
	}
	if err := h.knownDriver(f.driver); err != nil {
		return err
	}
	req, err := f.request(a, h.config, cmd, args)
	if err != nil {
		return err
	}
	engine, err := a.engine(h)
	if err != nil {
		return err
	}
	preview, err := engine.Plan(a.ctx, req)
	err = errors.Join(err, engine.Close())
	if err != nil && preview.Plan.Profile == "" { // refused whoever approves
		return err
	}
	answer := planAnswer{Hash: preview.Plan.Hash(), Preview: preview, Enforced: policy.Enforced(preview.Plan)}
	if answer.Notes == nil {
		answer.Notes = []string{}
	}
	if a.json {
		if printErr := a.printJSON(answer); printErr != nil {
			return printErr
		}
		a.json = false // the refusal goes to stderr: stdout has its one value
		return err
	}
	if printErr := a.printPlan(answer); printErr != nil {
		return printErr
	}
	return err
}

func (a *app) printPlan(p planAnswer) error {
	l := p.Plan.Limits
	rows := [][2]string{
		{"profile", p.Plan.Profile},
		{"image", p.Plan.Image + tail(" ", p.Image)},
		{"driver", or(p.Driver, p.Plan.Driver)},
		{"command", commandText(p.Plan)},
		{"time", profile.FormatTimeout(l.Timeout)},
		{"memory", profile.FormatBytes(l.MemoryBytes)},
		{"processors", fmt.Sprint(l.CPUs)},
		{"processes", processesText(p.Plan)},
		{"writable", fmt.Sprintf("/workspace %s, /tmp %s and /dev/shm %s (both noexec)", profile.FormatBytes(l.WorkspaceBytes), profile.FormatBytes(l.TmpBytes), profile.FormatBytes(l.ShmBytes))},
		{"output kept", profile.FormatBytes(l.OutputBytes) + " of stdout and of stderr"},
		{"network", networkText(p.Plan)},
		{"stdin", map[bool]string{true: "passed on", false: "at its end"}[p.Plan.Stdin || p.Plan.Terminal]},
	}
	rows = append(rows, egressRows(p.Plan.Egress)...)
	if p.Plan.HostDir != "" {
		rows = append(rows, [2]string{"copied in", printable(p.Plan.HostDir)})
	}
	for _, f := range p.Plan.Files {
		rows = append(rows, [2]string{"copied in", printable(f)})
	}
	for _, m := range p.Plan.Mounts {
		rows = append(rows, [2]string{"mounted", printable(m.Source) + " on " + printable(m.Target) + ", read-only"})
	}
	for _, e := range p.Enforced {
		if e.Rule != "" {
			rows = append(rows, [2]string{"ends the run", e.What + " (" + e.Rule + ")"})
		} else {
			rows = append(rows, [2]string{"fails", e.What})
		}
	}
	for _, g := range p.Plan.Grants {
		rows = append(rows, [2]string{"granted", g})
	}
	kept, _, _ := promise.Kept(p.Driver, os.Geteuid() == 0)
	for _, line := range kept {
		rows = append(rows, [2]string{"promise", line})
	}
	for _, n := range p.Notes {
		rows = append(rows, [2]string{"note", n})
	}
	rows = append(rows, [2]string{"hash", p.Hash})
	for i, e := range p.Plan.Env { // last, as it is long and seldom what is looked for
		rows = append(rows, [2]string{map[bool]string{true: "environment"}[i == 0], printable(e)})
	}
	for _, r := range rows {
		if err := a.print("%-12s %s", r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

func commandText(p policy.Plan) string {
	words := p.Args
	if p.Compile && len(words) > 5 { // sh -c SCRIPT compile N ...
		n, err := strconv.Atoi(words[4])
		if at := 5 + n; err == nil && n >= 0 && at <= len(words) {
			return run.CommandLine(words[5:at]) + ", then " + run.CommandLine(words[at:])
		}
	}
	return run.CommandLine(words)
}

// egressRows say what the owner's configuration adds to the hosts.
func egressRows(e *policy.Egress) (rows [][2]string) {
	if e == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(e.Addrs)) {
		rows = append(rows, [2]string{"leads", name + " to " + e.Addrs[name]})
	}
	for _, target := range e.Targets {
		rows = append(rows, [2]string{"may lead", "to " + target + ", of the public internet or not"})
	}
	for _, secret := range e.Secrets {
		rows = append(rows, [2]string{"secret", secret + ", added to requests; the program has a placeholder"})
	}
	return rows
}

func processesText(p policy.Plan) string {
	if p.NoSpawn {
		return fmt.Sprintf("threads only, at most %d", p.Limits.Processes)
	}
	return fmt.Sprintf("at most %d, threads included", p.Limits.Processes)
}

func networkText(p policy.Plan) string {
	switch {
	case p.Network == profile.NetworkDeny && p.Egress != nil:
		return "deny, but for the service " + strings.Join(p.Hosts, ", ")
	case p.Network == profile.NetworkDeny:
		return "deny: no INET socket can be made"
	case p.Network == profile.NetworkAllow:
		return "allow: the public internet"
	case p.Network == profile.NetworkLoopback:
		return "loopback: 127.0.0.0/8 and ::1 inside the sandbox"
	}
	return p.Network + tail(": ", strings.Join(p.Hosts, ", "))
}

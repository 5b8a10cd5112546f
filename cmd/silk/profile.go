package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/profile"
)

func (a *app) profileCommand() *cobra.Command {
	ls := &cobra.Command{
		Use: "ls", Short: "List the profiles", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk profile ls --json",
		RunE:    func(*cobra.Command, []string) error { return a.profileList() },
	}
	show := &cobra.Command{
		Use: "show NAME", Short: "Show a profile's image, limits and environment", Args: needArgs(1, 1, "one profile"),
		Example:           "  silk profile show lab:python",
		ValidArgsFunction: a.completeProfiles,
		RunE:              func(_ *cobra.Command, args []string) error { return a.profileShow(args[0]) },
	}
	return group("profile", "Show the named ceilings that runs get", "  silk profile ls\n  silk profile show lab:python", a.jsonFlag(ls), a.jsonFlag(show))
}

func (a *app) profileList() error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	list := []profile.Profile{}
	rows := [][]string{{"NAME", "NETWORK", "TIME", "MEMORY", "LANGUAGES", "SUMMARY"}}
	for _, name := range c.profiles.Names() {
		p, err := c.profiles.Lookup(name)
		if err != nil {
			return err
		}
		list = append(list, p)
		rows = append(rows, []string{p.Name, p.Network, profile.FormatTimeout(p.Limits.Timeout), profile.FormatBytes(p.Limits.MemoryBytes), languagesOf(name), p.Summary})
	}
	if a.json {
		return a.printJSON(list)
	}
	return a.table(rows)
}

func languagesOf(name string) string {
	var names []string
	for _, l := range profile.Languages() {
		if l.Profile == name {
			names = append(names, l.Name)
		}
	}
	return strings.Join(names, ",")
}

func (a *app) profileShow(name string) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	p, err := c.profiles.Lookup(name)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(p)
	}
	rows := [][]string{
		{"name", p.Name}, {"summary", p.Summary}, {"image", p.Image}, {"language", p.Language}, {"network", p.Network},
	}
	top := p.Max.Or(p.Limits)
	for _, l := range []struct{ name, base, top string }{
		{"timeout", profile.FormatTimeout(p.Limits.Timeout), profile.FormatTimeout(top.Timeout)},
		{"memory", profile.FormatBytes(p.Limits.MemoryBytes), profile.FormatBytes(top.MemoryBytes)},
		{"cpus", fmt.Sprint(p.Limits.CPUs), fmt.Sprint(top.CPUs)},
		{"processes", fmt.Sprint(p.Limits.Processes), fmt.Sprint(top.Processes)},
		{"workspace", profile.FormatBytes(p.Limits.WorkspaceBytes), profile.FormatBytes(top.WorkspaceBytes)},
		{"tmp", profile.FormatBytes(p.Limits.TmpBytes), profile.FormatBytes(top.TmpBytes)},
		{"shm", profile.FormatBytes(p.Limits.ShmBytes), profile.FormatBytes(top.ShmBytes)},
		{"output", profile.FormatBytes(p.Limits.OutputBytes), profile.FormatBytes(top.OutputBytes)},
	} {
		text := l.base
		if l.top != l.base {
			text += ", at most " + l.top
		}
		rows = append(rows, []string{l.name, text})
	}
	for _, key := range slices.Sorted(maps.Keys(p.Env)) {
		rows = append(rows, []string{"env", key + "=" + p.Env[key]})
	}
	rows = append(rows, []string{"no artifacts", strings.Join(p.Ignore, " ")})
	return a.table(rows)
}

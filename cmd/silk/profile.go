package main

import (
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
		Use: "show NAME", Short: "Show a profile as the configuration file would have it", Args: needArgs(1, 1, "one profile"),
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
	return a.print("%s", strings.TrimSuffix(p.YAML(), "\n"))
}

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/profile"
)

// runFlags are the flags of `silk run` and `silk plan` as written.
type runFlags struct {
	profile, language, code string
	dir                     string
	files, mounts, env      []string
	stdin                   string
	limits                  profile.Limits
	network, approve        string
	secrets                 []string
	noSpawn, deterministic  bool
	driver, isolation       string
	requireWatch            bool
	artifacts               string
	interactive, terminal   bool
	trace                   bool
	events                  bool // --events

	guessed string // the language that code got because nothing named one; set by request
}

// add declares the flags that say what is run and how.
func (f *runFlags) add(a *app, c *cobra.Command) {
	s := c.Flags()
	s.SortFlags = false
	s.StringVarP(&f.profile, "profile", "p", "", "profile `NAME`, such as lab:python (default: by the code's language, else lab:text)")
	s.StringVarP(&f.code, "code", "c", "", "`CODE` to run, instead of a file")
	s.StringVar(&f.language, "lang", "", "`LANGUAGE` of the code (default: by extension, first line or profile)")
	s.StringVar(&f.dir, "dir", "", "`DIR` to copy into /workspace; it is never written back")
	s.StringArrayVar(&f.files, "file", nil, "`FILE` to copy into /workspace (repeatable)")
	s.StringArrayVar(&f.mounts, "mount", nil, "`SRC[:DST]` to show read-only under /workspace; SRC lies in a store of the configuration (repeatable)")
	s.StringVar(&f.stdin, "stdin", "", "`FILE` to pass as stdin, - for silk's own (default: stdin is at its end)")
	s.StringArrayVar(&f.env, "env", nil, "`KEY=VALUE` for the program (repeatable); nothing of your environment is passed on")
	s.Var(&limit[time.Duration]{&f.limits.Timeout, profile.ParseTimeout, "duration"}, "timeout", "wall clock limit, such as 30s")
	s.Var(&limit[int64]{&f.limits.MemoryBytes, profile.ParseBytes, "size"}, "memory", "memory limit, such as 256MiB")
	s.Var(&limit[float64]{&f.limits.CPUs, profile.ParseCPUs, "number"}, "cpus", "processors, such as 0.5")
	s.Var(&limit[int]{&f.limits.Processes, profile.ParseProcesses, "number"}, "processes", "processes and threads at most")
	s.Var(&limit[int64]{&f.limits.WorkspaceBytes, profile.ParseBytes, "size"}, "disk", "size of /workspace, such as 1GiB")
	s.StringVar(&f.network, "net", "", "`NETWORK`: deny, loopback, HOST:PORT,... or, approved, allow (the public internet)")
	s.StringArrayVar(&f.secrets, "secret", nil, "`SECRET` as NAME@HOST:PORT/Header: requests to HOST get Header with the value of your variable NAME, which the program never has (repeatable)")
	s.StringVar(&f.approve, "approve", "", "`HASH` of the plan that you approve, as silk plan prints it: of what is run and granted, code and limits, and of the names, not the contents, of what --dir, --file and --mount bring in")
	s.BoolVar(&f.noSpawn, "no-spawn", false, "the program may start threads, but no process")
	s.BoolVar(&f.deterministic, "deterministic", false, "the same each time: clocks that start at a fixed time and stand still while the program computes, the same random numbers, one processor")
	s.StringVar(&f.driver, "driver", "", "`DRIVER` that isolates the run (default auto)")
	s.StringVar(&f.isolation, "isolation", "", "refuse anything weaker than `KIND`: microvm")
	s.BoolVar(&f.requireWatch, "require-watch", false, "refuse to run unless the host's kernel watches the sandbox besides (eBPF; needs root)")
	s.BoolVarP(&f.terminal, "tty", "t", false, "give the program a terminal")
	s.BoolVarP(&f.interactive, "interactive", "i", false, "pass stdin on, as --stdin - does")

	for flag, complete := range map[string]cobra.CompletionFunc{
		"profile": a.completeProfiles,
		"lang":    completeLanguages,
		"net":     cobra.FixedCompletions([]string{"deny", "loopback", "allow"}, cobra.ShellCompDirectiveNoFileComp),
		"driver":  cobra.FixedCompletions([]string{"auto", "gvisor", "docker", "docker/silk", "firecracker", "qemu"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(fmt.Sprintf("complete --%s: %v", flag, err)) // the flag is declared above
		}
	}
}

// networkAndHosts splits --net: a mode, or hosts for an allow-list.
func (f *runFlags) networkAndHosts() (mode string, hosts []string) {
	if !strings.ContainsAny(f.network, ":.,") { // a mode, or a host without its port, about which policy has a word
		return f.network, nil
	}
	for host := range strings.SplitSeq(f.network, ",") {
		hosts = append(hosts, strings.TrimSpace(host))
	}
	return profile.NetworkAllowlist, hosts
}

// limit is a flag whose value profile can parse.
type limit[T any] struct {
	value *T
	parse func(string) (T, error)
	kind  string
}

func (l *limit[T]) String() string { return "" } // no default of its own: the profile has it

func (l *limit[T]) Type() string { return l.kind }

func (l *limit[T]) Set(text string) error {
	v, err := l.parse(text)
	if err == nil {
		*l.value = v
	}
	return err
}

func (a *app) completeProfiles(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.loadConfig()
	if err != nil {
		c.profiles = profile.NewSet()
	}
	var list []string
	for _, name := range c.profiles.Names() {
		if p, err := c.profiles.Lookup(name); err == nil {
			list = append(list, name+"\t"+p.Summary)
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

func completeLanguages(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return languageNames(), cobra.ShellCompDirectiveNoFileComp
}

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-spec/specs-go/features"
	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/oci"
	"github.com/silk-sandbox/silk/oci/container"
)

// runtimeFlags are those that stand before the verb. Engines pass what runc knows.
type runtimeFlags struct {
	root, log, logFormat, profile string
	systemd, version              bool
}

func (a *app) runtimeCommand() *cobra.Command {
	var f runtimeFlags
	c := &cobra.Command{
		Use: "runtime", Short: "Be the OCI runtime of Docker, containerd or Kubernetes", DisableFlagsInUseLine: true, Args: cobra.ArbitraryArgs,
		Long: `Be the OCI runtime of a container engine, in the place of runc: containers of that engine are runs of silk, in a sandbox of
silk's, under a profile, with a record and audit events.

The profile is oci, unless --profile or the annotation silk.profile of a container names another one. Further annotations:
` + strings.Join(oci.Annotations(), ",\n") + `.
They ask; profile and configuration decide. docs/howto/runtime.md says how an engine is told of silk, and what its containers have and have not; silk doctor --docker writes it for Docker.`,
		Example: `  silk runtime --root /run/silk create --bundle DIR ID
  docker run --runtime silk --network none python:3 python3 -c 'print(6*7)'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.version {
				return a.print("silk-runtime version %s\nspec: %s", version, specs.Version)
			}
			if len(args) > 0 {
				return f.failed(unknownCommand(cmd, args[0]))
			}
			return cmd.Help()
		},
	}
	p := c.PersistentFlags()
	p.StringVar(&f.root, "root", "/run/silk", "`DIR` of the engine's containers")
	p.StringVar(&f.log, "log", "", "`FILE` that errors are appended to")
	p.StringVar(&f.logFormat, "log-format", "text", "`FORMAT` of that: text or json")
	p.StringVar(&f.profile, "profile", "", "`PROFILE` of containers that name none (default oci)")
	p.BoolVar(&f.systemd, "systemd-cgroup", false, "not offered: configure the engine for cgroupfs")
	c.Flags().BoolVarP(&f.version, "version", "v", false, "print the version")
	p.Bool("debug", false, "nothing: silk logs errors only")
	p.String("rootless", "", "nothing: it follows from who calls")
	p.String("criu", "", "nothing: there are no checkpoints")
	for _, name := range []string{"debug", "rootless", "criu"} {
		_ = p.MarkHidden(name) // it is there
	}
	c.AddCommand(
		a.runtimeCreateCommand(&f), a.runtimeRunCommand(&f), a.runtimeStartCommand(&f), a.runtimeStateCommand(&f), a.runtimeKillCommand(&f), a.runtimeDeleteCommand(&f),
		a.runtimeListCommand(&f), a.runtimePsCommand(&f), a.runtimeFeaturesCommand(), a.runtimeMonitorCommand(&f), a.runtimeEatCommand(),
	)
	for verb, why := range notOffered {
		c.AddCommand(&cobra.Command{
			Use: verb, Hidden: true, Short: "Not offered", Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
			RunE: func(*cobra.Command, []string) error {
				return f.failed(fmt.Errorf("silk runtime has no %s: %s", verb, why))
			},
		})
	}
	return c
}

// notOffered is what runc can do and silk does not, with the reason that people read.
var notOffered = map[string]string{
	"exec":       "a sandbox runs the one program that was decided about, and lets no other in",
	"checkpoint": "a sandbox is born for one run, and nothing of it is kept",
	"restore":    "a sandbox is born for one run, and nothing of it is kept",
	"pause":      "a run's time goes on",
	"resume":     "a run's time goes on",
	"update":     "limits are decided before a run starts",
	"events":     "the engine reads the container's control group, and silk runs show the record",
	"spec":       "it makes no bundles",
}

// verb wraps what a verb does so that its error reaches the engine.
func (f *runtimeFlags) verb(do func(args []string) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error { return f.failed(do(args)) }
}

// failed tells the engine of err, as runc does: the last line of the log is what it shows. Any failure exits with 1.
func (f *runtimeFlags) failed(err error) error {
	if err == nil {
		return nil
	}
	if end, ok := err.(*endError); ok { //nolint:errorlint // never wrapped
		return end
	}
	if f.log != "" {
		line := fmt.Sprintf("time=%q level=error msg=%q\n", time.Now().Format(time.RFC3339), err)
		if f.logFormat == "json" {
			line = string(jsonLine(map[string]string{"level": "error", "msg": err.Error(), "time": time.Now().Format(time.RFC3339)}))
		}
		if file, logErr := os.OpenFile(f.log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); logErr == nil {
			_, _ = file.WriteString(line) // it is said on stderr too
			_ = file.Close()
		}
	}
	return findingf("%v", err)
}

func (a *app) runtimeStateCommand(f *runtimeFlags) *cobra.Command {
	return &cobra.Command{
		Use: "state ID", Short: "Print the state of a container as JSON", Example: "  silk runtime state box", Args: needArgs(1, 1, "an id"),
		RunE: f.verb(func(args []string) error {
			s, err := stateOf(f.root, args[0])
			if err != nil {
				return err
			}
			answer := specs.State{Version: s.OCIVersion, ID: s.ID, Status: s.Status, Pid: s.PID, Bundle: s.Bundle, Annotations: map[string]string{}}
			for k, v := range s.Annotations {
				answer.Annotations[k] = v
			}
			if s.Status == specs.StateStopped {
				answer.Pid = 0
			}
			if s.Run != "" {
				answer.Annotations[oci.Prefix+"run"] = s.Run
			}
			return a.printJSON(answer)
		}),
	}
}

func stateOf(root, id string) (container.State, error) {
	c, err := container.At(root, id)
	if err != nil {
		return container.State{}, err
	}
	return c.State()
}

func (a *app) runtimeListCommand(f *runtimeFlags) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use: "list", Short: "List the containers below --root", Example: "  silk runtime --root /run/docker/runtime-silk/moby list", Args: needArgs(0, 0, "no arguments"),
		RunE: f.verb(func([]string) error {
			ids, err := container.List(f.root)
			if err != nil {
				return err
			}
			states := []container.State{}
			rows := [][]string{{"ID", "PID", "STATUS", "RUN", "BUNDLE"}}
			for _, id := range ids {
				s, err := stateOf(f.root, id)
				if err != nil { // removed meanwhile, or no container
					continue
				}
				states = append(states, s)
				rows = append(rows, []string{s.ID, strconv.Itoa(s.PID), string(s.Status), s.Run, printable(s.Bundle)})
			}
			if format == "json" {
				return a.printJSON(states)
			}
			return a.table(rows)
		}),
	}
	c.Flags().StringVarP(&format, "format", "f", "table", "`FORMAT`: table or json")
	return c
}

func (a *app) runtimeFeaturesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "features", Short: "Print what this runtime knows of the OCI specification", Example: "  silk runtime features", Args: needArgs(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error { return a.printJSON(runtimeFeatures()) },
	}
}

// runtimeFeatures is what engines are told: what is recognised, also where that means that it is held otherwise.
func runtimeFeatures() features.Features {
	yes, no := true, false
	return features.Features{
		OCIVersionMin: "1.0.0", OCIVersionMax: specs.Version, Hooks: []string{},
		MountOptions: []string{"bind", "rbind", "ro", "size"},
		Linux: &features.Linux{
			Namespaces:   []string{"cgroup", "ipc", "mount", "network", "pid", "uts"},
			Capabilities: []string{},
			Cgroup:       &features.Cgroup{V1: &yes, V2: &yes, Systemd: &no, SystemdUser: &no, Rdma: &no},
			Seccomp:      &features.Seccomp{Enabled: &no},
			Apparmor:     &features.Apparmor{Enabled: &no},
			Selinux:      &features.Selinux{Enabled: &no},
			IntelRdt:     &features.IntelRdt{Enabled: &no},
		},
		Annotations: map[string]string{"silk.version": version},
	}
}

// signalNumber reads what engines send: a number, or a name with or without SIG.
func signalNumber(text string) (int, error) {
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= 64 {
		return n, nil
	}
	names := []string{
		1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM",
		16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO", 30: "PWR", 31: "SYS",
	}
	if n := slices.Index(names, strings.TrimPrefix(strings.ToUpper(text), "SIG")); n > 0 {
		return n, nil
	}
	return 0, fmt.Errorf("unknown signal %q", text)
}

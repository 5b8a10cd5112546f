package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/oci"
	"github.com/silk-sandbox/silk/oci/container"
)

// createFlags are those of create and run.
type createFlags struct {
	bundle, pidFile, console string
	detach, keep             bool
}

func (o *createFlags) add(c *cobra.Command) {
	c.Flags().StringVarP(&o.bundle, "bundle", "b", ".", "`DIR` of the bundle, with its config.json")
	c.Flags().StringVar(&o.pidFile, "pid-file", "", "`FILE` that the number of the container's process is written to")
	c.Flags().StringVar(&o.console, "console-socket", "", "unix `SOCKET` that receives the main side of the container's terminal")
	for _, name := range []string{"no-pivot", "no-new-keyring", "no-subreaper"} { // runc's, about what a sandbox does not do
		c.Flags().Bool(name, false, "nothing here")
		_ = c.Flags().MarkHidden(name)
	}
}

func (a *app) runtimeCreateCommand(f *runtimeFlags) *cobra.Command {
	var o createFlags
	c := &cobra.Command{
		Use: "create ID", Short: "Make a container, whose program waits for start", Example: "  silk runtime create --bundle DIR box", Args: needArgs(1, 1, "an id"),
		RunE: f.verb(func(args []string) error {
			_, err := a.createContainer(f, o, args[0], os.Getppid())
			return err
		}),
	}
	o.add(c)
	return c
}

// created is what a monitor says when it is ready, or not to be.
type created struct {
	Error string `json:"error,omitempty"`
}

// createContainer makes the container and its monitor, and returns when the program waits for its start. engine is the process whose
// end ends the container. On error nothing is left.
func (a *app) createContainer(f *runtimeFlags, o createFlags, id string, engine int) (_ *exec.Cmd, err error) {
	if f.systemd {
		return nil, errors.New(`control groups by systemd are not offered; give the engine cgroupfs ("exec-opts": ["native.cgroupdriver=cgroupfs"] in Docker's daemon.json, SystemdCgroup = false in containerd's configuration)`)
	}
	c, err := container.At(f.root, id)
	if err != nil {
		return nil, err
	}
	bundle, spec, err := readBundle(o.bundle)
	if err != nil {
		return nil, err
	}
	var undo cleanup.Stack
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.Run(context.Background()))
		}
	}()
	if err := c.Create(); err != nil {
		return nil, err
	}
	undo.Push(func(context.Context) error {
		s, err := c.State()
		if err != nil {
			return c.Remove()
		}
		return dismantle(c, s)
	})
	state := container.State{OCIVersion: spec.Version, Status: specs.StateCreating, Bundle: bundle, Created: time.Now().UTC(), Annotations: spec.Annotations}
	var group *cgroup.Named
	if spec.Linux != nil && spec.Linux.CgroupsPath != "" {
		if group, err = makeGroup(spec.Linux.CgroupsPath); err != nil { // else it is another's, and stays
			return nil, err
		}
		state.CGroup = spec.Linux.CgroupsPath
		undo.Push(group.Remove)
	}
	if err := c.Save(state); err != nil {
		return nil, err
	}
	monitor, err := a.startMonitor(f, o, c, bundle, engine, group)
	if err != nil {
		return nil, err
	}
	if o.pidFile != "" {
		if err := atomicfile.Write(o.pidFile, []byte(strconv.Itoa(monitor.Process.Pid)), 0o644); err != nil {
			_ = monitor.Process.Kill() // it has run nothing
			_ = monitor.Wait()
			return nil, err
		}
	}
	return monitor, nil
}

// maxSpec bounds a config.json.
const maxSpec = 16 << 20

// readBundle reads the spec of a bundle.
func readBundle(dir string) (bundle string, spec *specs.Spec, err error) {
	if bundle, err = filepath.Abs(dir); err != nil {
		return "", nil, fmt.Errorf("find bundle: %w", err)
	}
	f, err := os.Open(filepath.Join(bundle, "config.json"))
	if err != nil {
		return "", nil, fmt.Errorf("open bundle: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSpec))
	if err != nil {
		return "", nil, fmt.Errorf("read bundle: %w", err)
	}
	spec, err = oci.Parse(data)
	return bundle, spec, err
}

// makeGroup makes the control group of a container.
func makeGroup(path string) (*cgroup.Named, error) {
	if strings.Contains(path, ":") {
		return nil, fmt.Errorf("cgroupsPath %q is for systemd; give the engine the cgroup driver cgroupfs", path)
	}
	return cgroup.MakeNamed(filepath.Clean("/" + path))
}

// reportFD is where a monitor says that it is ready.
const reportFD = 3

// startMonitor starts the monitor of c, with the caller's own channels, and waits until it is ready. It is a child of the caller's
// until that ends, and of the engine's then.
func (a *app) startMonitor(f *runtimeFlags, o createFlags, c *container.Container, bundle string, engine int, group *cgroup.Named) (_ *exec.Cmd, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer r.Close()
	args := []string{monitorName, "monitor", "--root", filepath.Dir(c.Path()), "--bundle", bundle, "--engine", strconv.Itoa(engine)}
	for flag, value := range map[string]string{"--profile": f.profile, "--console-socket": o.console, "--home": a.homeFlag, "--config": a.configFlag} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	cmd := exec.CommandContext(context.WithoutCancel(a.ctx), "/proc/self/exe")
	cmd.Args = append(args, "--", c.ID)
	cmd.Env = os.Environ()
	if o.console == "" { // else the terminal is all, and an engine reads the others to their end
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	}
	cmd.ExtraFiles = []*os.File{w} // reportFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	start := cmd.Start
	if group != nil {
		start = func() error { return group.Bear(cmd.SysProcAttr, cmd.Start) }
	}
	err = errors.Join(start(), w.Close())
	if err != nil {
		return nil, fmt.Errorf("start monitor: %w", err)
	}
	data, err := io.ReadAll(r)
	if err == nil {
		var said created
		if json.Unmarshal(data, &said) == nil && said.Error == "" {
			return cmd, nil
		}
		err = errors.New(said.Error)
		if said.Error == "" {
			err = errors.New("the container's monitor ended without a word")
		}
	}
	_ = cmd.Process.Kill() // most likely it has ended
	_ = cmd.Wait()
	return nil, err
}

func (a *app) runtimeRunCommand(f *runtimeFlags) *cobra.Command {
	var o createFlags
	c := &cobra.Command{
		Use: "run ID", Short: "Make a container, start it, and remove it when it has ended", Example: "  silk runtime run --bundle DIR box", Args: needArgs(1, 1, "an id"),
		RunE: f.verb(func(args []string) error { return a.runContainer(f, o, args[0]) }),
	}
	o.add(c)
	c.Flags().BoolVarP(&o.detach, "detach", "d", false, "return when it runs, and leave it to whoever asks for its state")
	c.Flags().BoolVar(&o.keep, "keep", false, "do not remove it")
	return c
}

func (a *app) runContainer(f *runtimeFlags, o createFlags, id string) (err error) {
	engine := os.Getpid()
	if o.detach {
		engine = os.Getppid()
	}
	monitor, err := a.createContainer(f, o, id, engine)
	if err != nil {
		return err
	}
	c, err := container.At(f.root, id)
	if err == nil {
		err = c.Ask(a.ctx, container.Order{Start: true})
	}
	if err == nil && o.detach {
		return nil
	}
	if err != nil {
		_ = monitor.Process.Kill()
	}
	stop := context.AfterFunc(a.ctx, func() { _ = c.Ask(context.WithoutCancel(a.ctx), container.Order{Signal: int(syscall.SIGTERM)}) })
	defer stop()
	_ = monitor.Wait() // its status is looked at below
	if !o.keep {
		err = errors.Join(err, a.removeContainer(c, false))
	}
	if status := monitor.ProcessState.ExitCode(); err == nil && status != 0 {
		return &endError{status}
	}
	return err
}

func (a *app) runtimeStartCommand(f *runtimeFlags) *cobra.Command {
	return &cobra.Command{
		Use: "start ID", Short: "Let the program of a container run", Example: "  silk runtime start box", Args: needArgs(1, 1, "an id"),
		RunE: f.verb(func(args []string) error {
			c, err := existing(f.root, args[0])
			if err != nil {
				return err
			}
			return c.Ask(a.ctx, container.Order{Start: true})
		}),
	}
}

// existing is a container that is there.
func existing(root, id string) (*container.Container, error) {
	c, err := container.At(root, id)
	if err != nil {
		return nil, err
	}
	_, err = c.State()
	return c, err
}

func (a *app) runtimePsCommand(f *runtimeFlags) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use: "ps ID", Short: "List the processes of a container, as the host sees them", Example: "  silk runtime ps --format json box", Args: needArgs(1, 100, "an id"),
		RunE: f.verb(func(args []string) error {
			s, err := stateOf(f.root, args[0])
			if err != nil {
				return err
			}
			pids := []int{}
			if s.PID != 0 && s.Status != specs.StateStopped {
				pids = append(pids, s.PID)
			}
			if s.CGroup != "" {
				group, err := cgroup.FindNamed(filepath.Clean("/" + s.CGroup))
				if err != nil {
					return err
				}
				if pids, err = group.Processes(); err != nil {
					return err
				}
			}
			if format == "json" {
				return a.printJSON(pids)
			}
			rows := [][]string{{"PID"}}
			for _, pid := range pids {
				rows = append(rows, []string{strconv.Itoa(pid)})
			}
			return a.table(rows)
		}),
	}
	c.Flags().StringVarP(&format, "format", "f", "table", "`FORMAT`: table or json")
	return c
}

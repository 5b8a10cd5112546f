package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/docker/launch"
	"github.com/silk-sandbox/silk/internal/cgroup"
)

// New makes a driver. It starts nothing, and does not ask whether an engine is there.
func New(config Config) (*Driver, error) {
	config = config.withDefaults()
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it needs root, to watch containers and to reach into them before their programs start", ErrUnusable)
	}
	e, err := newEngine(config.Host)
	if err != nil {
		return nil, err
	}
	owner, err := cgroup.Owner()
	if err != nil {
		return nil, err
	}
	return &Driver{config: config, engine: e, owner: owner, images: imports{dir: filepath.Join(config.Home, "docker")}}, nil
}

// usable says whether this host and this driver can keep what a spec promises.
func (d *Driver) usable(spec driver.Spec) error {
	if d.config.Watch == nil {
		return &driver.Unheld{
			Promise: "watch", Detail: "a container that nobody watches is not started: " + cmp.Or(d.config.Unwatched, "the host's kernel was not asked (eBPF)"),
			Fix: "run silk as root on a kernel with eBPF (silk doctor says what is missing), or use the gvisor driver",
		}
	}
	if spec.Held != nil {
		return driver.NotHeld(d.Name())
	}
	if spec.Network == driver.NetworkLink {
		if err := canLink(); err != nil {
			return err
		}
	}
	if len(spec.Mounts) > 0 {
		return &driver.Unheld{Promise: "mounts", Detail: "the docker driver does not mount directories", Fix: "copy them in with --dir or --file, or use --driver docker/silk or gvisor"}
	}
	if err := confine.CheckLandlock(); err != nil {
		return &driver.Unheld{
			Promise: "files", Detail: fmt.Sprintf("files cannot be kept from a program in a container, for want of the kernel's Landlock: %v", err),
			Fix: "boot a kernel that has it, with landlock in lsm=, or use the gvisor driver",
		}
	}
	return nil
}

// launcher is the launcher as a file to execute, made once.
func (d *Driver) launcher() (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.program != nil {
		return d.program, nil
	}
	f, err := launch.File()
	if err == nil {
		d.program = f
	}
	return f, err
}

// Close releases what the driver holds. Sandboxes go on.
func (d *Driver) Close() error {
	if d.program == nil {
		return nil
	}
	return d.program.Close()
}

// Sweep removes what silks that were killed left behind: containers, which their reapers have ended, and directories of sockets. It asks the engine
// only if there is such a directory, which every container of ours has, and does nothing while no engine answers.
func (d *Driver) Sweep(ctx context.Context) error {
	dirs, err := d.left()
	if err != nil || len(dirs) == 0 {
		return err
	}
	switch err := d.sweepContainers(ctx); {
	case errors.Is(err, ErrGone): // what it has is removed when it is there again, by these directories
		return nil
	case err != nil:
		return err
	}
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

func (d *Driver) sweepContainers(ctx context.Context) error {
	list, err := d.engine.list(ctx, labelRun)
	if err != nil {
		return fmt.Errorf("look for containers that were left: %w", err)
	}
	var errs []error
	for _, c := range list {
		if cgroup.OwnerGone(c.Labels[labelOwner]) {
			errs = append(errs, d.engine.remove(ctx, name(c.Labels[labelRun])))
		}
	}
	return errors.Join(errs...)
}

// Leftovers names what Sweep would remove.
func (d *Driver) Leftovers() ([]string, error) { return d.left() }

// left are the directories of runs of this engine's whose silk has ended. Of another engine's nobody would know here whether it has their containers.
func (d *Driver) left() (dirs []string, err error) {
	parent := d.runs()
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for runs that were left: %w", err)
	}
	for _, e := range entries {
		of, rest, _ := strings.Cut(e.Name(), "_")
		owner, _, ok := strings.Cut(rest, "_")
		if ok && of == d.engine.key() && cgroup.OwnerGone(owner) {
			dirs = append(dirs, filepath.Join(parent, e.Name()))
		}
	}
	return dirs, nil
}

// mark is the directory of one of our runs, by which a sweep knows that the engine may have a container of that id's.
func (d *Driver) mark(id string) string {
	return filepath.Join(d.runs(), d.engine.key()+"_"+d.owner+"_"+id)
}

func (d *Driver) runs() string { return filepath.Join(d.config.Run, "docker") }

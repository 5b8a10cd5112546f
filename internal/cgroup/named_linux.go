package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Named is a group whose path somebody else chose who looks into it: a container engine, which reads there what its
// container uses and whether it ran out of memory.
type Named struct {
	group  *Group   // with the controllers of every group
	others []string // directories of hierarchies that only count
	back   []string // version 1: the groups that this process is in, in the order of dirs
}

// MakeNamed makes the group at path, absolute from the top of each hierarchy, and what is missing above it. A group that is there
// and has processes is another container's. The error is [ErrUnavailable] where no group can be made.
func MakeNamed(path string) (*Named, error) {
	n, err := FindNamed(path)
	if err != nil {
		return nil, err
	}
	var made []string
	for _, dir := range n.dirs() {
		if err := n.group.root.makeDir(dir); err != nil {
			for _, dir := range made { // nothing is in them yet
				err = errors.Join(err, os.Remove(dir))
			}
			return nil, err
		}
		made = append(made, dir)
	}
	return n, nil
}

func (r *Root) makeDir(dir string) error {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("make control group: %w", err)
	}
	if r.Version == 2 {
		if err := enableTo(r.mounts[""].point, parent); err != nil {
			return fmt.Errorf("make control group %s: %w", dir, err)
		}
	}
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		pids, readErr := processes(dir)
		if err = readErr; err == nil && len(pids) > 0 {
			err = fmt.Errorf("%s has processes: it is another container's", dir)
		}
	}
	if err != nil {
		return fmt.Errorf("make control group: %w", err)
	}
	return nil
}

// enableTo hands the controllers from the topmost group down to the children of dir.
func enableTo(top, dir string) error {
	rel, err := filepath.Rel(top, dir)
	if err != nil {
		return err
	}
	if err := enable(top); err != nil {
		return err
	}
	for _, name := range strings.Split(rel, "/") {
		if name == "." {
			continue
		}
		top = filepath.Join(top, name)
		if err := enable(top); err != nil {
			return err
		}
	}
	return nil
}

// FindNamed is the group at path, which need not be there.
func FindNamed(path string) (*Named, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
		return nil, fmt.Errorf("%q is no plain absolute path of a control group", path)
	}
	self, err := current()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	own, err := readPaths("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	n := &Named{group: &Group{root: &Root{Version: 1, shared: true, self: self, dirs: map[string]string{}, mounts: mounts}}}
	hierarchies := append(slices.Clone(controllers), cpuacct)
	if mounts["memory"].point == "" {
		n.group.root.Version, hierarchies = 2, controllers
		for _, c := range hierarchies {
			mounts[c], own[c] = mounts[""], own[""]
		}
	}
	for _, c := range hierarchies {
		dir, ok := mounts[c].exact(path)
		switch {
		case c == cpuacct && mounts[c].point == "":
			continue
		case mounts[c].point == "" || !ok:
			return nil, fmt.Errorf("%w: the %s controller is not mounted, or its group %s cannot be seen", ErrUnavailable, c, path)
		case slices.Contains(n.dirs(), dir):
			continue
		}
		if c == cpuacct {
			n.others = append(n.others, dir)
		} else {
			n.group.root.dirs[c] = filepath.Dir(dir)
			n.group.dirs = append(n.group.dirs, dir)
		}
		n.back = append(n.back, mounts[c].dir(own[c]))
	}
	for _, c := range controllers { // several in one place
		if n.group.root.dirs[c] == "" {
			dir, _ := mounts[c].exact(path)
			n.group.root.dirs[c] = filepath.Dir(dir)
		}
	}
	return n, nil
}

func (n *Named) dirs() []string { return slices.Concat(n.group.dirs, n.others) }

// Limit sets limits. It can be called while processes run.
func (n *Named) Limit(l Limits) error { return n.group.Limit(l) }

// Tighten sets the limit of memory to what is used now and spare bytes more.
func (n *Named) Tighten(spare int64) error {
	name := "memory.usage_in_bytes"
	if n.group.root.Version == 2 {
		name = "memory.current"
	}
	b, err := os.ReadFile(n.group.file("memory", name))
	if err != nil {
		return fmt.Errorf("read control group: %w", err)
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return fmt.Errorf("read control group: %w", err)
	}
	return n.group.Limit(Limits{MemoryBytes: used + spare})
}

// OOMKills counts processes of the group and of those below it that the kernel killed for want of memory.
func (n *Named) OOMKills() (int64, error) { return n.group.OOMKills() }

// Bear calls fork, whose process is born in the group: with version 2 by attr, else because the thread that calls it is there.
func (n *Named) Bear(attr *syscall.SysProcAttr, fork func() error) error {
	dir, err := n.group.Dir()
	if err != nil {
		return err
	}
	if dir != nil {
		defer dir.Close()
		attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
		return fork()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := moveThread(n.dirs())
		if err == nil {
			err = fork()
		}
		if back := moveThread(n.back); back == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with this function
		done <- err
	}()
	return <-done
}

// moveThread moves the calling thread, which is locked, into groups of version 1.
func moveThread(dirs []string) error {
	for _, dir := range dirs {
		if err := write(filepath.Join(dir, "tasks"), "0"); err != nil { // 0 is the thread that writes
			return fmt.Errorf("enter control group: %w", err)
		}
	}
	return nil
}

// Processes are those of the group and of all below it, as the host numbers them.
func (n *Named) Processes() (pids []int, err error) {
	err = filepath.WalkDir(n.group.dirs[0], func(dir string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !e.IsDir():
			return nil
		}
		more, err := processes(dir)
		pids = append(pids, more...)
		return err
	})
	slices.Sort(pids)
	return pids, err
}

func processes(dir string) (pids []int, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) { // removed meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read control group: %w", err)
	}
	for _, field := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Remove removes the group and those below it, which belong to the container too. Processes in them are killed first. That it is
// not there is no error.
func (n *Named) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var errs []error
	for _, top := range n.dirs() {
		var dirs []string
		err := filepath.WalkDir(top, func(dir string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && e.IsDir() {
				dirs = append(dirs, dir)
			}
			return err
		})
		errs = append(errs, err)
		for _, dir := range slices.Backward(dirs) { // the innermost first
			errs = append(errs, removeDir(ctx, dir))
		}
	}
	return errors.Join(errs...)
}

// Within is where groups are made inside the container's group that this process is in, so that whoever looks at that sees all. With
// version 1 that is as everywhere. With version 2 a group with processes has no children with controllers: what is made there tells the
// sandbox's processes from others, and limits are those of the container's group.
func Within(path string) (*Root, error) {
	r, err := Find()
	if err != nil || r.Version == 1 {
		return r, err
	}
	n, err := FindNamed(path)
	if err != nil {
		return nil, err
	}
	r.inner, r.shared, r.dirs = true, true, map[string]string{}
	for _, c := range controllers {
		r.dirs[c] = n.group.dirs[0]
	}
	return r, nil
}

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is where groups are made. It is safe for concurrent use.
type Root struct {
	Version int               // 1 or 2
	dirs    map[string]string // parent directory by controller: memory, cpu, pids; all the same for version 2
	mounts  map[string]mount  // version 1: each controller's hierarchy
	unified string            // version 1: where version 2 is mounted besides, for groups that Child made
	inner   bool              // version 2: groups share the limits of their parent, see Within
	shared  bool              // silk is in the group whose limits are set
	self    maker
}

var controllers = []string{"memory", "cpu", "pids"}

// cpuacct counts CPU time for version 1, in a hierarchy of its own perhaps.
const cpuacct = "cpuacct"

// Find looks for a place where this process may make groups with all three controllers. It makes no group, but on
// version 2 as root a parent named silk. The error is [ErrUnavailable] with the reason.
func Find() (*Root, error) {
	self, err := current()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	paths, err := readPaths("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r := &Root{self: self}
	if mounts["memory"].point != "" {
		r.Version, r.dirs, r.mounts, r.unified = 1, map[string]string{}, map[string]mount{}, mounts[""].point
		for _, c := range controllers {
			m := mounts[c]
			if m.point == "" {
				return nil, fmt.Errorf("%w: the %s controller (version 1) is not mounted", ErrUnavailable, c)
			}
			dir := m.dir(paths[c])
			if unix.Access(dir, unix.W_OK) != nil {
				return nil, fmt.Errorf("%w: %s is not writable", ErrUnavailable, dir)
			}
			r.dirs[c], r.mounts[c] = dir, m
		}
		return r, nil
	}
	m := mounts[""]
	if m.point == "" {
		return nil, fmt.Errorf("%w: no cgroup file system is mounted", ErrUnavailable)
	}
	dir, err := parent2(m, paths[""], os.Getuid())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r.Version, r.dirs = 2, map[string]string{}
	for _, c := range controllers {
		r.dirs[c] = dir
	}
	return r, nil
}

// parent2 finds or makes a group of version 2 below which groups with our controllers can be made. A group that has
// processes cannot hand out controllers (cgroups(7), "no internal processes"), so our own group is no parent.
func parent2(m mount, own string, uid int) (string, error) {
	if uid == 0 {
		top := filepath.Join(m.point, "silk")
		if err := enable(m.point); err != nil {
			return "", err
		}
		if err := os.Mkdir(top, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		return top, enable(top)
	}
	group := m.dir(own)
	if group == m.point { // its parent is no group
		return "", fmt.Errorf("this process is in the topmost group, %s, and a user cannot make groups in it", group)
	}
	dir := filepath.Dir(group)
	for _, name := range []string{"", "cgroup.procs"} { // both belong to a delegation, cgroups(7)
		if unix.Access(filepath.Join(dir, name), unix.W_OK) != nil {
			return "", fmt.Errorf("%s is not delegated to this user", dir)
		}
	}
	return dir, enable(dir)
}

// enable hands the controllers of dir to its children.
func enable(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	have := strings.Fields(string(b))
	for _, c := range controllers {
		if slices.Contains(have, c) {
			continue
		}
		if err := write(filepath.Join(dir, "cgroup.subtree_control"), "+"+c); err != nil {
			return fmt.Errorf("the %s controller cannot be used: %w", c, err)
		}
	}
	return nil
}

// mount is one mounted hierarchy.
type mount struct{ root, point string }

// dir is the directory of a path as /proc/PID/cgroup names it, or that of the topmost group we can see.
func (m mount) dir(path string) string {
	if dir, ok := m.exact(path); ok {
		return dir
	}
	return m.point
}

// exact is the directory of a path as /proc/PID/cgroup names it; ok is false if it cannot be seen.
func (m mount) exact(path string) (dir string, ok bool) {
	if strings.HasPrefix(path, "/..") || strings.HasPrefix(m.root, "/..") { // outside the root of our cgroup namespace (cgroup_namespaces(7))
		return "", false
	}
	rel, err := filepath.Rel(m.root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") { // outside what is mounted: a container's view
		return "", false
	}
	return filepath.Join(m.point, rel), true
}

// readMounts lists cgroup mounts by controller; version 2 is "". proc_pid_mountinfo(5).
func readMounts(path string) (map[string]mount, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	mounts := map[string]mount{}
	for s := bufio.NewScanner(f); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		fields, fs := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(fs) < 3 {
			continue
		}
		m := mount{fields[3], fields[4]}
		switch fs[0] {
		case "cgroup2":
			mounts[""] = m
		case "cgroup":
			for _, option := range strings.Split(fs[2], ",") {
				if slices.Contains(controllers, option) || option == cpuacct {
					mounts[option] = m
				}
			}
		}
	}
	return mounts, nil
}

// readPaths lists our own groups by controller; version 2 is "". cgroups(7), /proc/PID/cgroup.
func readPaths(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, c := range strings.Split(parts[1], ",") {
			paths[c] = parts[2]
		}
	}
	return paths, nil
}

// write writes a cgroup file; the kernel answers in write's error.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

package cgroup

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Child makes a group of version 2 below the one that a process is in, without limits of its own: it is for telling the
// process and its descendants from others, and for killing them at once. It can be had where the controllers are those of
// version 1, if only the file system is mounted; there [Root.Sweep] removes it if its maker died. Where all is version 2 it
// is below a container's group, and goes with that. The error is [ErrUnavailable] with the reason.
func Child(pid int) (*Group, error) {
	self, err := current()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	paths, err := readPaths(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	m, path := mounts[""], paths[""]
	if m.point == "" || path == "" {
		return nil, fmt.Errorf("%w: no cgroup2 file system is mounted", ErrUnavailable)
	}
	parent := m.dir(path)
	dir := filepath.Join(parent, self.name(made.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: make control group: %w", ErrUnavailable, err)
	}
	return &Group{root: &Root{Version: 2, self: self}, dirs: []string{dir}}, nil
}

// Path is the directory of a group of version 2, and one of several for version 1.
func (g *Group) Path() string { return g.dirs[0] }

// Kill sends SIGKILL to all processes of the group and of those below it, in one step where the kernel has cgroup.kill
// (Linux 5.14, version 2). They may still be ending when it returns.
func (g *Group) Kill() {
	for _, dir := range g.dirs {
		killAll(dir)
	}
}

// ID is the number by which the kernel knows the group of version 2 with that directory: what bpf_get_current_cgroup_id
// returns (bpf-helpers(7)).
func ID(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("identify control group %s: %w", dir, err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return 0, fmt.Errorf("identify control group %s: it is not version 2", dir)
	}
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err != nil {
		return 0, fmt.Errorf("identify control group %s: %w", dir, err)
	}
	b := handle.Bytes()
	if len(b) != 8 { // FILEID_KERNFS is the 64-bit id, include/linux/exportfs.h
		return 0, fmt.Errorf("identify control group %s: a handle of %d bytes", dir, len(b))
	}
	return binary.LittleEndian.Uint64(b), nil
}

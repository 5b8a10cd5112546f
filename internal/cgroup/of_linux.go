package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Others is the groups that a process is in and that somebody else has made, a container engine, to be read and no more.
// They may be gone at any time: ask for what counts while a process keeps them.
type Others struct {
	version int
	dirs    map[string]string // by controller
}

// Of finds the groups of a process. The error is [ErrUnavailable] if one of them cannot be seen from here.
func Of(pid int) (*Others, error) {
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	paths, err := readPaths(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	o := &Others{version: 1, dirs: map[string]string{}}
	if mounts["memory"].point == "" {
		o.version = 2
	}
	for _, c := range append([]string{cpuacct}, controllers...) {
		m, path := mounts[c], paths[c]
		if o.version == 2 {
			m, path = mounts[""], paths[""]
		}
		dir, ok := m.exact(path)
		if m.point == "" || !ok {
			return nil, fmt.Errorf("%w: the %s group of process %d cannot be seen", ErrUnavailable, c, pid)
		}
		o.dirs[c] = dir
	}
	return o, nil
}

// Alone says whether the process shares none of its groups with this one: a process that is in a container.
func (o *Others) Alone() bool {
	own, err := Of(os.Getpid())
	return err == nil && own.dirs["memory"] != o.dirs["memory"] && own.dirs["pids"] != o.dirs["pids"]
}

// OOMKills counts processes that the kernel killed for want of memory.
func (o *Others) OOMKills() (int64, error) {
	if o.version == 2 {
		return o.field("memory", "memory.events", "oom_kill ")
	}
	return o.field("memory", "memory.oom_control", "oom_kill ")
}

// ForksRefused counts what would have been one process too many.
func (o *Others) ForksRefused() (int64, error) { return o.field("pids", "pids.events", "max ") }

// PeakMemoryBytes is the most memory that was used at once.
func (o *Others) PeakMemoryBytes() (int64, error) {
	if o.version == 2 {
		return o.field("memory", "memory.peak", "") // Linux 5.19
	}
	return o.field("memory", "memory.max_usage_in_bytes", "")
}

// OwnMemoryBytes is memory that cannot be given back without the processes: their own pages, and files in memory.
func (o *Others) OwnMemoryBytes() (int64, error) {
	keys := []string{"total_rss ", "total_shmem "}
	if o.version == 2 {
		keys = []string{"anon ", "shmem "}
	}
	var sum int64
	for _, key := range keys {
		n, err := o.field("memory", "memory.stat", key)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// CPUTime is what its processes have used, the ended ones included.
func (o *Others) CPUTime() (time.Duration, error) {
	if o.version == 2 {
		n, err := o.field("cpu", "cpu.stat", "usage_usec ")
		return time.Duration(n) * time.Microsecond, err
	}
	n, err := o.field(cpuacct, "cpuacct.usage", "")
	return time.Duration(n), err
}

// Empty says whether no process is in any of the groups, or below them; groups that are gone are empty.
func (o *Others) Empty() (bool, error) {
	for _, c := range controllers {
		empty, err := emptyBelow(o.dirs[c])
		if !empty || err != nil {
			return false, err
		}
	}
	return true, nil
}

func emptyBelow(dir string) (empty bool, err error) {
	empty = true
	err = filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(at, "cgroup.procs"))
		if err == nil && len(b) > 0 {
			empty = false
			return fs.SkipAll
		}
		return nil // gone since it was listed, or of threads
	})
	if err != nil {
		return false, fmt.Errorf("read control group %s: %w", dir, err)
	}
	return empty, nil
}

func (o *Others) field(controller, file, key string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(o.dirs[controller], file))
	if err != nil {
		return 0, fmt.Errorf("read control group: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), key); ok {
			return strconv.ParseInt(text, 10, 64)
		}
	}
	return 0, fmt.Errorf("read control group: no %s in %s", strings.TrimSpace(key), file)
}

// Owner names this process among all that there ever were on this boot of this machine, for what it makes and others may have to
// remove.
func Owner() (string, error) {
	self, err := current()
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(self.name(0), prefix), nil
}

// OwnerGone says whether the process of that name has ended. One whose PID namespace is another than ours has not, as far as can be seen
// from here.
func OwnerGone(owner string) bool {
	m, ok := parseName(prefix + owner)
	if !ok {
		return false
	}
	self, err := current()
	return err == nil && m.namespace == self.namespace && !alive(m)
}

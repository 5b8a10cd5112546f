package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Group is one control group of ours. Remove it.
type Group struct {
	root *Root
	dirs []string // one, or one for each controller
}

// made numbers the groups of this process, in which several drivers may each have a Root of their own.
var made atomic.Int64

// New makes an empty group without limits.
func (r *Root) New() (_ *Group, err error) {
	g := &Group{root: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Remove(context.Background()))
		}
	}()
	name := r.self.name(made.Add(1))
	for _, parent := range r.parents() {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make control group: %w", err)
		}
		g.dirs = append(g.dirs, dir)
	}
	return g, nil
}

// parents are the distinct parent directories, in the order of controllers.
func (r *Root) parents() (dirs []string) {
	for _, c := range controllers {
		if !slices.Contains(dirs, r.dirs[c]) {
			dirs = append(dirs, r.dirs[c])
		}
	}
	return dirs
}

// file is the path of a control file of the named controller.
func (g *Group) file(controller, name string) string {
	if g.root.inner {
		return filepath.Join(g.root.dirs[controller], name)
	}
	parents := g.root.parents()
	return filepath.Join(g.dirs[slices.Index(parents, g.root.dirs[controller])], name)
}

// Dir opens the group's directory for clone3's CLONE_INTO_CGROUP (version 2 only): a process that is born in the group
// costs nothing, while moving one waits for a grace period of RCU (10-20 ms). It returns nil for version 1. The caller
// closes it.
func (g *Group) Dir() (*os.File, error) {
	if g.root.Version != 2 {
		return nil, nil
	}
	f, err := os.Open(g.dirs[0])
	if err != nil {
		return nil, fmt.Errorf("open control group: %w", err)
	}
	return f, nil
}

// Enter moves the calling thread into the group of version 1, so that the processes it makes are born there, and returns
// what moves it back to where it was. A thread that moves itself waits for nobody (Linux 5.5), while moving a process waits
// for a grace period of RCU. The caller has locked the thread, which is not the process's first: memory counts where that
// one is. Between the two calls the group has no limits. After an error of either the thread has to end.
func (g *Group) Enter() (leave func() error, err error) {
	if unix.Gettid() == os.Getpid() {
		return nil, errors.New("enter control group: this is the first thread of the process")
	}
	paths, err := readPaths("/proc/thread-self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("enter control group: %w", err)
	}
	var back []string
	for _, c := range controllers {
		dir, ok := g.root.mounts[c].exact(paths[c])
		if !ok {
			return nil, fmt.Errorf("enter control group: the group that this thread is in, %s, cannot be seen", paths[c])
		}
		if tasks := filepath.Join(dir, "tasks"); !slices.Contains(back, tasks) {
			back = append(back, tasks)
		}
	}
	leave = func() error {
		var errs []error
		for _, tasks := range back {
			errs = append(errs, write(tasks, "0")) // 0 is the thread that writes
		}
		return errors.Join(errs...)
	}
	for _, dir := range g.dirs {
		if err := write(filepath.Join(dir, "tasks"), "0"); err != nil {
			return nil, errors.Join(fmt.Errorf("enter control group: %w", err), leave())
		}
	}
	return leave, nil
}

// Add moves a process into the group; its later children are born there.
func (g *Group) Add(pid int) error {
	for _, dir := range g.dirs {
		if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("move process into control group: %w", err)
		}
	}
	return nil
}

// Limit sets limits. It can be called while processes run.
func (g *Group) Limit(l Limits) error {
	type setting struct{ controller, v1, v2, value1, value2 string }
	var settings []setting
	if l.MemoryBytes > 0 {
		n := strconv.FormatInt(l.MemoryBytes, 10)
		settings = append(settings, setting{"memory", "memory.limit_in_bytes", "memory.max", n, n})
	}
	if l.CPUs > 0 {
		q := strconv.FormatInt(quotaMicros(l.CPUs), 10)
		settings = append(settings, setting{"cpu", "cpu.cfs_quota_us", "cpu.max", q, q + " " + strconv.Itoa(periodMicros)})
	}
	if l.Processes > 0 {
		n := strconv.Itoa(l.Processes)
		settings = append(settings, setting{"pids", "pids.max", "pids.max", n, n})
	}
	for _, s := range settings {
		name, value := s.v1, s.value1
		if g.root.Version == 2 {
			name, value = s.v2, s.value2
		}
		if err := write(g.file(s.controller, name), value); err != nil {
			return fmt.Errorf("limit control group: %w", err)
		}
	}
	if l.MemoryBytes > 0 {
		return errors.Join(g.noSwap(l.MemoryBytes), g.killWhole())
	}
	return nil
}

// killWhole lets the kernel end all processes of the group when memory runs out, not the one it finds largest: what is
// left of a sandbox is none. Version 1 cannot do it.
func (g *Group) killWhole() error {
	if g.root.Version != 2 || g.root.shared { // not silk, which is in that group too
		return nil
	}
	if err := write(g.file("memory", "memory.oom.group"), "1"); err != nil && !errors.Is(err, fs.ErrNotExist) { // Linux 4.19
		return fmt.Errorf("limit control group: %w", err)
	}
	return nil
}

// noSwap forbids swap where the kernel counts it; where it does not, there is no file to write.
func (g *Group) noSwap(memory int64) error {
	name, value := "memory.memsw.limit_in_bytes", strconv.FormatInt(memory, 10)
	if g.root.Version == 2 {
		name, value = "memory.swap.max", "0"
	}
	if err := write(g.file("memory", name), value); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forbid swap in control group: %w", err)
	}
	return nil
}

// OOMKills counts processes of the group that the kernel killed for want of memory.
func (g *Group) OOMKills() (int64, error) {
	name := "memory.oom_control" // "oom_kill N" since Linux 4.13
	if g.root.Version == 2 {
		name = "memory.events"
	}
	b, err := os.ReadFile(g.file("memory", name))
	if err != nil {
		return 0, fmt.Errorf("read control group: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return strconv.ParseInt(n, 10, 64)
		}
	}
	return 0, fmt.Errorf("read control group: no oom_kill in %s", name)
}

// CPUTime is what the processes of the group have used, the ended ones included. ok is false where the kernel does not
// count it with our controllers: version 1 with cpuacct mounted apart from cpu.
func (g *Group) CPUTime() (used time.Duration, ok bool) {
	name, key, unit := "cpu.stat", "usage_usec ", time.Microsecond
	if g.root.Version == 1 {
		name, key, unit = "cpuacct.usage", "", time.Nanosecond
	}
	b, err := os.ReadFile(g.file("cpu", name))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), key); found {
			n, err := strconv.ParseInt(text, 10, 64)
			return time.Duration(n) * unit, err == nil
		}
	}
	return 0, false
}

// removeTimeout bounds the wait for the last process of a group: the kernel takes a moment after it was reaped.
const removeTimeout = 5 * time.Second

// Remove removes the group. Processes that are still in it are killed first.
func (g *Group) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, removeDir(ctx, dir))
	}
	return errors.Join(errs...)
}

// removeFirst is the first wait for a group to become empty. A process leaves its group when it is switched out for the last
// time, some 100 us after its parent could have reaped it (Linux 6.18).
const removeFirst = 50 * time.Microsecond

func removeDir(ctx context.Context, dir string) error {
	for wait := removeFirst; ; wait = min(2*wait, 100*time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("remove control group %s: %w", dir, err)
		}
		killAll(dir)
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove control group %s: %w", dir, err)
		case <-time.After(wait):
		}
	}
}

// killAll kills what is in a group: with one write where the kernel has cgroup.kill (5.14, version 2), else one by one.
func killAll(dir string) {
	if write(filepath.Join(dir, "cgroup.kill"), "1") == nil {
		return
	}
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, field := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() { // ours, while a thread is in it: see Enter
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// foreignAge is the age at which an empty group from another PID namespace is a leftover: a living silk's is empty for
// the moment between its making and the first fork.
const foreignAge = time.Hour

// Sweep removes groups whose maker is gone, and kills what is in them. Groups of living silks are not touched, nor is
// any group with processes whose maker is in another PID namespace: whether that one lives cannot be seen from here.
// With version 1 it looks everywhere: groups are made in the maker's own, and that was another session's perhaps.
func (r *Root) Sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	return r.leftovers(func(dir string, foreign bool) error {
		if foreign {
			_ = unix.Rmdir(dir) // refused if a process is in it
			return nil
		}
		if err := removeDir(ctx, dir); !errors.Is(err, fs.ErrPermission) { // another user's
			return err
		}
		return nil
	})
}

// Leftovers returns the directories of the groups that Sweep would remove.
func (r *Root) Leftovers() (dirs []string, err error) {
	err = r.leftovers(func(dir string, foreign bool) error {
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if !foreign || err == nil && len(procs) == 0 {
			dirs = append(dirs, dir)
		}
		return nil
	})
	return dirs, err
}

// leftovers visits groups whose maker is gone, and old ones whose maker is in another PID namespace: foreign.
func (r *Root) leftovers(visit func(dir string, foreign bool) error) error {
	var errs []error
	for _, top := range r.tops() {
		errs = append(errs, filepath.WalkDir(top, func(dir string, e fs.DirEntry, err error) error {
			switch {
			case dir != top && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)): // removed since it was listed, or another user's
				return nil
			case err != nil:
				return fmt.Errorf("list control groups: %w", err)
			case !e.IsDir() || dir == top:
				return nil
			}
			m, ok := parseName(e.Name())
			switch {
			case !ok && r.Version == 1:
				return nil
			case !ok:
			case m.namespace != r.self.namespace:
				if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > foreignAge {
					errs = append(errs, visit(dir, true))
				}
			case !alive(m):
				errs = append(errs, visit(dir, false))
			}
			return fs.SkipDir
		}))
	}
	return errors.Join(errs...)
}

// tops are the directories below which groups of ours may be.
func (r *Root) tops() (tops []string) {
	for _, c := range controllers {
		top := r.dirs[c]
		if point := r.mounts[c].point; r.Version == 1 && point != "" {
			top = point
		}
		if !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	if r.unified != "" {
		tops = append(tops, r.unified)
	}
	return tops
}

// current is this process as a maker of groups.
func current() (maker, error) {
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &namespace); err != nil {
		return maker{}, fmt.Errorf("identify PID namespace: %w", err)
	}
	start, err := StartTime(os.Getpid())
	return maker{namespace.Ino, os.Getpid(), start}, err
}

// alive says whether the process that made a group still runs. A pid that was given again has another start time.
func alive(m maker) bool {
	start, err := StartTime(m.pid)
	return err == nil && start == m.startTime
}

// OfAnother says whether a directory name is that of a group whose maker is another process that lives, or one that
// cannot be seen from this PID namespace. It is for tests, which look for what their own process has left.
func OfAnother(name string) bool {
	m, ok := parseName(name)
	self, err := current()
	if !ok || err != nil || m == self {
		return false
	}
	return m.namespace != self.namespace || alive(m)
}

// StartTime is when a process began, in clock ticks since boot: with it a process id that was given again is told from the one before.
func StartTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 { // state is field 3 of proc_pid_stat(5), starttime is 22
		return 0, fmt.Errorf("/proc/%d/stat has an unknown form", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// meter measures the CPU time of this process's children in two ways, of which each may miss something: getrusage(2)
// does not know of processes whose parent let the kernel reap them (the Sentry does that), and a cgroup not of those
// that moved out of it. The larger figure counts. Contenders that take a cgroup's path get one inside. This process is in
// there too; its own time is taken off.
type meter struct {
	dir  string // cgroup made for this process and its children, or "" if there can be none
	home string // cgroup where it was before
	file string // what to read there
	unit time.Duration
}

const (
	cgroupRoot = "/sys/fs/cgroup"
	v1Usage    = "cpuacct.usage" // what version 1 calls CPU time, in nanoseconds
)

// self is the cgroup inside that has this process: in version 2 one with processes cannot have others with limits inside.
const self = "self"

// newMeter moves this process into a cgroup of its own if the machine lets it: of cgroup v1's cpuacct, else of v2. It
// also makes every orphan below this process its child (prctl(2), PR_SET_CHILD_SUBREAPER), so that the first way counts
// helpers that outlive their parents.
func newMeter() (*meter, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become reaper of orphans: %w", err)
	}
	v1, v2, err := ownCgroups()
	if err != nil {
		return nil, err
	}
	for _, m := range []*meter{
		{home: v1, file: v1Usage, unit: time.Nanosecond},
		{home: v2, file: "cpu.stat", unit: time.Microsecond},
	} {
		if m.home == "" {
			continue
		}
		m.dir = filepath.Join(m.home, fmt.Sprintf("silk-bench-%d", os.Getpid()))
		if os.MkdirAll(filepath.Join(m.dir, self), 0o755) != nil {
			continue
		}
		if enter(filepath.Join(m.dir, self)) == nil {
			if _, err := m.cgroup(); err == nil {
				return m, nil
			}
		}
		if err := m.close(); err != nil {
			return nil, err
		}
	}
	return &meter{}, nil
}

// ownCgroups returns the directories of this process's cgroups: v1's with the cpuacct controller, and v2's (proc(5),
// /proc/PID/cgroup; where they are mounted is what every distribution does).
func ownCgroups() (v1, v2 string, err error) {
	file, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return "", "", fmt.Errorf("find own cgroup: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			if controller == "cpuacct" {
				v1 = filepath.Join(cgroupRoot, parts[1], parts[2])
			}
		}
		if parts[0] == "0" {
			v2 = filepath.Join(cgroupRoot, parts[2])
		}
	}
	return v1, v2, lines.Err()
}

// inside is the path that a cgroup of this name has below the meter's own, from the mount point of its controller.
func (m *meter) inside(name string) string {
	if m.dir == "" {
		return "/" + name
	}
	path := strings.TrimPrefix(m.dir, cgroupRoot)
	if m.file == v1Usage {
		_, path, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/") // the controller
	}
	return filepath.Join("/", path, name)
}

func enter(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(file, os.Getpid())
	return errors.Join(err, file.Close())
}

// close moves this process back and removes the cgroup, with what runtimes left of its name below other controllers.
func (m *meter) close() error {
	if m.dir == "" {
		return nil
	}
	errs := []error{enter(m.home), os.Remove(filepath.Join(m.dir, self)), os.Remove(m.dir)}
	if m.file == v1Usage {
		rest, err := filepath.Glob(filepath.Join(cgroupRoot, "*", m.inside("")))
		errs = append(errs, err)
		for _, dir := range rest {
			errs = append(errs, os.Remove(dir))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("leave cgroup %s: %w", m.dir, err)
	}
	return nil
}

// reading is the state of both ways at one moment.
type reading struct{ rusage, cgroup time.Duration }

func (r reading) since(before reading) time.Duration {
	return max(r.rusage-before.rusage, r.cgroup-before.cgroup)
}

// read waits for orphans and reads. One that is still there after leaveDelay was left behind by a run, which is an
// error. No child that somebody else waits for may be running.
func (m *meter) read() (reading, error) {
	if err := reap(); err != nil {
		return reading{}, err
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		return reading{}, fmt.Errorf("read CPU time of children: %w", err)
	}
	cgroup, err := m.cgroup()
	if err != nil {
		return reading{}, err
	}
	own, err := ownCPU()
	return reading{time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), cgroup - own}, err
}

// ownCPU is the CPU time of this process without its children.
func ownCPU() (time.Duration, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read own CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

func (m *meter) cgroup() (time.Duration, error) {
	if m.dir == "" {
		return 0, nil
	}
	text, err := os.ReadFile(filepath.Join(m.dir, m.file))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	number := strings.TrimPrefix(firstLine(string(text)), "usage_usec ") // v2; v1 has the number alone
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	return time.Duration(n) * m.unit, nil
}

func reap() error {
	deadline := time.After(leaveDelay)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait for orphans: %w", err)
		case pid > 0:
			continue
		}
		select {
		case <-again.C:
		case <-deadline:
			return fmt.Errorf("a process is still running %v after its run", leaveDelay)
		}
	}
}

package gvisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/cgroup"
)

// Two layers hold the limits. The Sentry holds the ones that the program is meant to feel: memory (sentry/memory.go),
// processes (RLIMIT_NPROC), sizes of file systems. The host's control group, where there is one, holds CPU time, and is
// a backstop around the Sentry itself for the rest; where there is none, CPU time is held by confining the sandbox to
// as many processors.
const (
	// sentryBytes is what the Sentry may use beyond the guest's memory: measured at 40 MiB with 64 processes.
	sentryBytes = 192 << 20
	// sentryThreads are threads and stub processes of the Sentry on the host beside one for each of the guest's: a
	// guest's fork that met this limit would kill the Sentry, so it is generous.
	sentryThreads = 512
)

// limit sets the backstop, before the request is sent.
func (d *Driver) limit(k *kernel, spec driver.Spec) error {
	if k.group == nil {
		if spec.CPUs != float64(int(spec.CPUs)) {
			_, why := d.host.groups()
			return &driver.Unheld{
				Promise: "cpus",
				Detail:  fmt.Sprintf("a share of %g CPUs cannot be held on this host: %v", spec.CPUs, why),
				Fix:     "ask for a whole number with --cpus, run as root, or have control groups delegated to you",
			}
		}
		return nil
	}
	return k.group.Limit(cgroup.Limits{
		MemoryBytes: spec.MemoryBytes + spec.WorkspaceBytes + sentryBytes,
		Processes:   4*spec.Processes + sentryThreads,
	})
}

// limitCPU holds CPU time, when the program is about to run: the start itself may use all processors.
func (d *Driver) limitCPU(k *kernel, spec driver.Spec) error {
	if k.group != nil {
		if spec.CPUs >= float64(runtime.NumCPU()) {
			return nil
		}
		return k.group.Limit(cgroup.Limits{CPUs: spec.CPUs})
	}
	if int(spec.CPUs) >= runtime.NumCPU() {
		return nil
	}
	return confine(k.proc.Pid, int(spec.CPUs))
}

// confine lets all threads of a process and its descendants run on n processors only. Later threads and children
// inherit that. It goes over them until a pass finds none that is new.
func confine(pid, n int) error {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return fmt.Errorf("read processors: %w", err)
	}
	var cpus []int
	for cpu := range 1024 { // CPU_SETSIZE, sched_setaffinity(2)
		if allowed.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	rand.Shuffle(len(cpus), func(i, j int) { cpus[i], cpus[j] = cpus[j], cpus[i] }) // spread sandboxes
	var mask unix.CPUSet
	for _, cpu := range cpus[:min(n, len(cpus))] {
		mask.Set(cpu)
	}
	done := map[int]bool{}
	for before := -1; before != len(done); {
		before = len(done)
		if err := confineTree(pid, &mask, done); err != nil {
			return fmt.Errorf("confine sandbox to %d processors: %w", n, err)
		}
	}
	return nil
}

func confineTree(pid int, mask *unix.CPUSet, done map[int]bool) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil //nolint:nilerr // the process is gone, and its threads with it
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if !done[tid] {
			if err := unix.SchedSetaffinity(tid, mask); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			done[tid] = true
		}
	}
	for _, child := range children(pid) {
		if err := confineTree(child, mask, done); err != nil {
			return err
		}
	}
	return nil
}

// children are the processes that the threads of pid have started (proc_pid_task_tid_children(5)); none if it is gone.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is a good one
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// Probe says what this host does not enforce as usual. An error means that no sandbox can be started at all.
func (d *Driver) Probe(_ context.Context, spec driver.Spec) (notes []string, err error) {
	if _, why := d.host.groups(); why != nil {
		notes = append(notes,
			fmt.Sprintf("memory and processes are limited by the sandbox's own kernel alone: %v", why),
			"CPU time is held by confining the sandbox to whole processors")
		if err := d.limit(&kernel{}, spec); err != nil {
			return notes, err
		}
	}
	if _, own := newIdentity(); !own && os.Getuid() == 0 {
		notes = append(notes, fmt.Sprintf("sandboxes share the id %d on the host: this container does not have the ids from %d to %d", nobody, firstID, lastID))
	}
	switch {
	case d.config.Watch == nil && spec.RequireWatch:
		return notes, NotWatched(d.config.Unwatched)
	case d.config.Watch != nil:
		notes = append(notes, "the host's kernel watches the sandbox's kernel besides (eBPF)")
	default:
		notes = append(notes, "the sandbox's kernel is the only watcher: "+cmp.Or(d.config.Unwatched, "the host's was not asked for (watch: true in the configuration)"))
	}
	return notes, nil
}

// tablesInterval is the time between looks at page tables: a program fills them at some 100 MiB/s.
const tablesInterval = 200 * time.Millisecond

// watchTables ends the sandbox when the host's page tables for its processes take more memory than the guest may have.
// They are the one thing that a guest makes grow and the Sentry cannot count: a page mapped at many addresses costs it
// little and the host 4 KiB for each. A control group counts them; this is for hosts without one.
func (s *sandbox) watchTables(limit int64) {
	ticker := time.NewTicker(tablesInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.kernel.gone:
			return
		case <-ticker.C:
		}
		if pageTables(s.kernel.proc.Pid) > limit {
			s.tablesFull.Store(true)
			s.kernel.kill()
			return
		}
	}
}

// pageTables adds up VmPTE (proc_pid_status(5)) of a process and its descendants, in bytes.
func pageTables(pid int) (total int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // gone
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmPTE:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			total += kib << 10
		}
	}
	for _, child := range children(pid) {
		total += pageTables(child)
	}
	return total
}

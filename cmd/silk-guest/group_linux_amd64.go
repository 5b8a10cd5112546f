package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/firecracker/wire"
)

// Control groups (version 2, Documentation/admin-guide/cgroup-v2.rst): that of the program and everything that comes from it, and the agent's own, which tells
// the pages that it has written to the workspace from the program's.
const (
	group    = "/sys/fs/cgroup/run"
	ownGroup = "/sys/fs/cgroup/agent"
)

// makeGroup makes them. Pages of /workspace, /tmp and /dev/shm count as memory of whoever wrote them: the kernel holds the program to memory and workspace
// together, and [memoryOver] to memory alone.
func makeGroup(p wire.Plan) error {
	if err := control("/sys/fs/cgroup/cgroup.subtree_control", "+memory +pids +cpu"); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(group, 0o755), os.Mkdir(ownGroup, 0o755)); err != nil {
		return err
	}
	if err := control(ownGroup+"/cgroup.procs", "1"); err != nil {
		return err
	}
	const period = 100_000 // microseconds, the kernel's default
	memory := p.MemoryBytes
	if !p.ReadOnly {
		memory += p.WorkspaceBytes
	}
	for _, s := range [][2]string{
		{"memory.max", strconv.FormatInt(memory, 10)},
		{"memory.oom.group", "1"},
		{"pids.max", strconv.Itoa(p.Processes)},
		{"cpu.max", fmt.Sprintf("%d %d", int64(p.CPUs*period), period)},
	} {
		if err := control(group+"/"+s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}

// control writes to a file of the kernel's.
func control(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// killGroup ends every process of the program. They may still be ending when it returns.
func killGroup() error { return control(group+"/cgroup.kill", "1") }

// counter reads a number of the program's group: of a file that has only one if key is empty, else of the line that begins with key.
func counter(name, key string) int64 {
	b, err := os.ReadFile(group + "/" + name)
	if err != nil {
		return 0
	}
	return numberIn(b, key)
}

func numberIn(b []byte, key string) int64 {
	for line := range strings.Lines(string(b)) {
		text := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(text, key+" "); ok || key == "" {
			if ok {
				text = rest
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// memorySlack is how far the kernel's counts may lag behind, in bytes: MEMCG_CHARGE_BATCH pages for each processor (mm/memcontrol.c), twice.
const memorySlack = 1 << 20

// memoryOver says whether the program has more memory than it may: what nobody but it can give back, without the pages of the workspace that it has
// written. before is what the agent's group had in files before it filled the workspace, in bytes. What comes and goes between two looks is not noticed; the
// kernel's limit holds that too.
func memoryOver(most, before int64) bool {
	used := workspaceUsed()
	b, err := os.ReadFile(group + "/memory.stat")
	if err != nil {
		return false
	}
	files := max(used, workspaceUsed()) - (ownFiles() - before) // whatever was written or removed meanwhile is on its side
	n := numberIn(b, "anon") + numberIn(b, "kernel") - numberIn(b, "slab_reclaimable")
	return n+max(0, numberIn(b, "shmem")-max(0, files)) > most+memorySlack
}

// ownFiles are the bytes of files in memory that the agent has written, and that are still there.
func ownFiles() int64 {
	b, err := os.ReadFile(ownGroup + "/memory.stat")
	if err != nil {
		return 0
	}
	return numberIn(b, "shmem")
}

// workspaceUsed is what is in the workspace, in bytes.
func workspaceUsed() int64 {
	var s unix.Statfs_t
	if unix.Statfs(newRoot+"/workspace", &s) != nil {
		return 0
	}
	return int64(s.Blocks-s.Bfree) * s.Bsize
}

func oomKills() int64 { return counter("memory.events", "oom_kill") }

// account puts the group's counters into a report, and what the agent itself took.
func account(r *wire.Report) {
	r.CPU = time.Duration(counter("cpu.stat", "usage_usec")) * time.Microsecond
	r.PeakMemoryBytes = counter("memory.peak", "")
	r.Flags.PidsLimitHit = counter("pids.events", "max")
	var own unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &own) == nil {
		r.AgentBytes = own.Maxrss << 10
	}
}

// full says whether the file system at dir has no block left.
func full(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(newRoot+dir, &s) == nil && s.Type == unix.TMPFS_MAGIC && s.Blocks > 0 && s.Bfree == 0
}

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

// group is the control group of the program and everything that comes from it (version 2, Documentation/admin-guide/cgroup-v2.rst).
const group = "/sys/fs/cgroup/run"

// makeGroup makes it. Pages of /workspace, /tmp and /dev/shm count as memory of whoever wrote them, and so the limit is memory and workspace together.
func makeGroup(p wire.Plan) error {
	if err := control("/sys/fs/cgroup/cgroup.subtree_control", "+memory +pids +cpu"); err != nil {
		return err
	}
	if err := os.Mkdir(group, 0o755); err != nil {
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

// counter reads a number: of a file that has only one if key is empty, else of the line that begins with key.
func counter(name, key string) int64 {
	b, err := os.ReadFile(group + "/" + name)
	if err != nil {
		return 0
	}
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

func oomKills() int64 { return counter("memory.events", "oom_kill") }

// account puts the group's counters into a report.
func account(r *wire.Report) {
	r.CPU = time.Duration(counter("cpu.stat", "usage_usec")) * time.Microsecond
	r.PeakMemoryBytes = counter("memory.peak", "")
	r.Flags.PidsLimitHit = counter("pids.events", "max")
}

// full says whether the file system at dir has no block left.
func full(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(newRoot+dir, &s) == nil && s.Type == unix.TMPFS_MAGIC && s.Blocks > 0 && s.Bfree == 0
}

// Package cgroup makes one control group for one sandbox: limits on memory, CPU time and processes that the kernel of
// the host enforces, beneath whatever the sandbox enforces itself.
//
// It works with version 2 and with version 1 (a directory in each of three hierarchies), and says so where neither can
// be had: an ordinary user without delegation. It never touches a group that it did not make.
package cgroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrUnavailable is returned by [Find] where no group can be made; the text says why.
var ErrUnavailable = errors.New("no control group can be made here")

// Limits of a group. Zero means no limit.
type Limits struct {
	MemoryBytes int64   // memory.max; with swap forbidden where the kernel counts it
	CPUs        float64 // share of processors, in periods of 100 ms
	Processes   int     // processes and threads of the host
}

// periodMicros is the length of a CPU accounting period, the kernel's default (Documentation/scheduler/sched-bwc.rst).
const periodMicros = 100_000

func quotaMicros(cpus float64) int64 { return int64(cpus * periodMicros) }

// prefix begins the name of every group of ours. The rest is the maker's PID namespace, pid and start time, so that a
// sweep tells the groups of living silks from leftovers, and a number.
const prefix = "silk-"

type maker struct {
	namespace uint64 // inode of its PID namespace, namespaces(7); a pid means nothing outside of it
	pid       int
	startTime uint64 // clock ticks since boot, field 22 of proc_pid_stat(5)
}

func (m maker) name(n int64) string {
	return fmt.Sprintf("%s%d-%d-%d-%d", prefix, m.namespace, m.pid, m.startTime, n)
}

// parseName is the reverse of name; ok is false for any other directory.
func parseName(name string) (m maker, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 4 {
		return m, false
	}
	namespace, err0 := strconv.ParseUint(parts[0], 10, 64)
	pid, err1 := strconv.Atoi(parts[1])
	start, err2 := strconv.ParseUint(parts[2], 10, 64)
	_, err3 := strconv.ParseInt(parts[3], 10, 64)
	return maker{namespace, pid, start}, errors.Join(err0, err1, err2, err3) == nil && pid > 0
}

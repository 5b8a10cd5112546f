package cgroup2

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const mountPoint = "/sys/fs/cgroup"

// groups lists the groups that silks of this test made, wherever they are in the tree. Their pids are in the names:
// other silks may run on this host.
func (s *silk) groups(t *testing.T) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(mountPoint, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || e == nil { // it went away while we looked
			return nil
		}
		words := strings.Split(e.Name(), "-") // silk, PID namespace, pid, start time, number
		if err == nil && e.IsDir() && len(words) == 5 && words[0] == "silk" && slices.Contains(s.pids, words[2]) {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// group is the directory of a control group.
type group string

// onlyGroup is the group of the one sandbox there is.
func (s *silk) onlyGroup(t *testing.T) group {
	t.Helper()
	dirs := s.groups(t)
	if len(dirs) != 1 {
		t.Fatalf("groups are %q, want one", dirs)
	}
	return group(dirs[0])
}

// read is the content of a control file.
func (g group) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(string(g), name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// number is the content of a control file with one number in it.
func (g group) number(t *testing.T, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(g.read(t, name), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// processes are the members of the group.
func (g group) processes(t *testing.T) map[int]bool {
	t.Helper()
	pids := map[int]bool{}
	for _, word := range strings.Fields(g.read(t, "cgroup.procs")) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		pids[pid] = true
	}
	return pids
}

// cpu is a number of the group's cpu.stat.
func (g group) cpu(t *testing.T, name string) int64 {
	t.Helper()
	for line := range strings.Lines(g.read(t, "cpu.stat")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("cpu.stat has no %s", name)
	return 0
}

// descendants are the processes below pid, proc_pid_children(5).
func descendants(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is not malformed
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(word); err == nil {
				pids = append(append(pids, child), descendants(child)...)
			}
		}
	}
	return pids
}

// living are those of the processes that have not ended. One that nobody has waited for yet has.
func living(pids []int) (alive []int) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ") // the state, proc_pid_stat(5)
		if !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X") {
			alive = append(alive, pid)
		}
	}
	return alive
}

// processors are those on which each thread of a process may run, as the kernel writes lists: "0-1".
func processors(t *testing.T, pid int) map[string]string {
	t.Helper()
	lists := map[string]string{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) // the pattern is not malformed
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(b)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				lists[file] = strings.TrimSpace(list)
			}
		}
	}
	if len(lists) == 0 {
		t.Fatalf("process %d has no threads to look at", pid)
	}
	return lists
}

package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// newNamed makes a group in a place of its own and removes it with the test.
func newNamed(t *testing.T) (*Named, string) {
	t.Helper()
	find(t)
	top := fmt.Sprintf("/silk-test-%d", os.Getpid())
	path := top + "/container"
	n, err := MakeNamed(path)
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		if err := n.Remove(context.Background()); err != nil {
			t.Error(err)
		}
		for _, dir := range n.dirs() {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is still there", dir)
			}
			if err := os.Remove(filepath.Dir(dir)); err != nil {
				t.Error(err)
			}
		}
	})
	return n, path
}

// sleeper starts a process in n.
func sleeper(t *testing.T, n *Named) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if err := n.Bear(cmd.SysProcAttr, cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestNamed(t *testing.T) {
	n, path := newNamed(t)
	if err := n.Limit(Limits{MemoryBytes: 64 << 20, Processes: 10}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	cmd := sleeper(t, n)
	paths, err := readPaths(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append(slices.Clone(controllers), cpuacct, "") {
		if got, ok := paths[c]; ok && got != path && (c != "" || n.group.root.Version == 2) {
			t.Errorf("the process is in %s of %q", got, c)
		}
	}
	if after, err := os.ReadFile("/proc/self/cgroup"); err != nil || string(after) != string(before) {
		t.Errorf("this process has moved: %s, %v", after, err)
	}
	pids, err := n.Processes()
	if err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Errorf("processes %v, %v, want %d", pids, err, cmd.Process.Pid)
	}
	if _, err := MakeNamed(path); err == nil || !strings.Contains(err.Error(), "another container's") {
		t.Errorf("a second one of that name: %v", err)
	}
	if pids, err := n.Processes(); err != nil || len(pids) != 1 {
		t.Errorf("after that: %v, %v", pids, err)
	}
}

// TestNamedRemovesWhatIsBelow: a sandbox's group is in the container's, and may have been left there.
func TestNamedRemovesWhatIsBelow(t *testing.T) {
	n, _ := newNamed(t)
	cmd := sleeper(t, n)
	inner := filepath.Join(n.group.dirs[0], "silk-1-1-1-1")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if n.group.root.Version == 1 {
		if err := write(filepath.Join(inner, "cgroup.procs"), fmt.Sprint(cmd.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := n.Remove(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-done
	if _, err := os.Stat(inner); err == nil {
		t.Error("the inner group is still there")
	}
}

func TestNamedPaths(t *testing.T) {
	for _, path := range []string{"", "/", "docker/x", "/docker/../x", "system.slice:docker:x"} {
		if _, err := FindNamed(path); err == nil {
			t.Errorf("%q is taken for the path of a group", path)
		}
	}
}

// TestInnerGroups: a group inside a container's of version 2 has no controllers; its limits are the container's.
func TestInnerGroups(t *testing.T) {
	dir := t.TempDir()
	r := &Root{Version: 2, inner: true, shared: true, self: maker{1, 1, 1}, dirs: map[string]string{"memory": dir, "cpu": dir, "pids": dir}}
	for _, name := range []string{"memory.max", "pids.max", "cpu.max", "memory.oom.group"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := r.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Limit(Limits{MemoryBytes: 7, CPUs: 0.5, Processes: 3}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "7", "pids.max": "3", "cpu.max": "50000 100000", "memory.oom.group": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s of the container is %q, %v, want %q", name, got, err, want)
		}
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTighten(t *testing.T) {
	n, _ := newNamed(t)
	cmd := sleeper(t, n)
	if err := n.Tighten(8 << 20); err != nil {
		t.Fatal(err)
	}
	limit, err := os.ReadFile(n.group.file("memory", map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[n.group.root.Version]))
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	if _, err := fmt.Sscan(string(limit), &bytes); err != nil || bytes < 8<<20 || bytes > 64<<20 {
		t.Errorf("limit %s", limit)
	}
	if kills, err := n.OOMKills(); err != nil || kills != 0 {
		t.Errorf("%d kills, %v", kills, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "terminated") { // of two signals the first one ends it
		t.Errorf("the process ended with %v", err)
	}
}

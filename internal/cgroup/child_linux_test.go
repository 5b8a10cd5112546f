package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// child makes a group below that of a process that waits until it is killed.
func child(t *testing.T) (*Group, *exec.Cmd) {
	t.Helper()
	find(t)
	mounts, err := readMounts("/proc/self/mountinfo")
	if err == nil && mounts[""].point == "" {
		err = errors.New("no cgroup2 file system is mounted")
	}
	if err != nil {
		unavailable(t, err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	g, err := Child(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return g, cmd
}

func TestChild(t *testing.T) {
	g, cmd := child(t)
	other, _ := child(t)
	if g.Path() == other.Path() || filepath.Dir(g.Path()) != filepath.Dir(other.Path()) {
		t.Errorf("the groups are %s and %s, want two in one place", g.Path(), other.Path())
	}
	one, err := ID(g.Path())
	two, err2 := ID(other.Path())
	if err := errors.Join(err, err2); err != nil || one == 0 || one == two {
		t.Errorf("their ids are %d and %d: %v", one, two, err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	g.Kill()
	if state, err := cmd.Process.Wait(); err != nil || !strings.Contains(state.String(), "killed") {
		t.Errorf("after Kill it ended with %v, %v", state, err)
	}
	if _, err := Child(1<<22 + 1); !errors.Is(err, ErrUnavailable) { // above the highest pid, proc_sys_kernel(5)
		t.Errorf("a group below that of no process: %v", err)
	}
	if _, err := ID("/"); err == nil {
		t.Error("a directory that is no control group has an id")
	}
}

// TestSweepOfChildren: a group whose maker is gone is removed where version 2 is only mounted besides. Where all is version 2 it is
// below a container's group, goes with that, and is none of Sweep's business.
func TestSweepOfChildren(t *testing.T) {
	r := find(t)
	g, _ := child(t)
	gone := maker{r.self.namespace, 1<<22 + 1, 1}
	dir := filepath.Join(filepath.Dir(g.Path()), gone.name(1))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if r.Version == 2 {
		left, err := r.Leftovers()
		if err = errors.Join(err, r.Sweep(t.Context())); err != nil || slices.Contains(left, dir) {
			t.Errorf("Leftovers() = %q, %v, want %s not among them", left, err, dir)
		}
		if err := os.Remove(dir); err != nil {
			t.Errorf("a child of a container's group was swept: %v", err)
		}
		return
	}
	left, err := r.Leftovers()
	if err == nil && !slices.Contains(left, dir) {
		_, err = os.Stat(dir) // another silk may have swept
	}
	if err == nil && !slices.Contains(left, dir) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Leftovers() = %q, %v, want %s among them", left, err, dir)
	}
	if err := r.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
		_ = os.Remove(dir)
	}
	if _, err := os.Stat(g.Path()); err != nil {
		t.Errorf("a group of a living process: %v", err)
	}
}

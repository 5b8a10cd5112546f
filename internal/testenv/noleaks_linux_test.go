package testenv

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leaks returns what NoLeaks would report for a test that runs f, without waiting for it to settle.
func leaks(t *testing.T, f func()) string {
	t.Helper()
	startPoller(t)
	before, err := takeSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	f()
	return strings.Join(waitSettled(before, 0), "\n")
}

func TestNoLeaksFinds(t *testing.T) {
	ownTempDir(t)

	t.Run("a goroutine", func(t *testing.T) {
		stop, done := make(chan struct{}), make(chan struct{})
		got := leaks(t, func() {
			go func() { defer close(done); <-stop }()
		})
		close(stop)
		<-done
		if !strings.Contains(got, "TestNoLeaksFinds") {
			t.Errorf("got %q, want the goroutine's stack", got)
		}
	})
	t.Run("a descriptor", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "open")
		got := leaks(t, func() {
			f, err := os.OpenFile(path, os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
		})
		if !strings.Contains(got, "-> "+path) {
			t.Errorf("got %q, want descriptor of %s", got, path)
		}
	})
	t.Run("a child and its network namespace", func(t *testing.T) {
		Require(t, Root)
		cmd := exec.CommandContext(t.Context(), "sleep", "3600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
		got := leaks(t, func() {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if !strings.Contains(got, "sleep") || !strings.Contains(got, "network namespace net:[") {
			t.Errorf("got %q, want the process and its network namespace", got)
		}
	})
	t.Run("a child that nobody waits for", func(t *testing.T) {
		cmd := exec.CommandContext(context.Background(), "true")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		got := leaks(t, func() {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_, _ = stdout.Read(make([]byte, 1)) // returns at end of file: the child is gone but for its exit status
		})
		_ = cmd.Wait()
		if !strings.Contains(got, "process ") {
			t.Errorf("got %q, want the zombie", got)
		}
	})
	t.Run("a temporary directory", func(t *testing.T) {
		var dir string
		got := leaks(t, func() {
			var err error
			if dir, err = os.MkdirTemp("", "any"); err != nil {
				t.Fatal(err)
			}
		})
		if !strings.Contains(got, dir) {
			t.Errorf("got %q, want %s", got, dir)
		}
	})
	t.Run("a mount", func(t *testing.T) {
		Require(t, Root)
		dir := t.TempDir()
		got := leaks(t, func() {
			if err := unix.Mount("silk-left", dir, "tmpfs", 0, "size=4k"); err != nil {
				t.Fatal(err)
			}
		})
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, "tmpfs silk-left on "+dir) {
			t.Errorf("got %q, want the mount", got)
		}
	})
	t.Run("a cgroup directory", func(t *testing.T) {
		Require(t, CgroupV1)
		mounts, err := readMounts()
		if err != nil {
			t.Fatal(err)
		}
		var dir string
		got := leaks(t, func() {
			for _, m := range mounts {
				if m.fsType == "cgroup" && hasWord(m.superOptions, "pids") {
					if dir, err = os.MkdirTemp(m.point, "silk-test-"); err != nil {
						t.Fatal(err)
					}
					return
				}
			}
		})
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, "cgroup directory "+dir) {
			t.Errorf("got %q, want %s", got, dir)
		}
	})
}

func TestNoLeaks(t *testing.T) {
	r := &recorder{TB: t}
	NoLeaks(r)
	dir, err := os.MkdirTemp("", "any")
	if err != nil {
		t.Fatal(err)
	}
	r.Cleanup(func() { os.RemoveAll(dir) })
	if err := exec.CommandContext(t.Context(), "true").Run(); err != nil {
		t.Fatal(err)
	}
	temp := os.Getenv("TMPDIR")
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	if r.failed != "" {
		t.Error(r.failed)
	}
	if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", temp, err)
	}
}

func TestNoLeaksWaitsForSlowEnds(t *testing.T) {
	ownTempDir(t) // other packages use the common one
	before, err := takeSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	timer := time.NewTimer(3 * settleStep)
	go func() { <-timer.C }()
	if left := waitSettled(before, settleTime); len(left) > 0 {
		t.Errorf("got %q, want nothing: the goroutine ended by itself", left)
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat(7, "7 (a) (b) c) S 5 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0")
	if err != nil {
		t.Fatal(err)
	}
	if want := (process{pid: 7, parent: 5, name: "a) (b) c", state: "S", startTicks: "12345"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, text := range []string{"", "7 (x", "7 (x) S", "7 (x) S five" + strings.Repeat(" 0", 30)} {
		if _, err := parseStat(7, text); err == nil {
			t.Errorf("parseStat(%q) succeeded", text)
		}
	}
}

func TestParseMounts(t *testing.T) {
	got := parseMounts("36 35 98:0 /r\\040x /a\\040b rw,noatime master:1 - ext3 /dev/root rw,errors=continue\nnonsense\n")
	want := mount{id: "36", root: "/r x", point: "/a b", fsType: "ext3", source: "/dev/root", superOptions: "rw,errors=continue"}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestOurs(t *testing.T) {
	self := os.Getpid()
	all := map[int]process{
		10: {pid: 10, parent: 1, name: "silk"},
		11: {pid: 11, parent: 10, name: "silk-sentry"},
		12: {pid: 12, parent: 1, name: "silk-sentry"},
		13: {pid: 13, parent: 1, name: "sleep"},
		14: {pid: 14, parent: self, name: "sleep"},
		15: {pid: 15, parent: 14, name: "silk-sentry"},
		16: {pid: 16, parent: 99, name: "silk-sentry"}, // its parent ended while we looked
		17: {pid: 17, parent: 13, name: "silk-sentry"}, // adopted by a process that starts none
		18: {pid: 18, parent: 11, name: "silk-sentry"},
		19: {pid: 19, parent: 20, name: "loop"},
		20: {pid: 20, parent: 19, name: "loop"},
	}
	want := map[int]bool{12: true, 14: true, 15: true, 17: true}
	for pid, p := range all {
		if got := ours(all, p); got != want[pid] {
			t.Errorf("ours(%d %s) = %v, want %v", pid, p.name, got, want[pid])
		}
	}
}

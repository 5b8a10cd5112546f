//go:build unix

package lockfile

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func held(t *testing.T, path string) bool {
	t.Helper()
	h, err := Held(path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHeldUntilRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if held(t, path) {
		t.Error("a file that is not there is held")
	}
	l, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if !held(t, path) {
		t.Error("not held by its maker")
	}
	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create: %v", err)
	}
	if err := l.Remove(); err != nil {
		t.Fatal(err)
	}
	if held(t, path) {
		t.Error("held after Remove")
	}
	if l, err = Create(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil || held(t, path) {
		t.Errorf("held after Leave, or gone: %v", err)
	}
}

// TestKilledMakerHoldsNothing makes the lock in a process that is then killed.
func TestKilledMakerHoldsNothing(t *testing.T) {
	if path := os.Getenv("SILK_LOCKFILE_TEST"); path != "" {
		if _, err := Create(path); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		select {}
	}
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledMakerHoldsNothing$")
	cmd.Env = append(os.Environ(), "SILK_LOCKFILE_TEST="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the maker said %q, %v", line, err)
	}
	if !held(t, path) {
		t.Error("not held while its maker lives")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the killed maker ended well")
	}
	if held(t, path) {
		t.Error("held after its maker was killed")
	}
}

// Take is for work that one process at a time does: the lock goes from one to the next, the file stays.
func TestTakeOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for range 2 {
		l, err := Take(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Take(path); !errors.Is(err, ErrHeld) {
			t.Errorf("a second Take: %v", err)
		}
		if err := l.Leave(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("after Leave: %v, %v", info, err)
		}
	}
}

// A directory is locked by one at a time, and nothing is made in it.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	first, err := Directory(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("late")
	cancel(late)
	if _, err := Directory(ctx, dir); !errors.Is(err, ErrHeld) || !errors.Is(err, late) {
		t.Errorf("a second one: %v", err)
	}
	second := make(chan error)
	go func() {
		l, err := Directory(t.Context(), dir)
		if err == nil {
			err = l.Leave()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("two have it: %v", err)
	default:
	}
	if err := first.Leave(); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Errorf("after the first one: %v", err)
	}
	if names, err := os.ReadDir(dir); len(names) != 0 || err != nil {
		t.Errorf("in it are %v, %v", names, err)
	}
	if _, err := Directory(t.Context(), filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing one: %v", err)
	}
}

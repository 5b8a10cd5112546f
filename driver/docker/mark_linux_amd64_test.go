package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/cgroup"
)

// TestEngineGoesAway: at the end of a run there is no engine to remove the container. That has its name, and the container's mark stays until a sweep
// finds an engine.
func TestEngineGoesAway(t *testing.T) {
	d := newDriver(t)
	there := d.engine
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	id := fmt.Sprintf("away-%d", os.Getpid())
	s, err := started(t, d, id, w, "echo up; sleep 1000", nil)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "up\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	mark := d.mark(id)
	if d.engine, err = newEngine("unix://" + filepath.Join(t.TempDir(), "none")); err != nil {
		t.Fatal(err)
	}
	s.Kill(driver.KillNow)
	if _, err := s.Wait(); !errors.Is(err, ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("a sweep does not know of the container: %v", err)
	}
	if err := errors.Join(there.remove(context.Background(), name(id)), os.RemoveAll(mark)); err != nil {
		t.Error(err)
	}
}

// TestMarksOfEngines: what a silk left with one engine, a silk with another one leaves alone, since that has no such container; and one engine has
// two names.
func TestMarksOfEngines(t *testing.T) {
	owner, err := cgroup.Owner()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(owner, "-")
	parts[2] = "1" // it began when the machine did, and is no more
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "run"), 0o700), os.Symlink("run", filepath.Join(dir, "again"))); err != nil {
		t.Fatal(err)
	}
	of := func(socket string) *Driver {
		e, err := newEngine("unix://" + filepath.Join(dir, socket))
		if err != nil {
			t.Fatal(err)
		}
		return &Driver{config: Config{Run: dir}.withDefaults(), engine: e, owner: strings.Join(parts, "-")}
	}
	if err := os.MkdirAll(of("run/one").mark("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for socket, want := range map[string]int{"run/one": 1, "again/one": 1, "run/other": 0} {
		if left, err := of(socket).Leftovers(); err != nil || len(left) != want {
			t.Errorf("%s: left %q, %v, want %d", socket, left, err, want)
		}
	}
}

package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/driver"
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
	if d.engine, err = newEngine("unix://" + filepath.Join(t.TempDir(), "none")); err != nil {
		t.Fatal(err)
	}
	s.Kill(driver.KillNow)
	if _, err := s.Wait(); !errors.Is(err, ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
	mark := filepath.Join(d.runs(), d.owner+"_"+id)
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("a sweep does not know of the container: %v", err)
	}
	if err := errors.Join(there.remove(context.Background(), name(id)), os.RemoveAll(mark)); err != nil {
		t.Error(err)
	}
}

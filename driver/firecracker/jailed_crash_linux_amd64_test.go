package firecracker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// A silk that is killed at any moment leaves no VMM, though that has changed its user: the reaper ends it. What is left, a jail, the next silk sweeps.
func TestJailedKilled(t *testing.T) {
	if os.Getenv(envChild) != "" {
		jailedChild(t)
		return
	}
	d := newJailedDriver(t, nil)
	testenv.NoLeaks(t)
	for i := range trials() {
		waitGone(t, killChild(t, "TestJailedKilled", moment(i)))
		if left, err := d.Leftovers(); err != nil || len(left) != 1 {
			t.Errorf("left are %q, %v, want one jail", left, err)
		}
		if err := d.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, d)
		noInmates(t, d)
	}
}

// noInmates waits until no process has its working directory in a jail: of a double, its machine dies with it, but a moment later.
func noInmates(t *testing.T, d *Driver) {
	t.Helper()
	for {
		dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			t.Fatal(err)
		}
		lives := ""
		for _, dir := range dirs {
			if to, err := os.Readlink(dir); err == nil && strings.HasPrefix(to, d.host.vmm.(*jailed).base) {
				lives = dir
			}
		}
		if lives == "" {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s is still in a jail", lives)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// jailedChild has a machine until it is killed.
func jailedChild(t *testing.T) {
	d := newJailedDriver(t, nil)
	vmms := make(chan int, 1)
	vmmStarted = func(pid int) { vmms <- pid }
	go func() { fmt.Println("vmm", <-vmms) }()
	s, err := d.Start(context.Background(), jailedSpec(t, "killed"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Wait()
	t.Fatal("it ended by itself: ", err)
}

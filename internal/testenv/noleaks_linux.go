package testenv

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Kernel and runtime release some things a moment after the call that ended them has returned (a reaped process's
// namespaces, a goroutine on its way out), so what is new counts as left behind only if it stays this long.
const (
	settleTime = 10 * time.Second
	settleStep = 20 * time.Millisecond
)

// NoLeaks fails t if, when it has ended, something exists that did not exist when NoLeaks was called: a goroutine, an
// open descriptor, a child process or a silk-sentry, a mount of silk's or below the temporary directory, a cgroup
// directory named silk-*, anything in the temporary directory, or a network namespace held by one of our children.
//
// Call it first, before anything registers a cleanup: it looks after the cleanups that were registered later. Until
// then TMPDIR is a directory of the test's own. It waits up to ten seconds for things to go away, and leaves alone what
// belongs to another living process, so that packages can be tested side by side. Do not use it in parallel tests,
// which share one process.
func NoLeaks(t testing.TB) {
	t.Helper()
	ownTempDir(t)
	startPoller(t)
	before, err := takeSnapshot()
	if err != nil {
		t.Fatalf("look for leaks before the test: %v", err)
	}
	t.Cleanup(func() {
		if left := waitSettled(before, settleTime); len(left) > 0 {
			t.Errorf("the test left %d things behind:\n%s", len(left), strings.Join(left, "\n"))
		}
	})
}

// ownTempDir gives the test a temporary directory that no other process uses. Its name is short, since paths of unix
// sockets are (108 bytes, unix(7)), and testing's own directories for t go below it.
func ownTempDir(t testing.TB) {
	t.Helper()
	dir, err := os.MkdirTemp("", "leak")
	if err == nil {
		err = os.Chmod(dir, os.ModeSticky|0o777) // as /tmp: a test may drop its privileges
	}
	if err != nil {
		t.Fatalf("look for leaks before the test: %v", err)
	}
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the temporary directory of the test: %v", err)
		}
	})
}

// startPoller makes the Go runtime open its epoll and event descriptors now, so that they do not look like a leak of
// the test that polls first.
func startPoller(t testing.TB) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("look for leaks before the test: %v", err)
	}
	r.Close()
	w.Close()
}

// waitSettled returns what is new since before and does not go away within limit, in stable order.
func waitSettled(before snapshot, limit time.Duration) []string {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(settleStep)
	defer tick.Stop()
	for {
		after, err := takeSnapshot()
		if err != nil {
			return []string{fmt.Sprintf("look for leaks after the test: %v", err)}
		}
		left := newSince(before, after)
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		<-tick.C
	}
}

// snapshot maps an identity, which stays the same as long as the thing lives, to a description.
type snapshot map[string]string

func newSince(before, after snapshot) []string {
	var left []string
	for id, description := range after {
		if _, ok := before[id]; !ok {
			left = append(left, "  "+description)
		}
	}
	slices.Sort(left)
	return left
}

func takeSnapshot() (snapshot, error) {
	s := snapshot{}
	s.addGoroutines()
	for _, add := range []func() error{s.addDescriptors, s.addProcesses, s.addMounts, s.addCgroups, s.addTempDirs} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

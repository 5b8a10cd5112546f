package gvisor

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A kernel that never says that its policy is in force gets no workspace, without which it starts nothing.
func TestFillWaitsUntilArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sandbox{kernel: &kernel{gone: make(chan struct{})}, armed: make(chan struct{})}
		filled := make(chan error, 1)
		called := false
		go func() {
			filled <- s.fill(io.Discard, func(io.Writer) error {
				called = true
				return nil
			}, time.NewTimer(time.Hour))
		}()
		synctest.Wait()
		if called {
			t.Error("the workspace is filled before the kernel is armed")
		}
		close(s.kernel.gone)
		if err := <-filled; !errors.Is(err, unix.EPIPE) || called {
			t.Errorf("a kernel that ended unarmed: %v, filled %t", err, called)
		}
	})

	s := &sandbox{kernel: &kernel{gone: make(chan struct{})}, armed: make(chan struct{})}
	close(s.armed)
	var b bytes.Buffer
	if err := s.fill(&b, nil, time.NewTimer(time.Hour)); err != nil || b.Len() == 0 {
		t.Errorf("without a workspace an armed kernel gets %d bytes, %v; want an empty archive", b.Len(), err)
	}
}

// TestFillTakesItsTime: a run may be held before its first instruction for as long as its engine likes.
func TestFillTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sandbox{kernel: &kernel{gone: make(chan struct{})}, armed: make(chan struct{})}
		close(s.armed)
		timer := time.AfterFunc(startTimeout, func() { t.Error("the start is given up while the workspace is being filled") })
		err := s.fill(io.Discard, func(io.Writer) error {
			<-time.After(2 * startTimeout)
			return nil
		}, timer)
		if err != nil {
			t.Error(err)
		}
	})
}

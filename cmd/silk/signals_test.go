//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestSignalsCancel(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			ctx, stop := withSignals(t.Context(), func() {})
			defer stop()
			if err := syscall.Kill(os.Getpid(), sig); err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, errSignal) {
				t.Errorf("cause %v", cause)
			}
		})
	}
}

// timeout(1) signals silk and then silk's process group: the second signal is no second Ctrl-C.
func TestSignalsEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, done, ended := make(chan os.Signal), make(chan struct{}), make(chan struct{})
		firsts, agains := 0, 0
		go func() {
			defer close(ended)
			watchSignals(signals, done, func() { firsts++ }, func() { agains++ })
		}()
		for range 3 {
			signals <- syscall.SIGTERM
		}
		synctest.Wait()
		if firsts != 1 || agains != 0 {
			t.Fatalf("after an echo: first %d, again %d", firsts, agains)
		}
		<-time.After(echo)
		signals <- syscall.SIGINT
		<-ended
		if firsts != 1 || agains != 1 {
			t.Fatalf("after the second wish: first %d, again %d", firsts, agains)
		}
	})
}

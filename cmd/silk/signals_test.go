//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestSignalsCancel(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
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

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// errSignal is the cause of a context that ended because somebody pressed Ctrl-C or sent SIGTERM.
var errSignal = errors.New("interrupted")

// withSignals returns a context that ends at the first SIGINT, SIGTERM or SIGHUP. The second one ends the process at
// once, after a call of last; its sandbox dies with it. stop gives the signals back.
func withSignals(parent context.Context, last func()) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for first := true; ; first = false {
			select {
			case <-signals:
				if !first {
					last()
					os.Exit(statusInterrupted) //nolint:forbidigo // the second Ctrl-C: whatever hangs must not keep the user waiting
				}
				cancel(errSignal)
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel(nil)
	}
}

// statusInterrupted is 128 + SIGINT, the exit status of a canceled run.
const statusInterrupted = 130

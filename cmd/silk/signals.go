package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// errSignal is the cause of a context that ended because somebody pressed Ctrl-C or Ctrl-\ or sent SIGTERM.
var errSignal = errors.New("interrupted")

// echo is how long after the first signal more of them are one and the same wish: timeout(1) signals its child and then
// the child's process group, and a terminal that closes sends SIGHUP beside the shell's.
const echo = time.Second

// withSignals returns a context that ends at the first SIGINT, SIGTERM, SIGHUP or SIGQUIT. One that comes later than echo
// after it ends the process at once, after a call of last; its sandbox dies with it. stop gives the signals back.
func withSignals(parent context.Context, last func()) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watchSignals(signals, done, func() { cancel(errSignal) }, func() {
			last()
			os.Exit(statusInterrupted) //nolint:forbidigo // the second Ctrl-C: whatever hangs must not keep the user waiting
		})
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel(nil)
	}
}

// watchSignals calls first at the first signal, and again at the next one that is no echo of it. It returns when done is
// closed or again has returned.
func watchSignals(signals <-chan os.Signal, done <-chan struct{}, first, again func()) {
	var at time.Time
	for {
		select {
		case <-signals:
			switch {
			case at.IsZero():
				at = time.Now()
				first()
			case time.Since(at) >= echo:
				again()
				return
			}
		case <-done:
			return
		}
	}
}

// statusInterrupted is 128 + SIGINT, the exit status of a canceled run.
const statusInterrupted = 130

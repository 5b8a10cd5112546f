//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/silk-sandbox/silk/run"
)

// watchSize reports the size of a terminal, at once and whenever it changes, until stop is called.
func watchSize(terminal *os.File) (sizes <-chan run.Size, stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	out := make(chan run.Size, 1)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if columns, rows, err := term.GetSize(int(terminal.Fd())); err == nil {
				select {
				case out <- run.Size{Columns: uint16(columns), Rows: uint16(rows)}:
				case <-done:
					return
				}
			}
			select {
			case <-changes:
			case <-done:
				return
			}
		}
	}()
	return out, func() {
		signal.Stop(changes)
		close(done)
		<-ended
	}
}

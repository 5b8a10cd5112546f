package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/internal/pty"
	"github.com/silk-sandbox/silk/oci"
	"github.com/silk-sandbox/silk/run"
)

// connect connects the run to what the engine gave the container: three channels, or a terminal whose main side goes to the engine.
// Between the two is the run's own, so that what the program prints is kept as for every run.
func (m *monitor) connect(with *run.IO, wish oci.Wish, undo *cleanup.Stack) error {
	a := m.app
	if wish.Request.Terminal {
		replica, err := m.terminal(wish)
		if err != nil {
			return err
		}
		undo.Push(func(context.Context) error { return replica.Close() })
		sizes, stop := watchSize(replica)
		undo.PushFunc(stop)
		with.Resize = sizes
		a.in, a.out, a.err = replica, replica, returning{replica}
	}
	with.Stdin = a.in
	with.OnFrame = func(frame run.Frame) {
		w := a.out
		if frame.Channel == "stderr" {
			w = a.err
		}
		if _, err := w.Write(frame.Data); err != nil {
			m.cancel(errNobodyReads)
		}
		if n := len(frame.Data); n > 0 && (frame.Channel == "stderr" || wish.Request.Terminal) {
			a.midLine.Store(frame.Data[n-1] != '\n')
		}
	}
	return nil
}

// terminal makes the terminal between engine and run, hands its main side over and returns the other one.
func (m *monitor) terminal(wish oci.Wish) (_ *os.File, err error) {
	if m.console == "" {
		return nil, usagef("the spec asks for a terminal, and there is no --console-socket to hand it to")
	}
	side, replica, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, side.Close())
		if err != nil {
			err = errors.Join(err, replica.Close())
		}
	}()
	if wish.Size != [2]uint16{} {
		if err := pty.Resize(side, wish.Size[0], wish.Size[1]); err != nil {
			return nil, err
		}
	}
	if err := pty.Own(replica); err != nil { // or nobody tells us of another size
		return nil, err
	}
	if _, err := term.MakeRaw(int(replica.Fd())); err != nil {
		return nil, fmt.Errorf("prepare terminal: %w", err)
	}
	return replica, pty.Hand(m.console, side)
}

// returning writes lines of silk's own to a terminal in raw mode, where a line feed alone begins no line.
type returning struct{ w io.Writer }

func (r returning) Write(b []byte) (int, error) {
	if _, err := r.w.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

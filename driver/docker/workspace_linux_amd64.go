package docker

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
)

// fill writes what a spec has for the workspace, if it has anything.
func fill(w *confine.Workspace, write func(io.Writer) error) error {
	if write == nil {
		return nil
	}
	r, to := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(to)
		to.CloseWithError(err)
		wrote <- err
	}()
	err := w.Fill(r)
	r.CloseWithError(err)
	if writeErr := <-wrote; writeErr != nil && (err == nil || !errors.Is(writeErr, err)) {
		return fmt.Errorf("fill workspace: %w", writeErr)
	}
	return err
}

// drain reads the workspace, which outlives the program. A stream that was cut short is drainErr.
func (s *sandbox) drain(exit driver.Exit, err error) (drainErr, _ error) {
	if s.spec.Drain == nil {
		return nil, err
	}
	if s.now.Load() || err != nil || s.workspace == nil {
		r, w := io.Pipe()
		w.CloseWithError(io.ErrUnexpectedEOF)
		_ = s.spec.Drain(r)
		return errors.New("the workspace was not drained: the sandbox was ended at once"), err
	}
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := s.workspace.Drain(moving{w, func() { s.moved.Add(1) }}, s.driver.config.bounds())
		w.CloseWithError(err)
		wrote <- err
	}()
	stop := make(chan struct{})
	if exit.Killed {
		go s.cutIfStuck(w, stop)
	}
	readErr := s.spec.Drain(r)
	r.CloseWithError(errors.Join(readErr, io.ErrClosedPipe))
	close(stop)
	writeErr := <-wrote
	switch {
	case errors.Is(writeErr, errStuck):
		return writeErr, err
	case readErr != nil:
		return nil, errors.Join(err, readErr)
	case writeErr != nil && !errors.Is(writeErr, io.ErrClosedPipe):
		return writeErr, err
	}
	return nil, err
}

// errStuck is of a drain that nobody read from.
var errStuck = errors.New("the workspace was not drained: it stood still")

// cutIfStuck ends the drain of a sandbox that was killed when it does not go on.
func (s *sandbox) cutIfStuck(w *io.PipeWriter, stop chan struct{}) {
	for before := int64(-1); ; {
		select {
		case <-stop:
			return
		case <-time.After(killGrace):
		}
		now := s.moved.Load()
		if now == before || s.now.Load() {
			w.CloseWithError(errStuck)
			return
		}
		before = now
	}
}

// bounds are those of what is drained.
func (c Config) bounds() confine.Bounds {
	return confine.Bounds{FileBytes: c.MaxFileBytes, TotalBytes: c.MaxTotalBytes, Entries: c.MaxEntries}
}

// moving counts what was written, so that somebody can see whether it goes on.
type moving struct {
	io.Writer
	wrote func()
}

func (m moving) Write(b []byte) (int, error) {
	n, err := m.Writer.Write(b)
	m.wrote()
	return n, err
}

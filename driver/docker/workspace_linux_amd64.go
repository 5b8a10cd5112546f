package docker

import (
	"errors"
	"fmt"
	"io"

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

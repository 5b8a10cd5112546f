package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/store"
)

// Places are where the parts of a bundle lie that are not in the database.
type Places struct {
	Home      string                              // the state directory
	Artifacts string                              // directory with the artifacts of the run; "": there is none
	Image     func(digest string) ([]byte, error) // its description; an error that is fs.ErrNotExist: it is gone. nil: it is left out
}

// Collect puts together all that is kept of a run with a full id. missing are the artifacts of which there is no content. A run that
// nobody has signed has no Envelope.
func Collect(ctx context.Context, db *store.DB, from Places, run string) (b Bundle, missing []string, err error) {
	e, err := record.Get(ctx, db, run)
	if err != nil {
		return Bundle{}, nil, err
	}
	b.Kept.Record, run = e.Record, e.Record.Run
	if b.Envelope, err = record.Envelope(ctx, db, run); err != nil && !errors.Is(err, record.ErrUnsigned) {
		return Bundle{}, nil, err
	}
	for what, to := range map[string]*[]byte{record.InputRequest: &b.Kept.Request, record.InputWorkspace: &b.Kept.Workspace, record.InputStdin: &b.Kept.Stdin} {
		if *to, err = record.KeptInput(ctx, db, from.Home, run, what); err != nil {
			return Bundle{}, nil, err
		}
	}
	for channel, to := range map[string]*[]byte{"stdout": &b.Stdout, "stderr": &b.Stderr} {
		if *to, err = output(ctx, db, from.Home, run, channel); err != nil {
			return Bundle{}, nil, err
		}
	}
	if from.Image != nil && e.Record.Image != "" {
		if b.Image, err = from.Image(e.Record.Image); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Bundle{}, nil, err
		}
	}
	b.Artifacts, missing, err = artifacts(from.Artifacts, e.Record)
	return b, missing, err
}

func output(ctx context.Context, db *store.DB, home, run, channel string) ([]byte, error) {
	r, err := record.Output(ctx, db, home, run, channel)
	if errors.Is(err, record.ErrRemoved) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close() // it was only read
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s of run %s: %w", channel, run, err)
	}
	return text, nil
}

// artifacts reads those that are in dir. A program chose the names.
func artifacts(dir string, r record.Record) (found map[string][]byte, missing []string, err error) {
	found = map[string][]byte{}
	var root *os.Root
	if dir != "" {
		root, err = os.OpenRoot(dir)
		switch {
		case err == nil:
			defer root.Close() // it was only read
		case !errors.Is(err, fs.ErrNotExist):
			return nil, nil, fmt.Errorf("open the artifacts: %w", err)
		}
	}
	for _, a := range r.Artifacts {
		if a.Type != "file" || a.Omitted != "" {
			continue
		}
		path := pathOf(a)
		if root == nil {
			missing = append(missing, path)
			continue
		}
		name := filepath.FromSlash(path)
		info, err := root.Lstat(name)
		if err == nil && !info.Mode().IsRegular() { // a pipe would be waited for
			err = fmt.Errorf("%q is no file any more", path)
		}
		var data []byte
		if err == nil {
			data, err = root.ReadFile(name)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, path)
		case err != nil:
			return nil, nil, fmt.Errorf("read artifact: %w", err)
		default:
			found[path] = data
		}
	}
	return found, missing, nil
}

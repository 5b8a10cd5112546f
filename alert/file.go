package alert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// terminal is the sink for people who look.
type terminal struct {
	coloured bool

	mu sync.Mutex // lines of two runs must not mix
	w  io.Writer
}

func (*terminal) name() string                { return "stderr" }
func (*terminal) timeout() time.Duration      { return defaultTimeout }
func (*terminal) check(context.Context) error { return nil }

func (t *terminal) raise(_ context.Context, a Alert) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.w, a.Line(t.coloured)+"\n")
	return err
}

// file is the sink for those who collect logs. Several processes may append to one.
type file struct{ path string }

func (f file) name() string         { return "file " + f.path }
func (file) timeout() time.Duration { return defaultTimeout }

func (f file) raise(_ context.Context, a Alert) (err error) {
	text, err := a.MarshalJSON()
	if err != nil {
		return err
	}
	w, err := openAppend(f.path, os.O_CREATE)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	// An earlier line that a full disk cut off must not take this one with it.
	begin := ""
	if info, err := w.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := w.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			begin = "\n"
		}
	}
	if _, err := io.WriteString(w, begin+string(text)+"\n"); err != nil { // one write: others append whole lines too
		return err
	}
	return w.Sync()
}

func (f file) check(context.Context) error {
	w, err := openAppend(f.path, 0)
	if errors.Is(err, fs.ErrNotExist) && checkDir(filepath.Dir(f.path)) == nil {
		return nil // it will be made
	}
	if err != nil {
		return err
	}
	return w.Close()
}

// checkDir refuses a directory in which others could put another file in the place of ours.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case !ownedByUs(info):
		return fmt.Errorf("directory %s belongs to somebody else, who could put another file there", dir)
	case info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("directory %s can be written by others than its owner, who could put another file there", dir)
	}
	return nil
}

// openAppend opens a regular file that nobody but us, and root, can change.
func openAppend(path string, flags int) (*os.File, error) {
	// For reading too: so a fifo in its place does not hold us until somebody else reads it (fifo(7)).
	if err := checkDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|flags|noFollow, 0o600)
	if link, other := os.Lstat(path); err != nil && other == nil && link.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%s is a link", path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o022 != 0:
		err = fmt.Errorf("%s can be written by others than its owner", path)
	case !ownedByUs(info):
		err = fmt.Errorf("%s belongs to somebody else", path)
	case names(info) != 1:
		err = fmt.Errorf("%s has %d names: it may be another file of somebody's", path, names(info))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Package atomicfile writes files that others may read: a reader sees the old content or the new, never a part, also
// after a crash or a power loss.
//
// Use it for state. Do not use it for scratch files that only their writer reads, nor for paths that sandboxed code can
// influence: those go through os.Root (see workspace).
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write replaces the file at path with data. The new file has exactly the permissions perm, whatever the umask and
// whatever the old file had; its directory must exist. The data is on disk before the name changes, and the change of
// the name is atomic; a power loss just afterwards may bring back the old content, whole. A link at path is replaced,
// not followed. On error the old file is untouched and no temporary file is left.
func Write(path string, data []byte, perm fs.FileMode) error {
	return WriteFunc(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFunc is Write for content that is made piece by piece: write makes it. An error of write leaves the old file.
func WriteFunc(path string, perm fs.FileMode, write func(io.Writer) error) error {
	return WriteIf(path, perm, write, func() error { return nil })
}

// WriteIf is WriteFunc for a file that others write too: still is asked when nothing is left to do but to change the name, and its
// error leaves the old file. Who writes between its answer and the change is overwritten.
func WriteIf(path string, perm fs.FileMode, write func(io.Writer) error, still func() error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	err = write(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err = errors.Join(f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = still(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// SyncDir makes the names in a directory durable: those of new files, and that others are gone. Not every system can.
func SyncDir(dir string) (err error) {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// IsTemporary says whether name is one that WriteFunc gives to files that it has not finished, for those who clear away
// what a crash left of them.
func IsTemporary(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, "-")
}

// Package atomicfile writes files that others may read: a reader sees the old content or the new, never a part, also
// after a crash or a power loss.
//
// Use it for state. Do not use it for scratch files that only their writer reads, nor for paths that sandboxed code can
// influence: those go through os.Root (see workspace).
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path with data. The new file has exactly the permissions perm, whatever the umask and
// whatever the old file had; its directory must exist. The data is on disk before the name changes, and the change of
// the name is atomic; a power loss just afterwards may bring back the old content, whole. A link at path is replaced,
// not followed. On error the old file is untouched and no temporary file is left.
func Write(path string, data []byte, perm fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Lock is a locked file.
type Lock struct{ f *os.File }

// Create makes the file at path, readable by its owner alone, and locks it. It must not exist.
func Create(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close(), os.Remove(path))
	}
	return &Lock{f}, nil
}

// Remove removes the file and drops the lock.
func (l *Lock) Remove() error { return errors.Join(os.Remove(l.f.Name()), l.f.Close()) }

// Held says whether the maker of the file at path is alive. A file that is not there is not held. When it cannot tell,
// it returns an error and true.
func Held(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	}
	return true, fmt.Errorf("look at lock %s: %w", path, err)
}

//go:build unix

package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Lock is a locked file.
type Lock struct {
	f    *os.File
	path string
}

// Create makes the file at path, readable by its owner alone, and locks it. The file has the name only while it is
// locked, so that nobody takes it for one whose maker is gone. It must not exist.
func Create(path string) (_ *Lock, err error) {
	f, err := os.OpenFile(path+Making, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, os.Remove(path+Making))
		if err != nil {
			f.Close() // drops the lock; nothing was written
		}
	}()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := os.Link(path+Making, path); err != nil { // unlike a rename it replaces nothing
		return nil, err
	}
	return &Lock{f, path}, nil
}

// Take locks the file at path, which is made if it is not there and stays when the lock is dropped with Leave. It does
// not wait: the error is [ErrHeld] if another has it.
func Take(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, errors.Join(err, f.Close()))
	}
	return &Lock{f, path}, nil
}

// waits is how long Directory waits until it tries again.
const waits = 2 * time.Millisecond

// Directory locks a directory that is there, for work on the files in it that one process at a time does, and leaves nothing in it. It
// waits until ctx ends: the error is then [ErrHeld] and the context's cause. It wraps [errors.ErrUnsupported] where the file system
// has no locks of directories.
func Directory(ctx context.Context, dir string) (_ *Lock, err error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("lock %s: %w", dir, errors.Join(err, f.Close()))
		}
	}()
	tick := time.NewTicker(waits)
	defer tick.Stop()
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return &Lock{f, dir}, nil
		case errors.Is(err, syscall.EBADF), errors.Is(err, syscall.ENOLCK): // NFS wants a file that is open for writing (flock(2))
			return nil, fmt.Errorf("%w (%w)", err, errors.ErrUnsupported)
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, err // ENOSYS and EOPNOTSUPP are errors.ErrUnsupported
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, %w", ErrHeld, context.Cause(ctx))
		}
	}
}

// Remove removes the file and drops the lock.
func (l *Lock) Remove() error { return errors.Join(os.Remove(l.path), l.f.Close()) }

// Leave drops the lock and leaves the file, as the death of its maker would.
func (l *Lock) Leave() error { return l.f.Close() }

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
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) // shared: two that look at once do not see each other
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	}
	return true, fmt.Errorf("look at lock %s: %w", path, err)
}

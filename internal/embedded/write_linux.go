package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// write makes path with content, whole or not at all. The file has no name until it is whole, so that a silk that is
// killed while it unpacks leaves nothing.
func write(path string, content []byte) error {
	dir := filepath.Dir(path)
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, executable)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOENT) { // NFS and others: open(2)
		return renameio.WriteFile(path, content, executable, renameio.IgnoreUmask(), renameio.WithTempDir(dir))
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(executable), f.Sync()); err != nil {
		return err
	}
	link := func(name string) error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	}
	err = link(path)
	if errors.Is(err, unix.EEXIST) {
		// Another silk was faster, or what is there is not whole. A rename replaces it without a moment in which there
		// is none; the same bytes again harm nobody.
		next := fmt.Sprintf("%s.%d", path, os.Getpid())
		if err = link(next); err == nil {
			if err = os.Rename(next, path); err != nil {
				err = errors.Join(err, os.Remove(next))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("name %s: %w", path, err)
	}
	return nil
}

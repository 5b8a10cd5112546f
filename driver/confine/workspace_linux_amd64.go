package confine

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// Workspace is the directory at /workspace, in which nothing of the run lives yet when it is filled, or any more when it is drained.
type Workspace struct {
	root     *os.Root
	readOnly bool
	before   map[string]stamp
	Begun    time.Time // when the program could begin
}

// stamp tells whether a file is still what fill wrote. A program cannot set a change time.
type stamp struct {
	inode, size     uint64
	changed, edited unix.Timespec
	mode            uint32
}

func stampOf(s *unix.Stat_t) stamp { return stamp{s.Ino, uint64(s.Size), s.Ctim, s.Mtim, s.Mode} }

// OpenWorkspace opens it. Close it.
func OpenWorkspace(dir string, readOnly bool) (*Workspace, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	return &Workspace{root: r, readOnly: readOnly, before: map[string]stamp{}}, nil
}

// Close gives it back.
func (w *Workspace) Close() error { return w.root.Close() }

// Fill writes what a tar stream brings, and reads it to its end.
func (w *Workspace) Fill(r io.Reader) error {
	err := w.unpack(r)
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("it does not fit: %w", err)
	}
	if err != nil {
		return fmt.Errorf("fill workspace: %w", err)
	}
	return nil
}

func (w *Workspace) unpack(r io.Reader) error {
	in := tar.NewReader(bufio.NewReaderSize(r, 256<<10))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, r) // the writer's padding
			return err
		}
		if err != nil {
			return err
		}
		name := path.Clean("/" + h.Name)[1:]
		if name == "" {
			continue
		}
		if err := w.put(in, h, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func (w *Workspace) put(in io.Reader, h *tar.Header, name string) error {
	mode := fs.FileMode(h.Mode & 0o777)
	switch h.Typeflag {
	case tar.TypeDir:
		if err := w.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return errors.Join(w.own(name), w.root.Chmod(name, mode))
	case tar.TypeSymlink:
		if err := w.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return w.own(name)
	case tar.TypeReg:
		return w.putFile(in, name, mode, h.ModTime)
	}
	return fmt.Errorf("an entry of type %q does not belong into a workspace", h.Typeflag)
}

// own gives a file to the program, unless that may not change it.
func (w *Workspace) own(name string) error {
	if w.readOnly {
		return nil
	}
	return w.root.Lchown(name, User, User)
}

func (w *Workspace) putFile(in io.Reader, name string, mode fs.FileMode, edited time.Time) (err error) {
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(struct{ io.Writer }{f}, in); err != nil {
		return err
	}
	if err := errors.Join(w.own(name), f.Chmod(mode), w.root.Chtimes(name, edited, edited)); err != nil {
		return err
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return err
	}
	w.before[name] = stampOf(&s)
	return nil
}

// tick is longer than the steps in which a kernel's clock of files goes on: what was changed within one of fill's end is not told
// from what fill wrote, and so it is sent. CONFIG_HZ is 100 at least.
const tick = 10 * time.Millisecond

// untouched says whether a file is still what fill wrote.
func (w *Workspace) untouched(name string, s *unix.Stat_t) bool {
	was, ok := w.before[name]
	return ok && was == stampOf(s) && time.Unix(s.Ctim.Unix()).Before(w.Begun.Add(-tick))
}

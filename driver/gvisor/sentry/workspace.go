package sentry

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/usermem"
)

const workspaceDir = "/workspace"

// workspace is the tmpfs at /workspace. It is filled from a tar stream before the first task runs and drained to one
// after the last has ended: no host path, no gofer, two pipe descriptors.
type workspace struct {
	box     *box
	in, out int // out is -1 if it is not wanted
	mounts  *vfs.MountNamespace
	ctx     context.Context
	creds   *auth.Credentials
	root    vfs.VirtualDentry // of /workspace
	before  map[string]stamp
}

// stamp tells whether a file is still what fill wrote. The guest cannot set a change time.
type stamp struct {
	inode       uint64
	size        uint64
	changed     linux.StatxTimestamp
	modified    linux.StatxTimestamp
	permissions uint16
}

func stampOf(st linux.Statx) stamp {
	return stamp{st.Ino, st.Size, st.Ctime, st.Mtime, st.Mode}
}

// open takes hold of the mounts, which then outlive the last task.
func (w *workspace) open() error {
	k := w.box.kernel()
	w.mounts = k.GlobalInit().Leader().MountNamespace()
	w.mounts.IncRef()
	w.ctx = k.SupervisorContext()
	w.creds = auth.NewRootCredentials(k.RootUserNamespace())
	root := w.mounts.Root(w.ctx)
	defer root.DecRef(w.ctx)
	var err error
	w.root, err = k.VFS().GetDentryAt(w.ctx, w.creds, &vfs.PathOperation{Root: root, Start: root, Path: fspath.Parse(workspaceDir)}, &vfs.GetDentryOptions{})
	if err != nil {
		return fmt.Errorf("find %s: %w", workspaceDir, err)
	}
	w.before = map[string]stamp{}
	return w.own(w.at(w.root, ""))
}

// at is a path below dir that cannot lead out of the workspace: the workspace is its root.
func (w *workspace) at(dir vfs.VirtualDentry, name string) *vfs.PathOperation {
	return &vfs.PathOperation{Root: w.root, Start: dir, Path: fspath.Parse(name)}
}

func (w *workspace) vfs() *vfs.VirtualFilesystem { return w.box.kernel().VFS() }

func (w *workspace) own(p *vfs.PathOperation) error {
	return w.vfs().SetStatAt(w.ctx, w.creds, p, &vfs.SetStatOptions{
		Stat: linux.Statx{Mask: linux.STATX_UID | linux.STATX_GID, UID: w.owner(), GID: w.owner()},
	})
}

// owner is who owns what fill writes: the program, unless it must not change it. Where its mount is read-only, a tmpfs of gVisor's lets who may by
// owner and mode nevertheless cut a file off, and change its mode, times and attributes.
func (w *workspace) owner() uint32 {
	if w.box.req.ReadOnly {
		return 0
	}
	return userID
}

// mode are the permissions of an entry. Where the program is not the owner, it may read and execute what the owner may, and nobody writes.
func (w *workspace) mode(h *tar.Header) linux.FileMode {
	mode := linux.FileMode(h.Mode & 0o777)
	if w.box.req.ReadOnly {
		mode = mode >> 6 & 0o5
		mode |= mode<<3 | mode<<6
	}
	return mode
}

// usedBytes is what the workspace occupies of the sandbox's memory.
func (w *workspace) usedBytes() int64 {
	st, err := w.vfs().StatFSAt(w.ctx, w.creds, w.at(w.root, ""))
	if err != nil {
		return 0
	}
	return int64(st.Blocks-st.BlocksFree) * st.BlockSize
}

// freeze keeps everything that comes after fill from writing.
func (w *workspace) freeze() error {
	if err := w.vfs().SetMountReadOnly(w.root.Mount(), true); err != nil {
		return fmt.Errorf("make %s read-only: %w", workspaceDir, err)
	}
	return nil
}

// fill writes what the tar stream brings. Names were checked by the sender and are confined again by at.
func (w *workspace) fill() error {
	defer unix.Close(w.in)
	tr := tar.NewReader(bufio.NewReaderSize(fdReader(w.in), 256<<10))
	buf := make([]byte, 256<<10)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean("/" + h.Name)[1:]
		if name == "" {
			continue
		}
		if err := w.put(tr, h, name, buf); err != nil {
			if linuxerr.Equals(linuxerr.ENOSPC, err) {
				return fmt.Errorf("%s does not fit: the workspace may have %d bytes", name, w.box.req.WorkspaceBytes)
			}
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func (w *workspace) put(tr io.Reader, h *tar.Header, name string, buf []byte) error {
	p := w.at(w.root, name)
	switch h.Typeflag {
	case tar.TypeDir:
		err := w.vfs().MkdirAt(w.ctx, w.creds, p, &vfs.MkdirOptions{Mode: w.mode(h)})
		if err != nil && !linuxerr.Equals(linuxerr.EEXIST, err) { // a mount may have made it
			return err
		}
		return w.own(p)
	case tar.TypeSymlink:
		if err := w.vfs().SymlinkAt(w.ctx, w.creds, p, h.Linkname); err != nil {
			return err
		}
		return w.own(p)
	case tar.TypeReg:
		return w.putFile(tr, h, name, buf)
	}
	return fmt.Errorf("an entry of type %q does not belong into a workspace", h.Typeflag)
}

func (w *workspace) putFile(r io.Reader, h *tar.Header, name string, buf []byte) error {
	p := w.at(w.root, name)
	f, err := w.vfs().OpenAt(w.ctx, w.creds, p, &vfs.OpenOptions{Flags: linux.O_WRONLY | linux.O_CREAT | linux.O_TRUNC | linux.O_NOFOLLOW, Mode: w.mode(h)})
	if err != nil {
		return err
	}
	defer f.DecRef(w.ctx)
	for {
		n, err := r.Read(buf)
		for done := 0; done < n; {
			m, werr := f.Write(w.ctx, usermem.BytesIOSequence(buf[done:n]), vfs.WriteOptions{})
			if werr != nil {
				return werr
			}
			done += int(m)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := f.SetStat(w.ctx, vfs.SetStatOptions{Stat: linux.Statx{
		Mask: linux.STATX_UID | linux.STATX_GID | linux.STATX_MTIME, UID: w.owner(), GID: w.owner(),
		Mtime: linux.StatxTimestamp{Sec: h.ModTime.Unix(), Nsec: uint32(h.ModTime.Nanosecond())},
	}}); err != nil {
		return err
	}
	st, err := f.Stat(w.ctx, vfs.StatOptions{Mask: linux.STATX_BASIC_STATS})
	if err != nil {
		return err
	}
	w.before[name] = stampOf(st)
	return nil
}

// fdReader and fdWriter are plain read(2) and write(2): os.File would register the descriptor with a poller whose
// system calls the seccomp filter does not have in the form that Go uses.
type fdReader int

func (r fdReader) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(r), b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			return 0, io.EOF
		}
		return max(n, 0), err
	}
}

type fdWriter int

func (f fdWriter) Write(b []byte) (int, error) {
	total := 0
	for total < len(b) {
		n, err := unix.Write(int(f), b[total:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

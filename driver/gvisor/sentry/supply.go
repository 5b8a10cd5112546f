package sentry

import (
	"errors"
	"fmt"
	"io"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/sentry/fsimpl/tmpfs"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/usermem"
)

// supplyFiles lays the run's own files over those of the image. Each is the root of a tmpfs of its own, owned by root and without a
// permission to write.
func (b *box) supplyFiles() error {
	w := &b.ws
	root := w.mounts.Root(w.ctx)
	defer root.DecRef(w.ctx)
	mode := uint16(0o444)
	for _, f := range b.req.Files {
		at := &vfs.PathOperation{Root: root, Start: root, Path: fspath.Parse(f.Path)}
		content := f.Content
		if f.After {
			own, err := w.read(at)
			if linuxerr.Equals(linuxerr.ENOENT, err) {
				continue // nobody in this image would read it
			}
			if err != nil {
				return fmt.Errorf("read %s of the image, to which something is added: %w", f.Path, err)
			}
			content = append(own, content...)
		}
		_, err := w.vfs().MountAt(w.ctx, w.creds, "silk", at, tmpfs.Name, &vfs.MountOptions{
			GetFilesystemOptions: vfs.GetFilesystemOptions{InternalData: tmpfs.FilesystemOpts{RootFileType: linux.S_IFREG}},
		})
		if err != nil {
			return fmt.Errorf("lay a file over %s: %w", f.Path, err)
		}
		fd, err := w.vfs().OpenAt(w.ctx, w.creds, at, &vfs.OpenOptions{Flags: linux.O_WRONLY})
		if err != nil {
			return fmt.Errorf("open %s: %w", f.Path, err)
		}
		_, err = fd.Write(w.ctx, usermem.BytesIOSequence(content), vfs.WriteOptions{})
		fd.DecRef(w.ctx)
		if err == nil {
			err = w.vfs().SetStatAt(w.ctx, w.creds, at, &vfs.SetStatOptions{Stat: linux.Statx{Mask: linux.STATX_MODE, Mode: mode}})
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

// maxSupplied bounds a file of the image that something is added to.
const maxSupplied = 16 << 20

func (w *workspace) read(at *vfs.PathOperation) (content []byte, err error) {
	fd, err := w.vfs().OpenAt(w.ctx, w.creds, at, &vfs.OpenOptions{Flags: linux.O_RDONLY})
	if err != nil {
		return nil, err
	}
	defer fd.DecRef(w.ctx)
	buf := make([]byte, 64<<10)
	for len(content) <= maxSupplied {
		n, err := fd.Read(w.ctx, usermem.BytesIOSequence(buf), vfs.ReadOptions{})
		content = append(content, buf[:n]...)
		if errors.Is(err, io.EOF) || n == 0 && err == nil {
			return content, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("it has more than %d bytes", maxSupplied)
}

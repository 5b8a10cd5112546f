package workspace

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// addTar takes over the stream of an earlier Fill: the same entries in the same order, which is the one in which a program finds them.
// It is not trusted more than any other source.
func (f *filler) addTar(stream []byte) error {
	if stream == nil {
		return nil
	}
	fail := func(err error) error { return fmt.Errorf("take over an earlier workspace: %w", err) }
	for in := tar.NewReader(bytes.NewReader(stream)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fail(err)
		}
		if err := f.addEntry(h, in); err != nil {
			return fail(err)
		}
	}
}

func (f *filler) addEntry(h *tar.Header, content io.Reader) error {
	name := h.Name
	if h.Typeflag == tar.TypeDir && len(name) > 0 && name[len(name)-1] == '/' {
		name = name[:len(name)-1]
	}
	if err := checkName(name); err != nil {
		return err
	}
	if old, ok := f.manifest.Entries[name]; ok {
		return &ConflictError{Path: name, Detail: fmt.Sprintf("a %s of that name is already there", old.Type)}
	}
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return f.writeDir(name, mode, h.ModTime)
	case tar.TypeSymlink:
		return f.writeLink(name, h.Linkname, h.ModTime)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%q is no file, directory or link", name)
	}
	if err := f.writeFileHeader(name, h.Size, mode, h.ModTime); err != nil {
		return err
	}
	f.hash.Reset()
	if _, err := io.CopyBuffer(io.MultiWriter(f.tw, f.hash), content, f.buf); err != nil {
		return fmt.Errorf("copy %q into the workspace: %w", name, err)
	}
	e := Entry{Type: TypeFile, Size: h.Size, Mode: mode, ModTime: h.ModTime}
	f.hash.Sum(e.SHA256[:0])
	f.note(name, e)
	return nil
}

package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Marks of deletion in a layer, image-spec layer.md "Whiteouts".
const (
	whiteout       = ".wh."
	opaqueWhiteout = ".wh..wh..opq"
	aufsOwn        = "/.wh..wh." // what the file system of the first layers kept for itself
)

// layer applies one tar archive to the tree of an import.
type layer struct {
	*importer
	dropSetuid bool
	whiteouts  bool
	fresh      map[slot]bool // made by this layer: its own whiteouts do not touch them
}

// slot is a place for a name.
type slot struct {
	dir  *node
	base string
}

// apply reads a tar archive to its end marker. Entries may come in any order; of two with the same name the later one
// counts.
func (l *layer) apply(ctx context.Context, r io.Reader) error {
	l.fresh = map[slot]bool{}
	tail := &archiveReader{ctx: ctx, r: r}
	archive := tar.NewReader(tail)
	last := ""
	for {
		entryEnd := roundUp(tail.total, 512) // its content has been read
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && tail.total < entryEnd+512 {
			// Package tar takes the end of the file in front of a header for the end of the archive; but a whole
			// archive ends with blocks of zeros.
			err = io.ErrUnexpectedEOF
		}
		if errors.Is(err, io.EOF) {
			return tail.drain()
		}
		if err != nil {
			return truncated(last, err)
		}
		last = header.Name
		err = l.entry(header, archive)
		if err == nil {
			_, err = io.Copy(io.Discard, archive) // of an entry that was left out
		}
		if err != nil {
			return truncated(last, err)
		}
	}
}

// truncated names the entry at which reading an archive stopped.
func truncated(entry string, err error) error {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &RefusedError{entry, ErrTruncated}
	case errors.Is(err, tar.ErrHeader) && entry == "":
		return fmt.Errorf("it is no tar archive, plain or compressed with gzip or zstd: %w", err)
	}
	return fmt.Errorf("at entry %q: %w", entry, err)
}

func (l *layer) entry(header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := archivePath(header.Name)
	if err != nil {
		return &RefusedError{header.Name, err}
	}
	if l.whiteouts && strings.HasPrefix(path.Base(name), whiteout) {
		l.white(name)
		return nil
	}
	if l.whiteouts && strings.Contains(name, aufsOwn) {
		return nil
	}
	if err := l.add(name, header, content); err != nil {
		return refusal(header.Name, err)
	}
	if dir, base, err := l.tree.find("look up", name); err == nil {
		l.fresh[slot{dir, base}] = true
	}
	return nil
}

// refusal names the entry if err says that there is something wrong with it, rather than with the disk or the time.
func refusal(entry string, err error) error {
	var refused *RefusedError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	for _, fault := range []error{ErrIsDirectory, ErrNotDirectory, ErrLoop, ErrTooLarge, ErrName, fs.ErrInvalid, fs.ErrNotExist} {
		if errors.Is(err, fault) {
			var inner *fs.PathError // the name in it is not as the archive spells it
			if errors.As(err, &inner) {
				err = inner.Err
			}
			return &RefusedError{entry, err}
		}
	}
	return err
}

func (l *layer) add(name string, header *tar.Header, content io.Reader) error {
	info := header.FileInfo()
	if old, ok := l.tree.Lookup(name); ok && old.Mode.IsDir() != (header.Typeflag == tar.TypeDir) {
		if name == "/" {
			return &RefusedError{header.Name, ErrNotDirectory}
		}
		if err := l.tree.RemoveAll(name); err != nil {
			return err
		}
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return l.tree.AddDir(name, info.Mode())
	case tar.TypeSymlink:
		return l.tree.AddSymlink(name, header.Linkname)
	case tar.TypeLink:
		target, err := archivePath(header.Linkname)
		if err != nil {
			return &RefusedError{header.Name, fmt.Errorf("hard link to %q: %w", header.Linkname, err)}
		}
		return l.tree.AddHardlink(name, target)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		_, capable := header.PAXRecords["SCHILY.xattr.security.capability"]
		if capable || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			if err := l.drop(l.dropSetuid, "setuid", header.Name, ErrSetuid); err != nil {
				return err
			}
		}
		if room := l.tree.config.MaxBytes - l.tree.bytes; header.Size > room { // before a byte of it is read
			return &RefusedError{header.Name, fmt.Errorf("%d bytes, room for %d: %w", header.Size, room, ErrTooLarge)}
		}
		return l.tree.AddFile(name, info.Mode(), header.ModTime, content)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return l.drop(l.config.DropSpecial, "special", header.Name, ErrSpecial)
	default:
		return &RefusedError{header.Name, fmt.Errorf("of the unknown type %q", header.Typeflag)}
	}
}

// white applies a whiteout to what lower layers left.
func (l *layer) white(name string) {
	dir, base := path.Split(name)
	entry, ok := l.tree.Stat(dir)
	if !ok || !entry.Mode.IsDir() {
		return
	}
	if base == opaqueWhiteout {
		l.prune(entry.node)
		return
	}
	base = strings.TrimPrefix(base, whiteout)
	if child := entry.node.children[base]; child != nil {
		l.pruneChild(entry.node, base, child)
	}
}

// prune removes below a directory all that this layer did not make.
func (l *layer) prune(dir *node) {
	for base, child := range dir.children {
		l.pruneChild(dir, base, child)
	}
}

func (l *layer) pruneChild(dir *node, base string, child *node) {
	l.prune(child)
	if !l.fresh[slot{dir, base}] && len(child.children) == 0 {
		l.tree.drop(child)
		delete(dir.children, base)
	}
}

// archivePath judges a name in an archive. It may begin with "./" and a directory's may end in "/".
func archivePath(name string) (string, error) {
	switch {
	case strings.HasPrefix(name, "/"):
		return "", fmt.Errorf("absolute: %w", ErrEscapes)
	case name == "..", strings.HasPrefix(name, "../"), strings.HasSuffix(name, "/.."), strings.Contains(name, "/../"):
		return "", fmt.Errorf("it contains ..: %w", ErrEscapes)
	case name == "":
		return "", fmt.Errorf("it is empty: %w", ErrName)
	}
	if err := checkPath(name); err != nil {
		return "", fmt.Errorf("%w: %w", ErrName, err)
	}
	return cleaned(name), nil
}

// archiveReader counts what is read, until ctx ends.
type archiveReader struct {
	ctx   context.Context
	r     io.Reader
	total int64
}

func (a *archiveReader) Read(p []byte) (int, error) {
	if a.ctx.Err() != nil {
		return 0, context.Cause(a.ctx)
	}
	n, err := a.r.Read(p)
	a.total += int64(n)
	return n, err
}

// drainMax is how many bytes may follow the end marker: tar pads archives to a record, of 10 KiB as a rule and of 1 MiB
// for tapes.
const drainMax = 4 << 20

// drain reads what follows the end marker, so that checksums at the very end are checked.
func (a *archiveReader) drain() error {
	n, err := io.Copy(io.Discard, io.LimitReader(a, drainMax+1))
	if err == nil && n > drainMax {
		err = fmt.Errorf("it goes on after its end marker: %w", ErrTooLarge)
	}
	if err != nil {
		return fmt.Errorf("read the end of the archive: %w", err)
	}
	return nil
}

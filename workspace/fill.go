package workspace

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const copyBufferBytes = 256 << 10

// Fill writes src to w as a tar stream in PAX format, and returns what it wrote.
//
// Names are relative; a directory comes before what is in it. Permissions, modification times and links are kept,
// set-id and sticky bits are not; everything belongs to [Owner]. A file with several names arrives as several files.
// FIFOs, sockets and devices are left out and reported in the manifest. Sizes are checked before content is read, so
// that a sparse file of a terabyte is refused at once.
//
// A file that cannot be read, or that changes while it is being copied, is an error that names it; a source beyond lim
// is a [*LimitError], two parts with the same name are a [*ConflictError]. After an error the stream is incomplete on
// purpose and w must be thrown away. Fill does not close w.
func Fill(w io.Writer, src Source, lim FillLimits) (Manifest, error) {
	f := filler{
		tw:       tar.NewWriter(w),
		lim:      lim.withDefaults(),
		manifest: Manifest{Entries: map[string]Entry{}},
		hash:     sha256.New(),
		buf:      make([]byte, copyBufferBytes),
	}
	if err := f.fill(src); err != nil {
		return Manifest{}, err
	}
	if err := f.tw.Close(); err != nil {
		return Manifest{}, fmt.Errorf("end workspace stream: %w", err)
	}
	return f.manifest, nil
}

type filler struct {
	tw        *tar.Writer
	lim       FillLimits
	manifest  Manifest
	nameBytes int64
	giveWay   map[string]fs.FileInfo // files of Dir that another part replaces; nil: whatever the file is
	hash      hash.Hash
	buf       []byte
}

func (f *filler) fill(src Source) error {
	if err := src.Check(f.lim); err != nil {
		return err
	}
	if err := f.planReplacements(src); err != nil {
		return err
	}
	if err := f.addTar(src.Tar); err != nil {
		return err
	}
	if src.Dir != "" {
		if err := f.addTree(src.Dir); err != nil {
			return err
		}
	}
	for _, file := range src.Files {
		if err := f.addHostFile(file); err != nil {
			return err
		}
	}
	for _, file := range src.own() {
		if err := f.addOwn(file); err != nil {
			return err
		}
	}
	return nil
}

// planReplacements notes which files of Dir are left out because they come as something else.
func (f *filler) planReplacements(src Source) error {
	f.giveWay = map[string]fs.FileInfo{}
	for _, file := range src.Files {
		info, err := statFile(file)
		if err != nil {
			return err
		}
		f.giveWay[filepath.Base(filepath.Clean(file))] = info
	}
	if src.Code != nil {
		f.giveWay[src.Code.Name] = nil
	}
	return nil
}

// addTree copies the directory dir. It keeps no more than a few descriptors open however deep the tree is.
func (f *filler) addTree(dir string) (err error) {
	t, err := openTree(dir)
	if err != nil {
		return fmt.Errorf("open workspace directory: %w", err)
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.read(f.room()); err != nil {
		return f.readError(dir, err)
	}
	for {
		name, ok := t.next()
		if !ok {
			more, err := t.pop()
			if err != nil {
				return fmt.Errorf("copy %q into the workspace: %w", dir, err)
			}
			if !more {
				return nil
			}
			continue
		}
		if err := f.addTreeEntry(t, name); err != nil {
			return err
		}
	}
}

func (f *filler) addTreeEntry(t *tree, name string) error {
	full := t.path(name)
	info, err := t.root().Lstat(name)
	if err != nil {
		return fmt.Errorf("copy %q into the workspace: %w", full, err)
	}
	switch typ := typeOf(info.Mode()); typ {
	case TypeDir:
		if err := f.writeDir(full, info.Mode(), info.ModTime()); err != nil {
			return err
		}
		if err := t.push(name, info); err != nil {
			return fmt.Errorf("copy %q into the workspace: %w", full, err)
		}
		if err := t.read(f.room()); err != nil {
			return f.readError(full, err)
		}
		return nil
	case TypeLink:
		target, err := t.root().Readlink(name)
		if err != nil {
			return fmt.Errorf("copy %q into the workspace: %w", full, err)
		}
		return f.writeLink(full, target, info.ModTime())
	case TypeFile:
		if same, ok := f.giveWay[full]; ok && (same == nil || os.SameFile(same, info)) {
			return nil
		}
		open := func() (*os.File, error) { return t.root().OpenFile(name, os.O_RDONLY|openFlags, 0) }
		return f.copyFile(full, open, info)
	default:
		if err := f.reserve(full); err != nil {
			return err
		}
		f.manifest.Skipped = append(f.manifest.Skipped, Skipped{Path: full, Type: typ})
		return nil
	}
}

// room is how many more entries there may be.
func (f *filler) room() int { return f.lim.Entries - f.entries() }

func (f *filler) entries() int { return len(f.manifest.Entries) + len(f.manifest.Skipped) }

func (f *filler) readError(dir string, err error) error {
	if errors.Is(err, errTooMany) {
		return &LimitError{What: "entries", Limit: int64(f.lim.Entries), Path: dir}
	}
	return fmt.Errorf("copy %q into the workspace: %w", dir, err)
}

// addHostFile copies a file that the user named, through links.
func (f *filler) addHostFile(file string) error {
	name := filepath.Base(filepath.Clean(file))
	if _, ok := f.manifest.Entries[name]; ok {
		return &ConflictError{Path: name, Detail: "--file and --dir both have it"}
	}
	info, err := statFile(file)
	if err != nil {
		return err
	}
	open := func() (*os.File, error) { return os.OpenFile(file, os.O_RDONLY|openNonblock, 0) }
	return f.copyFile(name, open, info)
}

// addOwn writes a file or directory of silk's own and the directories that lead to it.
func (f *filler) addOwn(file File) error {
	for i, c := range file.Name {
		if c != '/' {
			continue
		}
		parent := file.Name[:i]
		if old, ok := f.manifest.Entries[parent]; ok {
			if old.Type != TypeDir {
				return &ConflictError{Path: file.Name, Detail: fmt.Sprintf("%q is a %s, not a directory", parent, old.Type)}
			}
			continue
		}
		if err := f.writeDir(parent, 0o755, file.time()); err != nil {
			return err
		}
	}
	if old, ok := f.manifest.Entries[file.Name]; ok {
		if old.Type == TypeDir && file.Mode.IsDir() {
			return nil
		}
		return &ConflictError{Path: file.Name, Detail: fmt.Sprintf("a %s of that name is already there", old.Type)}
	}
	if file.Mode.IsDir() {
		return f.writeDir(file.Name, file.perm(), file.time())
	}
	if file.Mode&fs.ModeSymlink != 0 {
		return f.writeLink(file.Name, string(file.Bytes), file.time())
	}
	size := int64(len(file.Bytes))
	if err := f.writeFileHeader(file.Name, size, file.perm(), file.time()); err != nil {
		return err
	}
	if _, err := f.tw.Write(file.Bytes); err != nil {
		return fmt.Errorf("copy %q into the workspace: %w", file.Name, err)
	}
	f.note(file.Name, Entry{
		Type: TypeFile, Size: size, Mode: file.perm(), ModTime: file.time(),
		SHA256: sha256.Sum256(file.Bytes),
	})
	return nil
}

func (f File) time() time.Time {
	if f.ModTime.IsZero() {
		return time.Unix(0, 0)
	}
	return f.ModTime
}

// copyFile copies one file of the host. before is what was seen when it was looked at; whatever is opened must be that
// and stay as it is to the end, or the copy would be of something that never existed.
func (f *filler) copyFile(name string, open func() (*os.File, error), before fs.FileInfo) error {
	fail := func(err error) error { return fmt.Errorf("copy %q into the workspace: %w", name, err) }
	file, err := open()
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fail(err)
	}
	if !info.Mode().IsRegular() || !os.SameFile(info, before) {
		return fail(errReplaced)
	}
	size := info.Size()
	if err := f.writeFileHeader(name, size, info.Mode().Perm(), info.ModTime()); err != nil {
		return err
	}
	f.hash.Reset()
	n, err := io.CopyBuffer(io.MultiWriter(f.tw, f.hash), io.LimitReader(file, size), f.buf)
	if err != nil {
		return fail(err)
	}
	if n < size {
		return fail(errShrank)
	}
	if n, err := file.Read(f.buf[:1]); n > 0 {
		return fail(errGrew)
	} else if err != nil && err != io.EOF {
		return fail(err)
	}
	after, err := file.Stat()
	if err != nil {
		return fail(err)
	}
	if after.Size() != size || !after.ModTime().Equal(info.ModTime()) {
		return fail(errChanged)
	}
	e := Entry{Type: TypeFile, Size: size, Mode: info.Mode().Perm(), ModTime: info.ModTime()}
	f.hash.Sum(e.SHA256[:0])
	f.note(name, e)
	return nil
}

var (
	errReplaced = errors.New("it was replaced by another file in the meantime")
	errShrank   = errors.New("it became shorter while it was being copied; stop the program that writes to it")
	errGrew     = errors.New("it became longer while it was being copied; stop the program that writes to it")
	errChanged  = errors.New("it was changed while it was being copied; stop the program that writes to it")
)

// reserve counts an entry against the limits before it is written.
func (f *filler) reserve(name string) error {
	if len(name) > maxPathBytes {
		return &LimitError{What: "path", Limit: maxPathBytes, Path: name}
	}
	if f.entries() >= f.lim.Entries {
		return &LimitError{What: "entries", Limit: int64(f.lim.Entries), Path: name}
	}
	if f.nameBytes += int64(len(name)); f.nameBytes > maxNameBytes {
		return &LimitError{What: "names", Limit: maxNameBytes, Path: name}
	}
	return nil
}

func (f *filler) note(name string, e Entry) {
	f.manifest.Entries[name] = e
	f.manifest.Bytes += e.Size
}

func (f *filler) writeDir(name string, mode fs.FileMode, mtime time.Time) error {
	err := f.writeHeader(name, &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(mode.Perm()), ModTime: mtime})
	if err == nil {
		f.note(name, Entry{Type: TypeDir, Mode: mode.Perm(), ModTime: mtime})
	}
	return err
}

func (f *filler) writeLink(name, target string, mtime time.Time) error {
	err := f.writeHeader(name, &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: mtime})
	if err == nil {
		f.note(name, Entry{Type: TypeLink, Mode: 0o777, ModTime: mtime, SHA256: sha256.Sum256([]byte(target))})
	}
	return err
}

func (f *filler) writeFileHeader(name string, size int64, mode fs.FileMode, mtime time.Time) error {
	if size > f.lim.Bytes-f.manifest.Bytes {
		return &LimitError{What: "bytes", Limit: f.lim.Bytes, Path: name}
	}
	return f.writeHeader(name, &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: int64(mode.Perm()), ModTime: mtime})
}

func (f *filler) writeHeader(name string, h *tar.Header) error {
	if err := f.reserve(name); err != nil {
		return err
	}
	h.Uid, h.Gid, h.Format = Owner, Owner, tar.FormatPAX
	if err := f.tw.WriteHeader(h); err != nil {
		return fmt.Errorf("copy %q into the workspace: %w", name, err)
	}
	return nil
}

// joinPath is path.Join without cleaning, for elements that are known to be plain.
func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

package image

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Limits of a tree that its config does not set.
const (
	DefaultMaxEntries = 1_000_000
	DefaultMaxBytes   = 8 << 30
)

// DefaultEpoch is the latest modification time in a tree whose config sets none: 2025-11-01T00:00:00Z.
var DefaultEpoch = time.Unix(1761955200, 0).UTC()

// TreeConfig says how large a tree may grow and what it looks like. The zero value works.
type TreeConfig struct {
	SpoolDir   string    // directory of the temporary file that holds contents; empty means os.TempDir()
	Epoch      time.Time // later modification times become this one; the zero value means DefaultEpoch
	MaxEntries int       // files, directories and links at most; 0 means DefaultMaxEntries
	MaxBytes   int64     // contents of files together at most; 0 means DefaultMaxBytes
}

func (c TreeConfig) withDefaults() TreeConfig {
	if c.Epoch.IsZero() {
		c.Epoch = DefaultEpoch
	}
	c.Epoch = c.Epoch.Truncate(time.Second).UTC()
	if c.MaxEntries == 0 {
		c.MaxEntries = DefaultMaxEntries
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	return c
}

// Errors of a [Tree], always wrapped with the path. A path that does not exist is [fs.ErrNotExist].
var (
	ErrIsDirectory  = errors.New("is a directory")          // a file, link or removal where a directory stands
	ErrNotDirectory = errors.New("is not a directory")      // a parent, or a directory to be, is a file
	ErrLoop         = errors.New("too many symbolic links") // more than 40 on the way, as in path_resolution(7)
	ErrTooLarge     = errors.New("the tree is too large")   // a limit of TreeConfig
)

// Tree is a root filesystem in memory, with its contents in one temporary file that is already unlinked.
//
// Paths are slash-separated, with or without a leading slash, and canonical: no "..", no empty component. A parent
// that is a symbolic link is followed as inside a chroot; what it leads to is made if it does not exist, like any
// missing parent, with mode 0755. Everything is owned by 0:0; of modes only the permission bits and, on directories,
// the sticky bit are kept. A Tree is not safe for concurrent use; [Tree.Close] releases the temporary file.
type Tree struct {
	config  TreeConfig
	root    *node
	entries int
	bytes   int64 // sum of the sizes of all contents added, whether shared or not

	spool    *os.File
	end      int64    // bytes of the spool in use
	base     *os.File // image that the tree was loaded from, or nil
	contents map[[sha256.Size]byte]content
	hash     hash.Hash
	buffer   []byte
}

// node is what a name stands for. Hard links are several names for one node, which is never a directory.
type node struct {
	mode     fs.FileMode // type, permissions, sticky
	mtime    time.Time   // files only; everything else has the epoch
	content  content     // files only
	target   string      // symbolic links only
	children map[string]*node
	links    int // names
}

// content is a run of bytes in the spool or the base image. Equal contents are stored once.
type content struct {
	from   io.ReaderAt // nil if it is empty
	offset int64
	size   int64
	sum    [sha256.Size]byte
}

// Entry describes one name in a [Tree].
type Entry struct {
	Path    string // canonical, absolute
	Mode    fs.FileMode
	Size    int64     // of a file
	ModTime time.Time // of a file; otherwise the epoch
	Target  string    // of a symbolic link
	SHA256  [sha256.Size]byte
	Links   int // names of the same file, this one included

	node *node
}

// SameFile reports whether two entries of one tree are names of the same file.
func (e Entry) SameFile(other Entry) bool { return e.node != nil && e.node == other.node }

// NewTree returns a tree that holds nothing but its root directory, mode 0755.
func NewTree(config TreeConfig) (*Tree, error) {
	config = config.withDefaults()
	spool, err := os.CreateTemp(config.SpoolDir, ".silk-spool-*")
	if err != nil {
		return nil, fmt.Errorf("make the temporary file of an image: %w", err)
	}
	if err := os.Remove(spool.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("make the temporary file of an image: %w", err), spool.Close())
	}
	return &Tree{
		config:   config,
		root:     newDirectory(0o755),
		spool:    spool,
		contents: map[[sha256.Size]byte]content{},
		hash:     sha256.New(),
		buffer:   make([]byte, 256<<10),
	}, nil
}

// Close releases the temporary file. The tree must not be used afterwards.
func (t *Tree) Close() error {
	err := t.spool.Close()
	if t.base != nil {
		err = errors.Join(err, t.base.Close())
	}
	return err
}

// Epoch is the latest modification time in the tree, and that of directories and links.
func (t *Tree) Epoch() time.Time { return t.config.Epoch }

// Bytes is the size of the contents of all files added so far, shared ones counted as often as they were added.
func (t *Tree) Bytes() int64 { return t.bytes }

func newDirectory(mode fs.FileMode) *node {
	return &node{mode: fs.ModeDir | keepMode(mode, true), children: map[string]*node{}, links: 1}
}

// keepMode drops everything but permissions and, for directories, the sticky bit.
func keepMode(mode fs.FileMode, dir bool) fs.FileMode {
	if dir {
		return mode & (fs.ModePerm | fs.ModeSticky)
	}
	return mode & fs.ModePerm
}

// AddDir makes a directory, or sets the mode of the one that is there. Where name is a symbolic link to a directory,
// the link stays and its target is left alone, as dpkg does.
func (t *Tree) AddDir(name string, mode fs.FileMode) error {
	parent, base, err := t.parentOf("add directory", name)
	if err != nil {
		return err
	}
	if base == "" {
		t.root.mode = fs.ModeDir | keepMode(mode, true)
		return nil
	}
	switch old := parent.children[base]; {
	case old == nil:
		return t.put("add directory", name, parent, base, newDirectory(mode))
	case old.mode.IsDir():
		old.mode = fs.ModeDir | keepMode(mode, true)
		return nil
	case old.mode&fs.ModeSymlink != 0:
		if _, err := t.directory("add directory", name, true); err != nil {
			return err
		}
		return nil
	default:
		return &fs.PathError{Op: "add directory", Path: name, Err: ErrNotDirectory}
	}
}

// AddFile stores a regular file with all that r yields until io.EOF, in place of any file or link that was there.
// A zero mtime, or one after the tree's epoch, becomes the epoch; all are cut to seconds. On error name is as before.
func (t *Tree) AddFile(name string, mode fs.FileMode, mtime time.Time, r io.Reader) error {
	const op = "add file"
	parent, base, err := t.leaf(op, name)
	if err != nil {
		return err
	}
	stored, err := t.store(r)
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return t.put(op, name, parent, base, t.file(mode, mtime, stored))
}

func (t *Tree) file(mode fs.FileMode, mtime time.Time, stored content) *node {
	if mtime.After(t.config.Epoch) || mtime.Unix() < 0 {
		mtime = t.config.Epoch
	}
	return &node{mode: keepMode(mode, false), mtime: mtime.Truncate(time.Second).UTC(), content: stored}
}

// AddSymlink makes a symbolic link, in place of any file or link that was there. The target may be anything of 1 to
// 4095 bytes without NUL; whatever it is, it can only lead to somewhere inside the tree.
func (t *Tree) AddSymlink(name, target string) error {
	const op = "add symbolic link"
	if target == "" || len(target) > maxPath || strings.ContainsRune(target, 0) {
		return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("target %.80q: %w", target, fs.ErrInvalid)}
	}
	parent, base, err := t.leaf(op, name)
	if err != nil {
		return err
	}
	return t.put(op, name, parent, base, &node{mode: fs.ModeSymlink | 0o777, target: target})
}

// AddHardlink makes name another name for the file or symbolic link at target, in place of any file or link that was
// there. Replacing one of the names later leaves the others as they are.
func (t *Tree) AddHardlink(name, target string) error {
	const op = "add hard link"
	entry, ok := t.Lookup(target)
	if !ok {
		return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("target %s: %w", target, fs.ErrNotExist)}
	}
	if entry.Mode.IsDir() {
		return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("target %s: %w", target, ErrIsDirectory)}
	}
	parent, base, err := t.leaf(op, name)
	if err != nil {
		return err
	}
	return t.put(op, name, parent, base, entry.node)
}

// Remove takes away a file, a link or an empty directory.
func (t *Tree) Remove(name string) error { return t.remove("remove", name, false) }

// RemoveAll takes away name and everything below it; that it does not exist is no error.
func (t *Tree) RemoveAll(name string) error { return t.remove("remove", name, true) }

func (t *Tree) remove(op, name string, all bool) error {
	parent, base, err := t.find(op, name)
	if err != nil {
		if all && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if base == "" {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	old := parent.children[base]
	switch {
	case old == nil && all:
		return nil
	case old == nil:
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	case len(old.children) > 0 && !all:
		return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("directory not empty: %w", ErrIsDirectory)}
	}
	t.drop(old)
	delete(parent.children, base)
	return nil
}

// drop accounts for a name that is going away, and everything below it.
func (t *Tree) drop(n *node) {
	n.links--
	t.entries--
	for _, child := range n.children {
		t.drop(child)
	}
}

// Chmod sets the permission bits of a file or directory; a final symbolic link is followed.
func (t *Tree) Chmod(name string, mode fs.FileMode) error {
	entry, ok := t.Stat(name)
	if !ok {
		return &fs.PathError{Op: "chmod", Path: name, Err: fs.ErrNotExist}
	}
	entry.node.mode = entry.Mode.Type() | keepMode(mode, entry.Mode.IsDir())
	return nil
}

// Lookup finds what name stands for; a final symbolic link is not followed.
func (t *Tree) Lookup(name string) (Entry, bool) {
	parent, base, err := t.find("look up", name)
	if err != nil {
		return Entry{}, false
	}
	found := parent
	if base != "" {
		if found = parent.children[base]; found == nil {
			return Entry{}, false
		}
	}
	return t.entry(cleaned(name), found), true
}

// Stat finds what name leads to; a final symbolic link is followed, inside the tree. Entry.Path is where it is.
func (t *Tree) Stat(name string) (Entry, bool) {
	at, found, err := t.resolve("stat", name)
	if err != nil || found == nil {
		return Entry{}, false
	}
	return t.entry(at, found), true
}

// Open reads the file that name leads to. The reader is valid until the tree is closed, and stays on the content that
// the file has now. It needs no closing.
func (t *Tree) Open(name string) (*io.SectionReader, error) {
	entry, ok := t.Stat(name)
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if !entry.Mode.IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("not a regular file: %w", fs.ErrInvalid)}
	}
	return t.open(entry.node), nil
}

func (t *Tree) open(n *node) *io.SectionReader {
	if n.content.from == nil {
		return io.NewSectionReader(strings.NewReader(""), 0, 0)
	}
	return io.NewSectionReader(n.content.from, n.content.offset, n.content.size)
}

// All yields every entry, parents first, names in the order of their bytes; the first is "/". The tree may not be
// changed meanwhile.
func (t *Tree) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) { t.walk("/", t.root, yield) }
}

func (t *Tree) walk(at string, n *node, yield func(Entry) bool) bool {
	if !yield(t.entry(at, n)) {
		return false
	}
	for _, base := range slices.Sorted(maps.Keys(n.children)) {
		if !t.walk(join(at, base), n.children[base], yield) {
			return false
		}
	}
	return true
}

func (t *Tree) entry(at string, n *node) Entry {
	mtime := n.mtime
	if !n.mode.IsRegular() {
		mtime = t.config.Epoch
	}
	return Entry{Path: at, Mode: n.mode, Size: n.content.size, ModTime: mtime, Target: n.target, SHA256: n.content.sum, Links: n.links, node: n}
}

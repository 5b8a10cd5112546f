package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Kind is what an import reads.
type Kind string

const (
	KindAuto          Kind = ""               // look and see
	KindOCI           Kind = "oci"            // an OCI image layout: a directory, or a tar of one
	KindDockerArchive Kind = "docker-archive" // what docker save writes
	KindTar           Kind = "tar"            // a root filesystem in a tar archive
	KindDirectory     Kind = "dir"            // a root filesystem in a directory
)

// ImportConfig says how to import. The zero value works.
type ImportConfig struct {
	Tree TreeConfig
	Kind Kind

	// DropSetuid imports setuid and setgid files, and files with capabilities, as ordinary ones and names them in
	// Meta.Dropped, instead of refusing them. It weakens nothing: no sandbox has a privilege to gain from them. OCI
	// images and docker archives are always imported so, because su and mount are in nearly all of them.
	DropSetuid bool

	// DropSpecial leaves out device nodes, fifos and sockets, and names them in Meta.Dropped, instead of refusing them.
	DropSpecial bool

	// Mode is the permissions that an entry of a directory gets in place of its own. nil: its own.
	Mode func(fs.FileInfo) fs.FileMode

	Progress Progress // bytes of the archive or, of a directory, of the files in it
}

// RefusedError is why an archive, a directory or an image from elsewhere was not imported.
type RefusedError struct {
	Entry string // name as the archive spells it; may hold any bytes
	Err   error  // what is wrong with it
}

func (e *RefusedError) Error() string { return fmt.Sprintf("entry %q refused: %v", e.Entry, e.Err) }

// Unwrap returns what is wrong, such as [ErrTooLarge].
func (e *RefusedError) Unwrap() error { return e.Err }

// What can be wrong with an entry, besides the errors of a [Tree].
var (
	ErrEscapes   = errors.New("its name leads out of the image")
	ErrName      = errors.New("its name is not canonical")
	ErrSpecial   = errors.New("is a device, fifo or socket")
	ErrSetuid    = errors.New("is setuid, setgid or has capabilities")
	ErrTruncated = errors.New("the archive ends in the middle of it")
	ErrDigest    = errors.New("its digest is not the one that was promised")
)

// Import reads the archive or directory at path into a new tree, which the caller closes, and describes where it came
// from. Archives may be compressed with gzip or zstd. Of several images in an OCI layout the one for linux/amd64 is
// taken; if that is not exactly one, Import refuses, as it refuses a docker archive with several images.
//
// Nothing is trusted: the first entry that could harm is refused with a [RefusedError] and nothing is imported. What a
// link points to does not matter, because it is only ever followed inside the tree. Owners, extended attributes and
// modification times after the tree's epoch are not kept.
func Import(ctx context.Context, path string, config ImportConfig) (_ *Tree, meta Meta, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("import %s: %w", path, err)
		}
	}()
	info, err := os.Stat(path)
	if err != nil {
		return nil, Meta{}, err
	}
	imp, err := newImporter(config)
	if err != nil {
		return nil, Meta{}, err
	}
	if info.IsDir() {
		err = imp.fromDirectory(ctx, path)
	} else {
		err = imp.fromFile(ctx, path)
	}
	imp.meta.Source = "import " + filepath.Base(path)
	return imp.finish(err)
}

// importer is one import.
type importer struct {
	config ImportConfig
	tree   *Tree
	meta   Meta
}

func newImporter(config ImportConfig) (*importer, error) {
	if config.Mode == nil {
		config.Mode = fs.FileInfo.Mode
	}
	tree, err := NewTree(config.Tree)
	if err != nil {
		return nil, err
	}
	return &importer{config: config, tree: tree}, nil
}

// finish makes the tree ready for a sandbox, or closes it if there was an error.
func (i *importer) finish(err error) (*Tree, Meta, error) {
	if err == nil {
		err = EnsureMountpoints(i.tree)
	}
	if err != nil {
		return nil, Meta{}, errors.Join(err, i.tree.Close())
	}
	return i.tree, i.meta, nil
}

// maxDropped bounds Meta.Dropped.
const maxDropped = 1000

// drop leaves something out if allowed, else refuses.
func (i *importer) drop(allowed bool, what, name string, err error) error {
	if !allowed {
		return &RefusedError{name, err}
	}
	if len(i.meta.Dropped) < maxDropped {
		i.meta.Dropped = append(i.meta.Dropped, what+" "+cleaned(name))
	}
	return nil
}

type mountpoint struct {
	path string
	mode fs.FileMode
}

// mountpoints are the directories that a sandbox mounts over or expects, parents first.
var mountpoints = []mountpoint{
	{"/dev", 0o755},
	{"/dev/shm", 0o777 | fs.ModeSticky},
	{"/etc", 0o755},
	{"/proc", 0o555},
	{"/sys", 0o555},
	{"/tmp", 0o777 | fs.ModeSticky},
	{"/workspace", 0o755},
}

// EnsureMountpoints makes the directories that a sandbox mounts over or expects: /workspace, /proc, /sys, /dev,
// /dev/shm, /tmp and /etc. One that is a symbolic link becomes a directory; one that is a file is an error. What is a
// directory keeps its mode and contents. [Import] and image/registry have done it already.
func EnsureMountpoints(t *Tree) error {
	for _, m := range mountpoints {
		entry, ok := t.Lookup(m.path)
		switch {
		case ok && entry.Mode.IsDir():
			continue
		case ok && entry.Mode&fs.ModeSymlink != 0:
			if err := t.Remove(m.path); err != nil {
				return err
			}
		case ok:
			return &fs.PathError{Op: "mount over", Path: m.path, Err: ErrNotDirectory}
		}
		if err := t.AddDir(m.path, m.mode); err != nil {
			return err
		}
	}
	return nil
}

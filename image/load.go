package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/erofs/go-erofs"
)

// Tree loads an image into a tree, to build another upon it. The caller closes it. Contents stay in the image's file.
// If config sets no epoch, the tree has the image's own, and unchanged becomes the same bytes again.
func (s *Store) Tree(ctx context.Context, img Image, config TreeConfig) (*Tree, error) {
	file, _, err := openBlob(img)
	if err != nil {
		return nil, err
	}
	err = checkDigest(ctx, img, file, nil)
	var tree *Tree
	if err == nil {
		tree, err = loadTree(ctx, file, config)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load image %s: %w", img.Digest.Short(), err), file.Close())
	}
	return tree, nil
}

// loadTree fills a tree, which owns file on success.
func loadTree(ctx context.Context, file *os.File, config TreeConfig) (*Tree, error) {
	super, err := readSuper(file)
	if err != nil {
		return nil, err
	}
	if config.Epoch.IsZero() {
		config.Epoch = super.built
	}
	tree, err := NewTree(config)
	if err != nil {
		return nil, err
	}
	tree.base = file
	firsts := map[int64]string{} // inode number: the first of several names
	err = walkBlob(ctx, file, func(name string, info blobInfo) error {
		switch {
		case info.mode.IsDir():
			return tree.AddDir(name, info.mode)
		case info.links > 1 && firsts[info.inode] != "":
			return tree.AddHardlink(name, firsts[info.inode])
		case info.links > 1:
			firsts[info.inode] = name
		}
		if info.mode&fs.ModeSymlink != 0 {
			return tree.AddSymlink(name, info.target)
		}
		parent, base, err := tree.leaf("load", name)
		if err != nil {
			return err
		}
		stored, err := tree.adopt(info.offset, info.size)
		if err != nil {
			return &fs.PathError{Op: "load", Path: name, Err: err}
		}
		return tree.put("load", name, parent, base, tree.file(info.mode, info.mtime, stored))
	})
	if err != nil {
		tree.base = nil
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// Verify reads all of an image: its digest, and that every name in it is one that a [Tree] could have written. In
// particular nothing in it is setuid, a device, owned by a user, or stored in a way that the Sentry cannot map.
func (s *Store) Verify(ctx context.Context, ref string, progress Progress) error {
	img, err := s.Resolve(ref)
	if err != nil {
		return err
	}
	file, info, err := openBlob(img)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer file.Close()
	err = checkDigest(ctx, img, file, progress)
	if err == nil {
		end := info.Size()
		err = walkBlob(ctx, file, func(name string, info blobInfo) error {
			if info.mode.IsRegular() && (info.offset < 0 || info.offset+info.size > end) {
				return fmt.Errorf("%w: %q lies outside of the file", ErrCorrupt, name)
			}
			return nil
		})
	}
	if err == nil {
		_, err = s.Meta(img)
	}
	if err != nil {
		return fmt.Errorf("verify image %s: %w", ref, err)
	}
	return nil
}

// blobInfo is what an image says of one name.
type blobInfo struct {
	mode   fs.FileMode
	mtime  time.Time
	size   int64
	links  int
	inode  int64
	target string // of a symbolic link
	offset int64  // of a file's content in the image
}

// walkBlob visits every name in an EROFS image, directories first, and refuses what this package does not write.
func walkBlob(ctx context.Context, r io.ReaderAt, visit func(name string, info blobInfo) error) error {
	image, err := erofs.Open(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fs.WalkDir(image, ".", func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("%w: %q: %w", ErrCorrupt, name, err)
		}
		info, err := inspect(image, name, d)
		if err != nil {
			return fmt.Errorf("%w: %q: %w", ErrCorrupt, name, err)
		}
		return visit(name, info)
	})
}

func inspect(image fs.FS, name string, d fs.DirEntry) (blobInfo, error) {
	info, err := d.Info()
	if err != nil {
		return blobInfo{}, err
	}
	stat, ok := info.Sys().(*erofs.Stat)
	if !ok {
		return blobInfo{}, fmt.Errorf("stat: %w", errors.ErrUnsupported)
	}
	// Stat.Mode, because info.Mode() of go-erofs v0.3.1 lacks the sticky bit.
	found := blobInfo{mode: stat.Mode, mtime: info.ModTime(), size: stat.Size, links: stat.Nlink, inode: stat.Ino}
	switch {
	case stat.UID != 0 || stat.GID != 0:
		return blobInfo{}, fmt.Errorf("owned by %d:%d", stat.UID, stat.GID)
	case len(stat.Xattrs) > 0:
		return blobInfo{}, errors.New("has extended attributes")
	case stat.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return blobInfo{}, errors.New("is setuid or setgid")
	case stat.Mode.IsDir():
	case stat.Mode&fs.ModeSymlink != 0:
		found.target, err = fs.ReadLink(image, name)
	case !stat.Mode.IsRegular():
		return blobInfo{}, fmt.Errorf("is a %v", stat.Mode.Type())
	case stat.Size > 0:
		ranger, ok := info.(interface{ DataRange() []erofs.DataRange })
		if !ok || stat.InodeLayout != erofsPlain {
			return blobInfo{}, fmt.Errorf("is stored in layout %d", stat.InodeLayout)
		}
		found.offset = ranger.DataRange()[0].Offset
	}
	return found, err
}

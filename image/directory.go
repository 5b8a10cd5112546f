package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// fromDirectory imports a directory: a root filesystem, or an OCI image layout.
func (i *importer) fromDirectory(ctx context.Context, path string) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	kind := i.config.Kind
	if kind == KindAuto {
		kind = KindDirectory
		if info, err := root.Lstat("oci-layout"); err == nil && info.Mode().IsRegular() {
			kind = KindOCI
		}
	}
	switch kind {
	case KindOCI:
		return i.fromLayout(ctx, rootFiles{root})
	case KindDirectory:
		return i.fromRoot(ctx, root, ".")
	default:
		return fmt.Errorf("a directory cannot be imported as %q", kind)
	}
}

// fromRoot adds a directory and all below it. No link is followed, neither one inside nor one that appears meanwhile.
func (i *importer) fromRoot(ctx context.Context, root *os.Root, name string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		if err := i.tree.AddDir(name, i.config.Mode(info)); err != nil {
			return refusal(name, err)
		}
		names, err := readNames(root, name)
		if err != nil {
			return err
		}
		for _, child := range names {
			if err := i.fromRoot(ctx, root, strings.TrimPrefix(join(name, child), "./")); err != nil {
				return err
			}
		}
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		return refusal(name, i.tree.AddSymlink(name, target))
	case !info.Mode().IsRegular():
		return i.drop(i.config.DropSpecial, "special", name, ErrSpecial)
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		if err := i.drop(i.config.DropSetuid, "setuid", name, ErrSetuid); err != nil {
			return err
		}
	}
	file, err := openRegular(root, name)
	if err != nil {
		return err
	}
	defer file.Close()
	content := &archiveReader{ctx: ctx, r: file}
	if err := i.tree.AddFile(name, i.config.Mode(info), info.ModTime(), content); err != nil {
		return refusal(name, err)
	}
	i.config.Progress.report(i.tree.bytes, -1, "read files")
	return nil
}

func readNames(root *os.Root, name string) ([]string, error) {
	dir, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// openRegular opens a regular file and nothing else. What it is, is asked before, since opening a fifo would block,
// and again after.
func openRegular(root *os.Root, name string) (io.ReadCloser, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, &RefusedError{name, fmt.Errorf("is no regular file (%v)", before.Mode().Type())}
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	after, err := file.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = &RefusedError{name, errors.New("was replaced while it was read")}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/policy"
)

// snapshot packs a directory of a store into a read-only file system for one run, in a file that has no name any more.
// Links are kept as links, which lead to somewhere inside the sandbox or nowhere; fifos, sockets and devices are left out.
func snapshot(ctx context.Context, path string) (*os.File, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, &policy.Denial{Rule: policy.RuleMount, Detail: fmt.Sprintf("mount source %q is not a directory", path), Fix: "copy a file in with --file"}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	tree, err := image.NewTree(image.TreeConfig{Epoch: time.Now()})
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return addEntry(tree, root, name, entry)
	})
	if err != nil {
		return nil, err
	}
	return writeNameless(tree.WriteEROFS)
}

// writeNameless makes a temporary file of what write writes, opened read-only and already without a name.
func writeNameless(write func(io.Writer) error) (_ *os.File, err error) {
	out, err := os.CreateTemp("", "silk-mount-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	in, err := os.Open(out.Name())
	if err = errors.Join(err, os.Remove(out.Name())); err == nil {
		err = write(out)
	}
	if err != nil {
		if in != nil {
			err = errors.Join(err, in.Close())
		}
		return nil, err
	}
	return in, nil
}

func addEntry(tree *image.Tree, root *os.Root, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return tree.AddDir(name, info.Mode().Perm())
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		return tree.AddSymlink(name, target)
	case !info.Mode().IsRegular():
		return nil
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) { // a link or fifo has taken its place
		return errors.Join(fmt.Errorf("%s was replaced while it was read", name), err)
	}
	return tree.AddFile(name, info.Mode().Perm(), info.ModTime(), f)
}

package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ExportLayout writes an image as an OCI image layout in the directory dir: the files that [Store.Export] packs into an
// archive. dir must not exist (fs.ErrExist); it appears when all of it is written.
func (s *Store) ExportLayout(ctx context.Context, ref, dir string, progress Progress) error {
	return s.export(ctx, ref, func(tree *Tree, meta Meta) error { return writeLayout(ctx, tree, meta, ref, dir, progress) })
}

func writeLayout(ctx context.Context, tree *Tree, meta Meta, ref, dir string, progress Progress) (err error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(&fs.PathError{Op: "make", Path: dir, Err: fs.ErrExist}, err)
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(made))
		}
	}()
	if err := errors.Join(os.Chmod(made, 0o755), os.MkdirAll(filepath.Join(made, "blobs/sha256"), 0o755)); err != nil {
		return err
	}
	layer := &measure{hash: sha256.New()}
	unnamed := filepath.Join(made, "layer")
	err = writeNew(unnamed, func(w io.Writer) error {
		return tree.writeTar(&contextWriter{ctx, io.MultiWriter(w, layer)}, progress, "write layer")
	})
	if err != nil {
		return err
	}
	blob := layer.descriptor()
	if err := os.Rename(unnamed, filepath.Join(made, blobName(blob.Digest))); err != nil {
		return err
	}
	files, err := layoutFiles(tree.Epoch(), meta, blob, ref)
	if err != nil {
		return err
	}
	for _, file := range files {
		err := writeNew(filepath.Join(made, file.name), func(w io.Writer) error {
			_, err := w.Write(file.data)
			return err
		})
		if err != nil {
			return err
		}
	}
	return os.Rename(made, dir)
}

// writeNew makes a file that everybody may read.
func writeNew(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

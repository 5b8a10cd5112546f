package silktest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// Unpack copies the files of an image in the test store to a new directory, which belong to whoever runs the tests.
func Unpack(t *testing.T, tag, root string) {
	t.Helper()
	store, err := image.Open(image.Config{System: filepath.Join(testenv.Home(), "images")})
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Resolve(tag)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := store.Tree(t.Context(), img, image.TreeConfig{SpoolDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for e := range tree.All() {
		if err := unpack(tree, e, filepath.Join(root, e.Path)); err != nil {
			t.Fatalf("unpack %s: %s: %v", tag, e.Path, err)
		}
	}
}

func unpack(tree *image.Tree, e image.Entry, name string) error {
	switch {
	case e.Mode.IsDir():
		return errors.Join(os.MkdirAll(name, 0o755), os.Chmod(name, e.Mode))
	case e.Target != "":
		return os.Symlink(e.Target, name)
	}
	content, err := tree.Open(e.Path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(e.Mode.Perm()), f.Close(), os.Chtimes(name, e.ModTime, e.ModTime))
}

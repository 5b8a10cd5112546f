// Package imagetest opens the images that tests run programs in: those of the state directory of package testenv, which is not written to.
package imagetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// Store opens the store.
func Store(t testing.TB) *image.Store {
	t.Helper()
	s, err := image.Open(image.Config{Home: filepath.Join(testenv.Home(), "images")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Root opens the file system of an image that the caller has required. The caller closes it.
func Root(t testing.TB, tag string) *os.File {
	t.Helper()
	s := Store(t)
	img, err := s.Resolve(tag)
	if err != nil {
		t.Fatal(err)
	}
	root, err := s.OpenRoot(img)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/erofs/go-erofs"

	"github.com/silk-sandbox/silk/policy"
)

func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "sub"), 0o755),
		os.WriteFile(filepath.Join(dir, "sub/f"), []byte("content"), 0o640),
		os.Symlink("/etc/passwd", filepath.Join(dir, "link")),
		syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := snapshot(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := os.Lstat(f.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the snapshot still has a name: %v", err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("the snapshot can be written")
	}
	image, err := erofs.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	err = fs.WalkDir(image, ".", func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil || !slices.Equal(names, []string{".", "link", "sub", "sub/f"}) {
		t.Errorf("names %q, %v", names, err)
	}
	if data, err := fs.ReadFile(image, "sub/f"); err != nil || string(data) != "content" {
		t.Errorf("sub/f is %q, %v", data, err)
	}

	var denial *policy.Denial
	if _, err := snapshot(t.Context(), filepath.Join(dir, "sub/f")); !errors.As(err, &denial) || denial.Rule != policy.RuleMount {
		t.Errorf("a file as mount: %v", err)
	}
	if _, err := snapshot(t.Context(), filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing as mount: %v", err)
	}
}

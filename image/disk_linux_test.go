package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/internal/testenv"
)

func TestFullDisk(t *testing.T) {
	home := filepath.Join(testenv.SmallDisk(t, "256k"), "images")
	store := openStore(t, Config{Home: home})
	tree := newTree(t)
	addFile(t, tree, "/big", strings.Repeat("x", 1<<20))
	_, err := store.Put(t.Context(), tree.WriteEROFS, Meta{}, "x")
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error is %v", err)
	}
	if diff := cmp.Diff([]string{"lock"}, filesIn(t, home)); diff != "" {
		t.Error(diff)
	}
	putText(t, store, "small enough", "x")
}

func TestFullSpool(t *testing.T) {
	tree, err := NewTree(TreeConfig{SpoolDir: testenv.SmallDisk(t, "256k")})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	err = tree.AddFile("/big", 0o644, time.Time{}, strings.NewReader(strings.Repeat("x", 1<<20)))
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error is %v", err)
	}
	addFile(t, tree, "/small", "fits into the place of what failed")
	raw := encode(t, tree)
	if !strings.Contains(string(raw), "fits into") {
		t.Error("the small file is not in the image")
	}
}

func TestOthersMayReadWhatAUmaskWouldHide(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	store := openStore(t, Config{Home: filepath.Join(t.TempDir(), "above", "images")})
	img := putText(t, store, "x", "tag")
	for path, want := range map[string]fs.FileMode{
		string(store.home):               0o755,
		store.home.dir("blobs"):          0o755,
		store.home.blob(img.Digest):      0o444,
		store.home.meta(img.Digest):      0o644,
		store.home.tag("tag"):            0o644,
		filepath.Dir(string(store.home)): 0o700,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v, %v", path, info.Mode(), want, err)
		}
	}
}

package image

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFailedPutLeavesNothing(t *testing.T) {
	disk := errors.New("no space left on device")
	cause := errors.New("enough")
	whole := encode(t, build(t, nil))
	for _, test := range []struct {
		name    string
		content func(cancel context.CancelCauseFunc, w io.Writer) error
		want    error
	}{
		{"full disk", func(_ context.CancelCauseFunc, w io.Writer) error { _, _ = w.Write(make([]byte, 9999)); return disk }, disk},
		{"no image", func(_ context.CancelCauseFunc, w io.Writer) error { _, err := w.Write(make([]byte, 8192)); return err }, nil},
		{"nothing", func(context.CancelCauseFunc, io.Writer) error { return nil }, nil},
		{"more than its superblock says", func(_ context.CancelCauseFunc, w io.Writer) error {
			_, err := w.Write(append(whole, make([]byte, 4096)...))
			return err
		}, nil},
		{"canceled", func(cancel context.CancelCauseFunc, w io.Writer) error {
			cancel(cause)
			_, err := w.Write(make([]byte, 1))
			return err
		}, cause},
		{"canceled at the end", func(cancel context.CancelCauseFunc, _ io.Writer) error { cancel(cause); return nil }, cause},
	} {
		t.Run(test.name, func(t *testing.T) {
			home := t.TempDir()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			_, err := openStore(t, Config{Home: home}).Put(ctx, func(w io.Writer) error { return test.content(cancel, w) }, Meta{}, "x")
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
			if diff := cmp.Diff([]string{"lock"}, filesIn(t, home)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPutRemovesWhatADeadWriterLeft(t *testing.T) {
	home := t.TempDir()
	store := openStore(t, Config{Home: home})
	alive, err := store.createTemp()
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(home, "tmp", "blob-dead")
	if err := os.WriteFile(dead, []byte("half an image"), 0o600); err != nil {
		t.Fatal(err)
	}
	putText(t, store, "x", "x")
	if _, err := os.Stat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dead writer's file is there: %v", err)
	}
	if _, err := os.Stat(alive.name); err != nil {
		t.Errorf("a live writer lost its file: %v", err)
	}
	if err := alive.discard(); err != nil {
		t.Error(err)
	}
}

func TestPutKeepsTheDescriptionWithPackages(t *testing.T) {
	store := openStore(t, Config{Home: t.TempDir()})
	tree := build(t, nil)
	for _, meta := range []Meta{{Source: "build", Packages: []Package{{Name: "a", Version: "1"}}}, {Source: "import"}} {
		if _, err := store.Put(t.Context(), tree.WriteEROFS, meta, "x"); err != nil {
			t.Fatal(err)
		}
	}
	img, err := store.Resolve("x")
	if err != nil {
		t.Fatal(err)
	}
	if meta, err := store.Meta(img); err != nil || meta.Source != "build" {
		t.Errorf("%+v, %v", meta, err)
	}
}

func TestMetaOfAnotherImageIsRefused(t *testing.T) {
	store := openStore(t, Config{Home: t.TempDir()})
	a, b := putText(t, store, "a"), putText(t, store, "b")
	if err := os.Rename(store.home.meta(a.Digest), store.home.meta(b.Digest)); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Meta(b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error is %v", err)
	}
}

//go:build unix

package image

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// damage changes one byte of a stored image, keeping size and modification time.
func damage(t testing.TB, path string, offset int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[offset] ^= 1
	if err := errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, data, 0o644), os.Chmod(path, 0o444),
		os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRootChecksASystemImageOnce(t *testing.T) {
	system, home := t.TempDir(), filepath.Join(t.TempDir(), "images")
	putText(t, openStore(t, Config{Home: system}), "system", "lab:a")
	store := openStore(t, Config{Home: home, System: system})
	img, err := store.Resolve("lab:a")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		file, err := store.OpenRoot(img)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	stamp := store.home.checked(img.Digest)
	if _, err := os.Stat(stamp); err != nil {
		t.Fatalf("not remembered: %v", err)
	}
	damage(t, store.system[0].blob(img.Digest), img.SizeBytes-1)
	if _, err := store.OpenRoot(img); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a changed file was opened: %v", err)
	}
	readonly := openStore(t, Config{System: system})
	if _, err := readonly.OpenRoot(img); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without a home: %v", err)
	}
}

func TestOpenRootRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(path string) error
		want error
	}{
		{"truncated", func(p string) error { return errors.Join(os.Chmod(p, 0o644), os.Truncate(p, 4096), os.Chmod(p, 0o444)) }, ErrCorrupt},
		{"cut to nothing", func(p string) error { return errors.Join(os.Chmod(p, 0o644), os.Truncate(p, 0), os.Chmod(p, 0o444)) }, ErrCorrupt},
		{"grown", func(p string) error {
			return errors.Join(os.Chmod(p, 0o644), os.Truncate(p, 1<<20), os.Chmod(p, 0o444))
		}, ErrCorrupt},
		{"writable by others", func(p string) error { return os.Chmod(p, 0o446) }, ErrCorrupt},
		{"writable by the group", func(p string) error { return os.Chmod(p, 0o464) }, ErrCorrupt},
		{"a symbolic link", func(p string) error { return errors.Join(os.Rename(p, p+"x"), os.Symlink(p+"x", p)) }, ErrCorrupt},
		{"a directory", func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) }, ErrCorrupt},
		{"a fifo", func(p string) error { return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o444)) }, ErrCorrupt}, // would block
		{"gone", os.Remove, ErrNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := openStore(t, Config{Home: t.TempDir()})
			img := putText(t, store, "x", "x")
			if err := test.do(store.home.blob(img.Digest)); err != nil {
				t.Fatal(err)
			}
			if file, err := store.OpenRoot(img); !errors.Is(err, test.want) {
				t.Errorf("got %v, error %v, want %v", file, err, test.want)
			}
		})
	}
}

func TestOpenRootRefusesAStrangersFile(t *testing.T) {
	testenv.Require(t, testenv.Root)
	store := openStore(t, Config{Home: t.TempDir()})
	img := putText(t, store, "x", "x")
	if err := os.Chown(store.home.blob(img.Digest), 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenRoot(img); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "user 1234") {
		t.Errorf("error is %v", err)
	}
}

func TestVerifyFindsDamage(t *testing.T) {
	for name, offset := range map[string]func(size int64) int64{
		"in the content": func(size int64) int64 { return size - 4096 },
		"in an inode":    func(int64) int64 { return 1152 + 4 },
		"in the padding": func(size int64) int64 { return size - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			store := openStore(t, Config{Home: t.TempDir()})
			img := putText(t, store, "x", "x")
			damage(t, store.home.blob(img.Digest), offset(img.SizeBytes))
			if err := store.Verify(t.Context(), "x", nil); !errors.Is(err, ErrCorrupt) {
				t.Errorf("error is %v", err)
			}
			putText(t, store, "x") // storing it again heals it
			if err := store.Verify(t.Context(), "x", nil); err != nil {
				t.Error(err)
			}
		})
	}
	store := openStore(t, Config{Home: t.TempDir()})
	img := putText(t, store, "x", "x")
	if err := os.Remove(store.home.meta(img.Digest)); err != nil {
		t.Fatal(err)
	}
	if err := store.Verify(t.Context(), "x", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a description: %v", err)
	}
	if err := store.Verify(t.Context(), "none", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("nothing there: %v", err)
	}
}

func TestVerifyRefusesWhatATreeCannotWrite(t *testing.T) {
	const xattrs, mode, block, owner = 2, 4, 16, 24 // offsets in a compact inode
	for _, test := range []struct {
		name   string
		offset int
		value  []byte
	}{
		{"setuid", mode, []byte{0xed, 0x89}}, // 0104755
		{"owned by a user", owner, []byte{1}},
		{"a device", mode, []byte{0xa4, 0x21}}, // 020644
		{"extended attributes", xattrs, []byte{3}},
		{"content outside of the file", block, []byte{0xff, 0xff}},
		{"inline content", 0, []byte{2 << 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := openStore(t, Config{Home: t.TempDir()})
			tree := newTree(t)
			if err := tree.AddFile("/f", 0o644, tree.Epoch(), strings.NewReader("x")); err != nil {
				t.Fatal(err)
			}
			raw := encode(t, tree)
			at := 1152 + 64 + 32 // behind the root and its entries: 32 + 36 + 4 bytes
			for raw[at+mode+1]&0xf0 != 0x80 {
				at -= 32
			}
			copy(raw[at+test.offset:], test.value)
			copy(raw[at+32+12:], "\x01\x01\x00\x00a") // an empty user.a, behind inode and header: for who says that it has any
			if _, err := store.Put(t.Context(), func(w io.Writer) error { _, err := w.Write(raw); return err }, Meta{}, "bad"); err != nil {
				t.Fatal(err)
			}
			if err := store.Verify(t.Context(), "bad", nil); !errors.Is(err, ErrCorrupt) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestTreeOfAnImageIsTheSameAgain(t *testing.T) {
	store := openStore(t, Config{Home: t.TempDir()})
	original := build(t, sampleSteps())
	img, err := store.Put(t.Context(), original.WriteEROFS, Meta{}, "x")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := store.Tree(t.Context(), img, TreeConfig{SpoolDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if diff := cmp.Diff(listing(t, original), listing(t, tree)); diff != "" {
		t.Error(diff)
	}
	if got := sumOf(encode(t, tree)); got != img.Digest {
		t.Errorf("digest %v, want %v", got, img.Digest)
	}
	addFile(t, tree, "/more", "same content") // shares the content of /etc/same
	addFile(t, tree, "/other", "something new")
	raw := encode(t, tree)
	if want := img.SizeBytes + erofsBlock; int64(len(raw)) != want {
		t.Errorf("%d bytes, want %d", len(raw), want)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	damage(t, store.home.blob(img.Digest), img.SizeBytes-1)
	if _, err := store.Tree(t.Context(), img, TreeConfig{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged image was loaded: %v", err)
	}
}

func BenchmarkResolveAndOpenRoot(b *testing.B) {
	store := openStore(b, Config{Home: b.TempDir()})
	putText(b, store, "x", "lab:text")
	for b.Loop() {
		img, err := store.Resolve("lab:text")
		if err != nil {
			b.Fatal(err)
		}
		file, err := store.OpenRoot(img)
		if err != nil {
			b.Fatal(err)
		}
		if err := file.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/internal/testenv"
)

func openStore(t testing.TB, config Config) *Store {
	t.Helper()
	store, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// putText stores a tree with one file.
func putText(t testing.TB, store *Store, text string, tags ...string) Image {
	t.Helper()
	tree := newTree(t)
	addFile(t, tree, "/etc/text", text)
	img, err := store.Put(t.Context(), tree.WriteEROFS, Meta{Source: "test"}, tags...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// files lists all files below dir.
func filesIn(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestPutAndFind(t *testing.T) {
	home := filepath.Join(t.TempDir(), "made", "images")
	store := openStore(t, Config{Home: home})
	img := putText(t, store, "hello", "lab:text", "other")

	for _, ref := range []string{"lab:text", "other", img.Digest.String(), img.Digest.Hex(), img.Digest.Short(), "sha256:" + img.Digest.Short()} {
		got, err := store.Resolve(ref)
		if err != nil || got.Digest != img.Digest || got.System || got.SizeBytes != img.SizeBytes {
			t.Errorf("Resolve(%s) = %+v, %v", ref, got, err)
		}
	}
	for _, ref := range []string{"lab:none", "", "..", "a/b", "tags/../x", img.Digest.Hex()[:11], strings.Repeat("0", 64), "sha256:" + strings.Repeat("0", 64), strings.Repeat("0", 12)} {
		if _, err := store.Resolve(ref); !errors.Is(err, ErrNotFound) {
			t.Errorf("Resolve(%q): %v", ref, err)
		}
	}
	_, err := store.Resolve("lab:none")
	if want := "image lab:none not found: run silk image build lab:none"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}

	meta, err := store.Meta(img)
	want := Meta{Schema: MetaSchema, Digest: img.Digest, SizeBytes: img.SizeBytes, Created: meta.Created, Source: "test"}
	if diff := cmp.Diff(want, meta, cmp.Comparer(func(a, b Digest) bool { return a == b })); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if age := time.Since(meta.Created); age < 0 || age > time.Hour {
		t.Errorf("created %v", meta.Created)
	}

	root, err := store.OpenRoot(img)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	data, err := io.ReadAll(root)
	if err != nil || sumOf(data) != img.Digest {
		t.Errorf("the open file has digest %v, %v", sumOf(data), err)
	}
	if _, err := root.Write([]byte("x")); err == nil {
		t.Error("the open file can be written")
	}
	info, err := root.Stat()
	if err != nil || info.Mode() != 0o444 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := store.Verify(t.Context(), "lab:text", nil); err != nil {
		t.Error(err)
	}
	wantFiles := []string{
		"blobs/sha256-" + img.Digest.Hex() + ".erofs", "lock", "meta/" + img.Digest.Hex() + ".json", "tags/lab:text", "tags/other",
	}
	if diff := cmp.Diff(wantFiles, filesIn(t, home)); diff != "" {
		t.Error(diff)
	}
	for _, dir := range []string{home, home + "/blobs", home + "/tags"} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v %v", dir, info.Mode(), err)
		}
	}
}

func TestStoreIsWhereOtherTestsLookForIt(t *testing.T) {
	home := t.TempDir()
	t.Setenv(testenv.EnvHome, home)
	putText(t, openStore(t, Config{Home: filepath.Join(home, "images")}), "x", "lab:probe")
	if err := testenv.Probe(testenv.Image("lab:probe")); err != nil {
		t.Error(err)
	}
}

func TestTagsMove(t *testing.T) {
	store := openStore(t, Config{Home: t.TempDir()})
	first := putText(t, store, "first", "lab:x")
	second := putText(t, store, "second", "lab:x")
	if got, err := store.Resolve("lab:x"); err != nil || got.Digest != second.Digest {
		t.Errorf("%v, %v", got, err)
	}
	if err := store.Tag(first, "lab:x"); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Resolve("lab:x"); err != nil || got.Digest != first.Digest {
		t.Errorf("%v, %v", got, err)
	}
	for _, tag := range []string{"", "/", "a/b", "..", "-x", ".x", "sha256:x", "0123456789ab", strings.Repeat("x", 129), "a b", "ü"} {
		if err := store.Tag(first, tag); err == nil {
			t.Errorf("tag %q was accepted", tag)
		}
		if _, err := store.Put(t.Context(), build(t, nil).WriteEROFS, Meta{}, tag); err == nil {
			t.Errorf("tag %q was accepted by Put", tag)
		}
	}
	if err := store.Tag(Image{Digest: sumOf(nil)}, "x"); err == nil {
		t.Error("an image that does not exist was tagged")
	}
}

func TestAmbiguousPrefix(t *testing.T) {
	home := t.TempDir()
	store := openStore(t, Config{Home: home})
	img := putText(t, store, "x", "x")
	twin := img.Digest.Hex()[:60] + "0000"
	if err := os.Link(store.home.blob(img.Digest), filepath.Join(home, "blobs", "sha256-"+twin+".erofs")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Resolve(img.Digest.Short()); err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "2 images") {
		t.Errorf("error is %v", err)
	}
}

func TestSystemStore(t *testing.T) {
	system, home := t.TempDir(), filepath.Join(t.TempDir(), "images")
	owner := openStore(t, Config{Home: system})
	img := putText(t, owner, "system", "lab:a", "lab:b")
	store := openStore(t, Config{Home: home, System: system})

	got, err := store.Resolve("lab:a")
	if err != nil || !got.System || got.Digest != img.Digest {
		t.Fatalf("%+v, %v", got, err)
	}
	own := putText(t, store, "own", "lab:a") // hides the system's tag, but not its digest
	if got, err := store.Resolve("lab:a"); err != nil || got.System || got.Digest != own.Digest {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := store.Resolve(img.Digest.Short()); err != nil || !got.System {
		t.Errorf("%+v, %v", got, err)
	}
	list, err := store.List()
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Digest string
		Tags   []string
		System bool
	}
	var rows []row
	for _, img := range list {
		rows = append(rows, row{img.Digest.Hex(), img.Tags, img.System})
	}
	if diff := cmp.Diff([]row{{own.Digest.Hex(), []string{"lab:a"}, false}, {img.Digest.Hex(), []string{"lab:b"}, true}}, rows); diff != "" {
		t.Error(diff)
	}
	for _, ref := range []string{"lab:b", img.Digest.String()} {
		if err := store.Remove(ref); !errors.Is(err, ErrReadOnly) {
			t.Errorf("Remove(%s): %v", ref, err)
		}
	}
	if err := store.Tag(img, "mine"); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Resolve("mine"); err != nil || !got.System {
		t.Errorf("%+v, %v", got, err)
	}
	if result, err := store.GC(false); err != nil || len(result.Images) > 0 {
		t.Errorf("%+v, %v", result, err)
	}

	only := openStore(t, Config{System: system})
	if _, err := only.Put(t.Context(), build(t, nil).WriteEROFS, Meta{}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Put: %v", err)
	}
	if _, err := openStore(t, Config{System: filepath.Join(system, "none")}).Resolve("lab:a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no store at all: %v", err)
	}
	if same := openStore(t, Config{Home: system, System: system + "/"}); same.system != "" {
		t.Error("a store is its own system store")
	}
	if _, err := Open(Config{}); err == nil {
		t.Error("a store without directories was opened")
	}
}

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
	damage(t, store.system.blob(img.Digest), img.SizeBytes-1)
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
	const mode, owner = 4, 24 // offsets in a compact inode
	for _, test := range []struct {
		name   string
		offset int
		value  []byte
	}{
		{"setuid", mode, []byte{0xed, 0x89}}, // 0104755
		{"owned by a user", owner, []byte{1}},
		{"a device", mode, []byte{0xa4, 0x21}}, // 020644
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
			if _, err := store.Put(t.Context(), func(w io.Writer) error { _, err := w.Write(raw); return err }, Meta{}, "bad"); err != nil {
				t.Fatal(err)
			}
			if err := store.Verify(t.Context(), "bad", nil); !errors.Is(err, ErrCorrupt) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestFailedPutLeavesNothing(t *testing.T) {
	disk := errors.New("no space left on device")
	cause := errors.New("enough")
	for _, test := range []struct {
		name    string
		content func(cancel context.CancelCauseFunc, w io.Writer) error
		want    error
	}{
		{"full disk", func(_ context.CancelCauseFunc, w io.Writer) error { _, _ = w.Write(make([]byte, 9999)); return disk }, disk},
		{"no image", func(_ context.CancelCauseFunc, w io.Writer) error { _, err := w.Write(make([]byte, 8192)); return err }, nil},
		{"nothing", func(context.CancelCauseFunc, io.Writer) error { return nil }, nil},
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

func TestRemove(t *testing.T) {
	home := t.TempDir()
	store := openStore(t, Config{Home: home})
	img := putText(t, store, "x", "a", "b", "c")
	root, err := store.OpenRoot(img)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := store.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Resolve("b"); err != nil {
		t.Error(err)
	}
	if err := store.Remove("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("error is %v", err)
	}
	if err := store.Remove(img.Digest.Short()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"lock"}, filesIn(t, home)); diff != "" {
		t.Error(diff)
	}
	if data, err := io.ReadAll(root); err != nil || sumOf(data) != img.Digest {
		t.Errorf("a sandbox that uses the image lost it: %v", err)
	}
	putText(t, store, "y", "last")
	if err := store.Remove("last"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"lock"}, filesIn(t, home)); diff != "" {
		t.Error(diff)
	}
}

func TestGC(t *testing.T) {
	home := t.TempDir()
	store := openStore(t, Config{Home: home})
	kept := putText(t, store, "kept", "kept")
	loose := putText(t, store, "loose")
	alive, err := store.createTemp()
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * leftoverAge)
	for _, name := range []string{"tmp/blob-dead", "tags/.kept123", "tags/.new123", "meta/" + strings.Repeat("0", 64) + ".json", "checked/" + strings.Repeat("1", 64)} {
		if err := os.WriteFile(filepath.Join(home, name), []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(name, "new") {
			if err := os.Chtimes(filepath.Join(home, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := filesIn(t, home)
	dry, err := store.GC(true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, filesIn(t, home)); diff != "" {
		t.Errorf("a dry run changed:\n%s", diff)
	}
	wet, err := store.GC(false)
	if err != nil {
		t.Fatal(err)
	}
	for name, result := range map[string]GCResult{"dry": dry, "wet": wet} {
		if len(result.Images) != 1 || result.Images[0].Digest != loose.Digest || result.Leftovers != 4 || result.Bytes != loose.SizeBytes+4*5 {
			t.Errorf("%s: %+v", name, result)
		}
	}
	tmp := filepath.Base(alive.name)
	want := []string{"blobs/sha256-" + kept.Digest.Hex() + ".erofs", "lock", "meta/" + kept.Digest.Hex() + ".json", "tags/.new123", "tags/kept", "tmp/" + tmp}
	if diff := cmp.Diff(want, filesIn(t, home)); diff != "" {
		t.Error(diff)
	}
	if err := alive.discard(); err != nil {
		t.Error(err)
	}
	if again, err := store.GC(false); err != nil || len(again.Images) > 0 || again.Leftovers > 0 {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestConcurrentPutsAndGC(t *testing.T) {
	home := t.TempDir()
	raw := encode(t, build(t, sampleSteps()))
	want := sumOf(raw)
	var writers sync.WaitGroup
	done := make(chan struct{})
	for range 8 {
		writers.Go(func() {
			store := openStore(t, Config{Home: home}) // as another process would
			for range 5 {
				img, err := store.Put(t.Context(), func(w io.Writer) error {
					_, err := io.Copy(w, bytes.NewReader(raw))
					return err
				}, Meta{}, "same")
				if err != nil || img.Digest != want {
					t.Errorf("%v, %v", img.Digest, err)
				}
			}
		})
	}
	var collector sync.WaitGroup
	collector.Go(func() {
		store := openStore(t, Config{Home: home})
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := store.GC(false); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	close(done)
	collector.Wait()
	if err := openStore(t, Config{Home: home}).Verify(t.Context(), "same", nil); err != nil {
		t.Error(err)
	}
	if got := filesIn(t, home); len(got) != 4 {
		t.Errorf("left: %v", got)
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

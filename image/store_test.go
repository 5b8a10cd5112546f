package image

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	for _, text := range []string{"first", "second", "first"} {
		img := putText(t, store, text, "lab:x")
		if got, err := store.Resolve("lab:x"); err != nil || got.Digest != img.Digest {
			t.Errorf("%v, %v", got, err)
		}
	}
	for _, tag := range []string{"", "/", "a/b", "..", "-x", ".x", "sha256:x", "0123456789ab", strings.Repeat("x", 129), "a b", "ü"} {
		if _, err := store.Put(t.Context(), build(t, nil).WriteEROFS, Meta{}, tag); err == nil {
			t.Errorf("tag %q was accepted", tag)
		}
	}
}

// TestTag: an image has any number of names, and one of another store gets one here.
func TestTag(t *testing.T) {
	store := openStore(t, Config{Home: t.TempDir()})
	one, two := putText(t, store, "one", "one:v1"), putText(t, store, "two")
	for _, step := range []struct {
		ref, tag string
		want     Image
	}{{"one:v1", "both:latest", one}, {two.Digest.String(), "both:latest", two}} {
		if err := store.Tag(step.ref, step.tag); err != nil {
			t.Fatal(err)
		}
		if got, err := store.Resolve(step.tag); err != nil || got.Digest != step.want.Digest {
			t.Errorf("%s after %s: %v, %v", step.tag, step.ref, got.Digest, err)
		}
	}
	if got, err := store.Resolve("one:v1"); err != nil || got.Digest != one.Digest {
		t.Errorf("the first name: %v, %v", got.Digest, err)
	}
	if err := store.Tag("none:v1", "both:latest"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of an image that is not there: %v", err)
	}
	if err := store.Tag("one:v1", "../x"); err == nil {
		t.Error("a tag that is none was written")
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
	if err := store.writeTag("mine", img.Digest); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Resolve("mine"); err != nil || !got.System {
		t.Errorf("%+v, %v", got, err)
	}
	if result, err := store.GC(false, Untagged); err != nil || len(result.Images) > 0 {
		t.Errorf("%+v, %v", result, err)
	}

	more := t.TempDir()
	third := putText(t, openStore(t, Config{Home: more}), "third", "lab:a", "lab:c")
	all := openStore(t, Config{Home: home, System: system, More: []string{"", system, home, more}})
	if len(all.system) != 2 {
		t.Errorf("system stores: %v", all.system)
	}
	if got, err := all.Resolve("lab:c"); err != nil || !got.System || got.Digest != third.Digest {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := all.Resolve("lab:a"); err != nil || got.Digest != own.Digest {
		t.Errorf("%+v, %v", got, err)
	}

	only := openStore(t, Config{System: system})
	if _, err := only.Put(t.Context(), build(t, nil).WriteEROFS, Meta{}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Put: %v", err)
	}
	if _, err := openStore(t, Config{System: filepath.Join(system, "none")}).Resolve("lab:a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no store at all: %v", err)
	}
	if same := openStore(t, Config{Home: system, System: system + "/"}); len(same.system) > 0 {
		t.Error("a store is its own system store")
	}
	if _, err := Open(Config{}); err == nil {
		t.Error("a store without directories was opened")
	}
}

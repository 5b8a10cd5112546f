package image

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
	dry, err := store.GC(true, Untagged)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, filesIn(t, home)); diff != "" {
		t.Errorf("a dry run changed:\n%s", diff)
	}
	wet, err := store.GC(false, Untagged)
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
	if again, err := store.GC(false, Untagged); err != nil || len(again.Images) > 0 || again.Leftovers > 0 {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestADamagedTagHarmsNoOther(t *testing.T) {
	home := t.TempDir()
	store := openStore(t, Config{Home: home})
	img := putText(t, store, "x", "good", "bad")
	if err := os.WriteFile(filepath.Join(home, "tags", "bad"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Resolve("bad"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Resolve: %v", err)
	}
	if list, err := store.List(); err != nil || len(list) != 1 || !slices.Equal(list[0].Tags, []string{"good"}) {
		t.Errorf("List: %+v, %v", list, err)
	}
	if _, err := store.GC(false, Untagged); !errors.Is(err, ErrCorrupt) {
		t.Errorf("GC: %v", err)
	}
	if err := store.Remove("bad"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.GC(false, Untagged); err != nil {
		t.Errorf("GC: %v", err)
	}
	if got, err := store.Resolve("good"); err != nil || got.Digest != img.Digest {
		t.Errorf("Resolve: %+v, %v", got, err)
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
			if _, err := store.GC(false, Untagged); err != nil {
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

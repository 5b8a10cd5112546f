//go:build unix

package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCollectSweeps removes what a killed silk was copying, and nothing else.
func TestCollectSweeps(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	must(t, os.Mkdir(sub, 0o755))
	old := time.Now().Add(-time.Hour)
	age := func(path string) string {
		must(t, os.Chtimes(path, old, old))
		return path
	}
	begin := func(dir string) (*pending, string) {
		root, err := os.OpenRoot(dir)
		must(t, err)
		t.Cleanup(func() { must(t, root.Close()) })
		p, err := newPending(root, "x", 0o644)
		must(t, err)
		return p, filepath.Join(dir, p.temp)
	}
	put := func(name string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte("mine"), 0o644))
		return path
	}
	var gone, kept []string
	for _, d := range []string{dir, sub} {
		dead, path := begin(d)
		must(t, dead.file.Close()) // as the kernel does when it ends a process
		gone = append(gone, age(path))
		living, path := begin(d)
		t.Cleanup(living.discard)
		kept = append(kept, age(path))
	}
	justMade, path := begin(dir)
	must(t, justMade.file.Close()) // it may be one that is not locked yet
	kept = append(kept, path,
		age(put(".silk-notes")), age(put(".silk-ABCDEFGHIJKLMNOPQRSTUVWXY1")), age(put("x.silk-ABCDEFGHIJKLMNOPQRSTUVWXYZ")))
	link := filepath.Join(dir, ".silk-LLLLLLLLLLLLLLLLLLLLLLLLLL")
	must(t, os.Symlink(age(put("target")), link))
	kept = append(kept, link)

	got, err := Collect(bytes.NewReader(pack(t, file("sub/a", "1"), file("sub/b", "2"))), Manifest{}, CollectConfig{Dir: dir})
	must(t, err)
	if got.Omitted != 0 || len(got.Artifacts) != 2 {
		t.Errorf("%+v", got)
	}
	for _, path := range gone {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left of a killed silk", path)
		}
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("somebody else's %s is gone", path)
		}
	}
}

// TestCollectTemporaryName copies no artifact to a name that would be swept.
func TestCollectTemporaryName(t *testing.T) {
	dir := t.TempDir()
	got, err := Collect(bytes.NewReader(pack(t, file("sub/.silk-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "1"))), Manifest{}, CollectConfig{Dir: dir})
	must(t, err)
	if got.Omitted != 1 || got.Artifacts[0].Omitted == "" {
		t.Errorf("%+v", got)
	}
	if names, err := os.ReadDir(dir); len(names) != 0 || err != nil {
		t.Errorf("copied: %v, %v", names, err)
	}
}

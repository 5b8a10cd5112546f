package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// carried is an executable that this test carries, or with nil content one that it was built without.
func carried(content []byte) Executable {
	files := fstest.MapFS{}
	if content != nil {
		sum := sha256.Sum256(content)
		files["files/tool"] = &fstest.MapFile{Data: content}
		files["files/tool.sha256"] = &fstest.MapFile{Data: []byte(hex.EncodeToString(sum[:]) + "\n")}
	}
	return Executable{What: "test tool", Name: "tool", Dir: "tools", Files: files}
}

func toolFile(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(path, []byte("tool"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLocateExplicit(t *testing.T) {
	good := toolFile(t, 0o555)
	if got, err := carried(nil).Locate(good, ""); got != good || err != nil {
		t.Errorf("Locate(%q) = %q, %v", good, got, err)
	}
	for _, mode := range []fs.FileMode{0o775, 0o757} {
		if _, err := carried(nil).Locate(toolFile(t, mode), ""); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("one of mode %o: %v, want what to do about it", mode, err)
		}
	}
	if _, err := carried(nil).Locate(t.TempDir(), ""); err == nil {
		t.Error("a directory was taken for it")
	}
	if _, err := carried(nil).Locate("/nonexistent", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestLocateWithout(t *testing.T) {
	e := carried(nil)
	if path, err := e.Locate("", t.TempDir()); !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "test tool: ") {
		t.Errorf("%q, %v, want ErrNotBuilt of the test tool", path, err)
	}
	if removed, err := e.Prune(t.TempDir(), false); removed != nil || err != nil {
		t.Errorf("Prune: %q, %v", removed, err)
	}
}

func TestLocateEmbedded(t *testing.T) {
	home, content := t.TempDir(), []byte("#!/bin/true\n")
	e := carried(content)
	path, err := e.Locate("", home)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the unpacked file has %q, %v", got, err)
	}
	// One that was cut short is unpacked again.
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if again, err := e.Locate("", home); again != path || err != nil {
		t.Errorf("after a crash: %q, %v", again, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(content)) {
		t.Errorf("the file that was cut short was not replaced: %v", err)
	}
	bad := e
	bad.Files = fstest.MapFS{"files/tool": {Data: []byte("another")}, "files/tool.sha256": {Data: []byte(strings.Repeat("0", 64))}}
	if path, err := bad.Locate("", home); err == nil || !strings.Contains(err.Error(), "build again") {
		t.Errorf("content of another digest: %q, %v", path, err)
	}
	removed, err := bad.Prune(home, false) // the next version's
	if want := []string{filepath.Dir(path)}; err != nil || cmp.Diff(want, removed) != "" {
		t.Errorf("Prune: %q, %v, want %q", removed, err, want)
	}
}

func TestPruneDirs(t *testing.T) {
	dir := t.TempDir()
	old, own := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, d := range []string{old, own, "notes"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, old)}
	for _, dry := range []bool{true, false} {
		got, err := carried(nil).pruneDirs(dir, own, entries, dry)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("dry %t: %s", dry, d)
		}
		if _, err := os.Stat(want[0]); (err == nil) != dry {
			t.Errorf("dry %t: the old one: %v", dry, err)
		}
	}
	for _, d := range []string{own, "notes"} {
		if _, err := os.Stat(filepath.Join(dir, d)); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func TestWriteLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tool")
	for _, content := range []string{"first", "and again"} {
		if err := write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("read %q, %v, want %q", got, err, content)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v, want the file alone", len(entries), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != executable {
		t.Errorf("mode %v, %v, want %o", info.Mode(), err, executable)
	}
}

// TestOneUnpacksForAll shows that silks that start at once on a new home write one file, not one each.
func TestOneUnpacksForAll(t *testing.T) {
	e, home := carried(bytes.Repeat([]byte{1}, 1<<20)), t.TempDir()
	first, err := e.Locate("", home)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	release := takeTurn(filepath.Dir(first), 0) // as one that unpacks
	done := make(chan error)
	const silks = 20
	for range silks {
		go func() {
			_, err := e.Locate("", home)
			done <- err
		}()
	}
	takeTurn(filepath.Dir(first), 50*time.Millisecond)() // the others had time to start
	f, err := os.OpenFile(first, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatalf("a silk unpacked while another did: %v", err)
	}
	defer f.Close()
	info, err := fs.Stat(e.Files, "files/"+e.Name)
	if err == nil {
		err = errors.Join(f.Truncate(info.Size()), f.Chmod(executable)) // whole, but not these silks' work
	}
	if err != nil {
		t.Fatal(err)
	}
	release()
	for range silks {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	again, err := os.Open(first)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	b := make([]byte, 1)
	if _, err := again.Read(b); err != nil || b[0] != 0 {
		t.Errorf("first byte %q, %v: what the first one left was written again", b, err)
	}
}

// TestTurnEnds shows that a holder that does not end holds nobody up.
func TestTurnEnds(t *testing.T) {
	dir := t.TempDir()
	defer takeTurn(dir, 0)()
	takeTurn(dir, time.Millisecond)()
	takeTurn(filepath.Join(dir, "missing"), time.Hour)()
}

func TestWriteThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tool")
	if err := os.Mkdir(path, 0o700); err != nil { // what cannot be replaced by a file
		t.Fatal(err)
	}
	if err := write(path, []byte("tool")); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v, want the directory alone", len(entries), err)
	}
}

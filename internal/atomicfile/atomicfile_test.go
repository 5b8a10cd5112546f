package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	for _, want := range []struct {
		data string
		perm fs.FileMode
	}{{"first", 0o644}, {"", 0o600}, {"third", 0o666}} {
		if err := Write(path, []byte(want.data), want.perm); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want.data {
			t.Errorf("got %q, %v; want %q", got, err, want.data)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want.perm {
			t.Errorf("got mode %v, %v; want %v", info.Mode(), err, want.perm)
		}
	}
}

// A reader that opened the file before goes on reading what it opened.
func TestWriteKeepsOldReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Write(path, []byte("new and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := f.Read(buf)
	if err != nil || string(buf[:n]) != "old" {
		t.Errorf("the old reader got %q, %v", buf[:n], err)
	}
}

func TestWriteFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "no", "such", "dir"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(taken, []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v; want only the directory", entries, err)
	}
}

func TestWriteFuncFailureLeavesTheOld(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := WriteFunc(path, 0o600, func(w io.Writer) error {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 || !IsTemporary(entries[0].Name()) || IsTemporary(entries[1].Name()) {
			t.Errorf("while it is written: %v, %v", entries, err)
		}
		if _, err := io.WriteString(w, "half of the new"); err != nil {
			t.Error(err)
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want %v", err, boom)
	}
	got, err := os.ReadFile(path)
	entries, dirErr := os.ReadDir(dir)
	if string(got) != "old" || err != nil || dirErr != nil || len(entries) != 1 {
		t.Errorf("got %q, %v; %v, %v", got, err, entries, dirErr)
	}
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}
	if err := SyncDir(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestWriteIf(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := errors.New("somebody else has written it")
	content := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	err := WriteIf(path, 0o600, content, func() error { return other })
	if got, readErr := os.ReadFile(path); !errors.Is(err, other) || string(got) != "old" || readErr != nil {
		t.Errorf("%v; the file has %q, %v", err, got, readErr)
	}
	if names, err := os.ReadDir(dir); len(names) != 1 || err != nil {
		t.Errorf("left are %v, %v", names, err)
	}
	if err := WriteIf(path, 0o600, content, func() error { return nil }); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); string(got) != "new" || err != nil {
		t.Errorf("the file has %q, %v", got, err)
	}
}

package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, link, fifo, linked := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo"), filepath.Join(dir, "linked")
	if err := errors.Join(os.WriteFile(file, []byte("x"), 0o600), os.Symlink(file, link), unix.Mkfifo(fifo, 0o600), os.Symlink(dir, linked)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		file: nil, filepath.Join(linked, "file"): nil, link: ErrOther, fifo: ErrOther, dir: ErrOther, os.DevNull: ErrOther, filepath.Join(dir, "none"): fs.ErrNotExist,
	} {
		f, err := Open(path)
		if !errors.Is(err, want) || (f == nil) != (want != nil) {
			t.Errorf("Open(%q) = %v, %v, want %v", path, f, err, want)
		}
		if f == nil {
			continue
		}
		if text, err := io.ReadAll(f); string(text) != "x" || err != nil {
			t.Errorf("%q has %q, %v", path, text, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

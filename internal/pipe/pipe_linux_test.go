package pipe

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNewIsLarge(t *testing.T) {
	r, w, err := New(256 << 10)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	size, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil || size < 256<<10 {
		t.Errorf("the pipe holds %d bytes (%v), want 256 KiB", size, err)
	}
}

func TestInterruptibleReadsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	want := strings.Repeat("line\n", 100_000)
	if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, stop, err := Interruptible(f)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	got, err := io.ReadAll(r)
	if err != nil || string(got) != want {
		t.Errorf("read %d bytes, %v; want %d", len(got), err, len(want))
	}
}

func TestStopEndsARead(t *testing.T) {
	source, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	defer w.Close()
	r, stop, err := Interruptible(source)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	if n, err := r.Read(buf); n != 1 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	ended := make(chan error)
	go func() { // waits for a second byte that never comes
		_, err := r.Read(buf)
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want %v", err, os.ErrClosed)
	}
	stop()
	if _, err := w.WriteString("y"); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(buf); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("after stop: read %d, %v", n, err)
	}
	if n, err := source.Read(buf); n != 1 || err != nil { // nothing was taken out of the source
		t.Errorf("the source: read %d, %v", n, err)
	}
}

package run

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// TestKeeperLeavesRoomForTheRecord: on a full disk, here a limit of file sizes, the prefix must not take the last block.
func TestKeeperLeavesRoomForTheRecord(t *testing.T) {
	const limit = 3 << 20
	path := filepath.Join(t.TempDir(), "stdout")
	k := newKeeper(10<<20, func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) })
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for range 5 {
		k.write(want)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if k.err == nil || k.kept != limit-memoryBytes || info.Size() != k.kept || k.total != 5<<20 {
		t.Errorf("kept %d of %d bytes, file of %d: %v; want %d", k.kept, k.total, info.Size(), k.err, limit-memoryBytes)
	}
	got, err := k.prefix()
	if err != nil || !bytes.Equal(got, bytes.Repeat(want, 2)) {
		t.Errorf("the prefix has %d bytes, %v", len(got), err)
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
}

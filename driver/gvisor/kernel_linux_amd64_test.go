package gvisor

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForkWithFewFiles: the process gets descriptors of high numbers, which an ordinary limit can forbid.
func TestForkWithFewFiles(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	h, err := openHost("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 128, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	_, err = h.spawn(1)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EBADF) || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("spawn with 128 open files: %v", err)
	}
}

package gvisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
)

func TestOpenHostOnNoexec(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	if err := unix.Mount("test", dir, "tmpfs", unix.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(dir, "sentry")
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := openHost(path, Config{}.withDefaults()); err == nil || !strings.Contains(err.Error(), "noexec") {
		t.Errorf("openHost of a file on a file system mounted noexec: %v", err)
	}
}

// TestForkWithFewFiles: the process gets descriptors of high numbers, which an ordinary limit can forbid.
func TestForkWithFewFiles(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	h, err := openHost("/bin/true", Config{}.withDefaults())
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

func TestTightLimits(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 40, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	got := tightLimits()
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "ulimit -f") {
		t.Errorf("with a limit of file sizes: %q", got)
	}
}

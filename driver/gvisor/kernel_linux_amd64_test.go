package gvisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor/wire"
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

// TestTellAfterTheEnd: the number of a closed socket is soon that of another run's, which must not be killed by mistake.
func TestTellAfterTheEnd(t *testing.T) {
	pair := func() [2]int {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ended := pair()
	defer unix.Close(ended[1])
	k := &kernel{sock: ended[0]}
	if err := k.tell(wire.Control{Kill: true}); err != nil {
		t.Fatalf("while it lives: %v", err)
	}
	k.close()
	another := pair()
	defer unix.Close(another[0])
	defer unix.Close(another[1])
	if another[0] != ended[0] {
		t.Fatalf("the next descriptor is %d, not %d again", another[0], ended[0])
	}
	s := &sandbox{kernel: k}
	if err := s.Signal(int(unix.SIGUSR1)); err != nil {
		t.Errorf("signal: %v", err)
	}
	s.Kill(driver.KillDrain)
	if n, err := unix.Read(another[1], make([]byte, 64)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("another sandbox's kernel got %d bytes, error %v", n, err)
	}
}

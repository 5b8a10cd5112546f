package peer

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("PEER_TEST_DIAL"); path != "" {
		c, err := net.Dial("unix", path)
		if err != nil {
			os.Exit(2)
		}
		text, _ := io.ReadAll(c)
		os.Stdout.Write(text)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve says "ours" to whoever gets through.
func serve(t *testing.T, l net.Listener) {
	t.Helper()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "ours")
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close() })
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got := dial(t, path, nil); got != "ours" {
		t.Errorf("our own process got %q", got)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another server does") {
		t.Errorf("a second listener: %v", err)
	}
	l.Close()
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	again, err := Listen(path)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	again.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("over a file: %v", err)
	}
}

// TestOthersAreNotServed opens the socket for all, so that only the look at the peer keeps others out.
func TestOthersAreNotServed(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	for name, mode := range map[string]os.FileMode{dir: 0o755, path: 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := dial(t, path, &syscall.Credential{Uid: 12345, Gid: 12345}); got != "" {
		t.Errorf("another account got %q", got)
	}
	if got := dial(t, path, nil); got != "ours" {
		t.Errorf("our own process got %q afterwards", got)
	}
}

func dial(t *testing.T, path string, as *syscall.Credential) string {
	t.Helper()
	exe, err := os.Open("/proc/self/exe") // others may not reach the file itself
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{exe}
	cmd.Env = []string{"PEER_TEST_DIAL=" + path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

package firecracker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

func testJail(t *testing.T, base string) *jail {
	t.Helper()
	testenv.Require(t, testenv.Root)
	j, err := makeJail(base, "firecracker", "run-1")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func testFile(t *testing.T, mode os.FileMode) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(path, []byte("content"), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// What is put into a jail is the same file where everybody may read it and nobody write, and else a copy that is so. It is there if its name is
// gone, too.
func TestJailPut(t *testing.T) {
	j := testJail(t, t.TempDir())
	defer func() {
		if err := j.remove(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	gone := testFile(t, 0o444)
	if err := os.Remove(gone.Name()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		file *os.File
		same bool
	}{
		"open":     {testFile(t, 0o444), true},
		"private":  {testFile(t, 0o400), false},
		"writable": {testFile(t, 0o666), false},
		"gone":     {gone, false},
	} {
		t.Run(name, func(t *testing.T) {
			serial, err := j.put(name, test.file)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(j.dir, "root", name)
			was, err := test.file.Stat()
			if err != nil {
				t.Fatal(err)
			}
			is, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			s := is.Sys().(*syscall.Stat_t)
			if os.SameFile(was, is) != test.same || is.Mode().Perm() != 0o444 || s.Uid != 0 || serial != driveSerial(s.Dev, s.Rdev, s.Ino) {
				t.Errorf("same file %t, mode %v, user %d, serial %s", os.SameFile(was, is), is.Mode(), s.Uid, serial)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != "content" {
				t.Errorf("it has %q, %v", b, err)
			}
			if _, err := j.put(name, test.file); err == nil {
				t.Error("it is put there twice")
			}
		})
	}
}

// A socket in a jail is the inmate's alone, however long the way to the jail is.
func TestJailListen(t *testing.T) {
	base := filepath.Join(t.TempDir(), strings.Repeat("x", 200))
	j := testJail(t, base)
	l, err := j.listen(1024)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(j.dir, "root", "v.sock_1024")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != 0o600 || s.Uid != j.uid || s.Gid != j.uid {
		t.Errorf("mode %v, user %d, group %d, want %d", info.Mode(), s.Uid, s.Gid, j.uid)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if err := j.remove(context.Background()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(base, jailLocks)); err != nil || len(left) != 0 {
		t.Errorf("locks: %v, %v", left, err)
	}
}

// A sweep ends the inmates of silks that are gone and removes their jails. It leaves those of the living, and a process that has got the number of
// an inmate.
func TestSweepJails(t *testing.T) {
	base := t.TempDir()
	lives := testJail(t, base)
	left, reused, earlier, empty := testJail(t, base), testJail(t, base), testJail(t, base), testJail(t, base)
	inmate, other := sleeper(t), sleeper(t)
	if err := errors.Join(left.note(inmate.Process.Pid), reused.note(other.Process.Pid), earlier.note(other.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	for j, replace := range map[*jail][2]string{reused: {`"start":`, `"start":1`}, earlier: {`"boot":"`, `"boot":"another-`}} {
		path := filepath.Join(j.dir, inmateFile)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(b), replace[0], replace[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, j := range []*jail{left, reused, earlier, empty} {
		if err := errors.Join(j.root.Close(), j.lock.Leave()); err != nil { // as the death of silk does
			t.Fatal(err)
		}
	}
	if dirs, err := leftJails(base); err != nil || len(dirs) != 4 {
		t.Errorf("left are %q, %v", dirs, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- inmate.Wait() }()
	if err := sweepJails(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the inmate of a jail that was left ended with %v", err)
	}
	if err := other.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err == nil || !strings.Contains(err.Error(), "terminated") { // of two signals the first one ends it
		t.Errorf("a process with another start time, or of another boot, ended with %v", err)
	}
	for name, want := range map[string]int{"firecracker": 1, jailLocks: 1} {
		if entries, err := os.ReadDir(filepath.Join(base, name)); err != nil || len(entries) != want || entries[0].Name() != lives.id {
			t.Errorf("in %s are %v, %v", name, entries, err)
		}
	}
	if err := lives.remove(context.Background()); err != nil {
		t.Error(err)
	}
}

// sleeper is a process that waits until it is killed.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

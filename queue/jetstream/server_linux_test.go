package jetstream

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

func closed(t *testing.T, s *Stream) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestItListensNowhere(t *testing.T) {
	s := start(t, t.TempDir())
	if addr := s.now.srv.Addr(); addr != nil {
		t.Errorf("it listens on %v", addr)
	}
	info, err := os.Stat(s.cfg.Dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its directory: %v, %v", info.Mode(), err)
	}
	// Sockets of this process, by the table of the kernel: no inode of ours is among those that listen.
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/self/net/" + table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && ours(t, f[9]) { // TCP_LISTEN, inode: proc_net(5)
				t.Errorf("it listens: %s", line)
			}
		}
	}
}

func ours(t *testing.T, inode string) bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

func TestRunsOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	publish(t, s, "a", "a1", "a2")
	if d, err := s.Next(t.Context(), "a", 1); d == nil || err != nil {
		t.Fatal(d, err)
	}
	closed(t, s)
	s = start(t, dir)
	d, err := s.Next(t.Context(), "a", 1) // at once, though it was out when the server ended
	if d == nil || err != nil || d.Run() != "a1" {
		t.Errorf("got %v, %v", d, err)
	}
	if err := s.Drop(t.Context(), "a2"); err != nil { // not listed: it does not know where it is
		t.Error(err)
	}
	if all := list(t, s); len(all) != 2 {
		t.Errorf("it has %v", all)
	}
	if err := s.Drop(t.Context(), "a2"); err != nil {
		t.Error(err)
	}
	if all := list(t, s); len(all) != 1 || all["a1"] != "a" {
		t.Errorf("it has %v", all)
	}
}

// TestDamage makes any file of the stream unreadable in some way. It opens all the same, and takes runs.
func TestDamage(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"cut":       func(path string) error { return os.Truncate(path, 5) },
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"garbage":   func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("nonsense ", 100)), 0o600) },
		"removed":   os.Remove,
		"directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			testenv.NoLeaks(t)
			whole := t.TempDir()
			s := start(t, whole)
			publish(t, s, "a", "a1", "a2", "a3")
			if d, err := s.Next(t.Context(), "a", 1); err != nil || d.Ack(t.Context()) != nil {
				t.Fatal(err)
			}
			closed(t, s)
			var files []string
			err := filepath.WalkDir(whole, func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					rel, rerr := filepath.Rel(whole, path)
					files, err = append(files, rel), rerr
				}
				return err
			})
			if err != nil || len(files) < 2 {
				t.Fatal(files, err)
			}
			for _, file := range files {
				dir := filepath.Join(t.TempDir(), "stream")
				if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
					t.Fatal(err)
				}
				if err := spoil(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				s, err := Open(t.Context(), Config{Dir: dir})
				if err != nil {
					t.Errorf("%s: %v", file, err)
					continue
				}
				all := list(t, s)
				t.Logf("%s: %d of 2 are left", file, len(all))
				publish(t, s, "a", "a2", "a3", "a4")
				seen := map[string]bool{}
				for {
					d, err := s.Next(t.Context(), "a", 100)
					if err != nil {
						t.Errorf("%s: %v", file, err)
					}
					if d == nil {
						break
					}
					seen[d.Run()] = true
					if err := d.Ack(t.Context()); err != nil {
						t.Errorf("%s: %v", file, err)
					}
				}
				if !seen["a2"] || !seen["a3"] || !seen["a4"] {
					t.Errorf("%s: it gave %v, want what was published", file, seen)
				}
				closed(t, s)
			}
		})
	}
}

// A directory that the server refuses is moved aside, with what is in it.
func TestDirectoryThatCannotBeUsedIsMovedAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stream")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "jetstream"), []byte("a file in place of a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, dir)
	publish(t, s, "a", "a1")
	aside, err := filepath.Glob(dir + ".damaged-*/jetstream")
	if err != nil || len(aside) != 1 {
		t.Errorf("moved aside: %v, %v", aside, err)
	}
}

// A disk that is full is no damage, and nothing is moved.
func TestFullDisk(t *testing.T) {
	testenv.Require(t, testenv.Root)
	testenv.NoLeaks(t)
	disk := testenv.SmallDisk(t, "3m")
	dir := filepath.Join(disk, "stream")
	s := start(t, dir)
	publish(t, s, "a", "a1", "a2")
	filler := filepath.Join(disk, "filler")
	if err := fill(filler); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	var refused error
	for i := 0; i < 100 && refused == nil; i++ {
		refused = s.Publish(t.Context(), "a", "more"+strings.Repeat("x", 50)+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	if refused == nil || !strings.Contains(refused.Error(), "no space left") {
		t.Errorf("a full disk: %v, want what is wrong", refused)
	}
	if err := s.Publish(t.Context(), "a", "a3"); err == nil {
		t.Error("it was taken by a server that cannot write")
	}
	// Room again: it recovers by itself, with all that it had acknowledged.
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		err := s.Publish(ctx, "a", "a3")
		if err == nil {
			break
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			t.Fatalf("it does not recover: %v", err)
		}
	}
	if all := list(t, s); all["a1"] != "a" || all["a2"] != "a" || all["a3"] != "a" {
		t.Errorf("it has %v", all)
	}
	if aside, _ := filepath.Glob(dir + ".damaged-*"); len(aside) > 0 {
		t.Errorf("moved aside: %v", aside)
	}
	closed(t, s)
}

// fill writes until the disk is full.
func fill(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for size := 64 << 10; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return err
}

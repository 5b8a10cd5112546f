package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSecondOpenKeepsTheLocks opens a store a second time in one process. SQLite's lock on the database, which tells other
// processes that it is in use, must survive.
func TestSecondOpenKeepsTheLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	db := open(t, path)
	if err := db.Update(t.Context(), insert(t.Context(), "a")); err != nil {
		t.Fatal(err)
	}
	locked := func() bool {
		t.Helper()
		var info syscall.Stat_t
		if err := syscall.Stat(path, &info); err != nil {
			t.Fatal(err)
		}
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(locks), fmt.Sprintf(":%d ", info.Ino)) // MAJOR:MINOR:INODE, proc_locks(5)
	}
	if !locked() {
		t.Fatal("an open store holds no lock")
	}
	second, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if !locked() {
		t.Error("the lock is lost")
	}
}

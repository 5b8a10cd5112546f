package testenv

import (
	"syscall"
	"testing"
)

// SmallDisk is a directory with room for size, in the words of tmpfs(5): "256k". It needs root, and t fails if something in
// it is still open at its end.
func SmallDisk(t *testing.T, size string) string {
	t.Helper()
	Require(t, Root)
	dir := t.TempDir()
	if err := syscall.Mount(testMount, dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

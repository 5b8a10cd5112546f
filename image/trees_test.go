package image

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func treeOf(t *testing.T, files ...string) *Tree {
	t.Helper()
	tree, err := NewTree(TreeConfig{SpoolDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	for _, name := range files {
		if err := tree.AddFile(name, 0o644, DefaultEpoch, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func TestTrees(t *testing.T) {
	tree := treeOf(t, "/usr/bin/sh", "/usr/lib/x", "/etc/fonts/a", "/etc/hosts", "/var/lib/extrausers/passwd", "/var/cache/x", "/app/main")
	if err := tree.AddSymlink("/bin", "usr/bin"); err != nil {
		t.Fatal(err)
	}
	for _, empty := range []string{"/srv", "/etc/empty", "/proc", "/dev/shm"} {
		if err := tree.AddDir(empty, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"/app", "/bin", "/etc/fonts", "/etc/hosts", "/usr", "/var/cache", "/var/lib/extrausers"}
	if diff := cmp.Diff(want, tree.Trees()); diff != "" {
		t.Error(diff)
	}
}

func TestWithout(t *testing.T) {
	tree := treeOf(t, "/etc/passwd", "/etc/hosts", "/root/.ssh/id", "/usr/x")
	for name, target := range map[string]string{"/usr/other-name": "/etc/passwd", "/usr/key": "/root/.ssh/id", "/usr/y": "/usr/x"} {
		if err := tree.AddHardlink(name, target); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.AddDir("/boot", 0o755); err != nil {
		t.Fatal(err)
	}
	removed, err := tree.Without([]string{"/etc/passwd", "/etc/shadow", "/root", "/boot"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/etc/passwd", "/root", "/usr/key", "/usr/other-name"}, removed); diff != "" {
		t.Error(diff)
	}
	if _, ok := tree.Lookup("/boot"); ok {
		t.Error("an empty directory is left, for find to stumble over")
	}
	var left []string
	for e := range tree.All() {
		if !e.Mode.IsDir() {
			left = append(left, e.Path)
		}
	}
	if diff := cmp.Diff([]string{"/etc/hosts", "/usr/x", "/usr/y"}, left); diff != "" {
		t.Error(diff)
	}
}

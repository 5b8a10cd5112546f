package workspace

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

func TestCollectFullDisk(t *testing.T) {
	testenv.NoLeaks(t)
	out := testenv.SmallDisk(t, "64k")
	got, err := Collect(bytes.NewReader(pack(t,
		file("small", "x"), file("big", strings.Repeat("x", 200_000)), file("later", "x"),
	)), Manifest{}, CollectConfig{Dir: out})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	if paths(got) != "small big! later!" || got.Artifacts[1].SHA256 != hexSum(strings.Repeat("x", 200_000)) {
		t.Errorf("got %s, want all listed and hashed, the first kept", paths(got))
	}
	if tree1(t, out) != "small" {
		t.Errorf("there is %s, want only the file that was copied whole", tree1(t, out))
	}
}

func TestCollectReadOnlyDir(t *testing.T) {
	testenv.Require(t, testenv.Root)
	out := t.TempDir()
	must(t, syscall.Mount("silk-test", out, "tmpfs", syscall.MS_RDONLY, "size=64k"))
	t.Cleanup(func() { must(t, syscall.Unmount(out, 0)) })
	got, err := Collect(bytes.NewReader(pack(t, file("a", "x"), file("d/b", "x"))), Manifest{}, CollectConfig{Dir: out})
	if !errors.Is(err, syscall.EROFS) || paths(got) != "a! d/b!" {
		t.Errorf("got %s, %v; want both listed and EROFS", paths(got), err)
	}
}

func TestCollectDirWithoutPermission(t *testing.T) {
	out := t.TempDir()
	must(t, os.Chmod(out, 0o555))
	asOrdinaryUser(t, func() {
		got, err := Collect(bytes.NewReader(pack(t, file("a", "x"))), Manifest{}, CollectConfig{Dir: out})
		if err != nil && !errors.Is(err, os.ErrPermission) || paths(got) != "a!" {
			t.Errorf("got %s, %v; want the file listed and not kept", paths(got), err)
		}
	})
}

func TestCollectDeepCopy(t *testing.T) {
	const levels = 2100 // longer than PATH_MAX
	testenv.NoLeaks(t)
	out := t.TempDir()
	t.Cleanup(func() { removeDeep(t, out) })
	deep := strings.Repeat("d/", levels)
	got := collect(t, pack(t, file("top", "x"), file(deep+"one", "1"), file(deep+"two", "2"), file("d/d/three", "3"),
		file(deep+"four", "4")), Manifest{}, CollectConfig{Dir: out})
	if len(got.Artifacts) != 5 || got.Omitted != 0 {
		t.Fatalf("listed %d, omitted %d; want 5, 0", len(got.Artifacts), got.Omitted)
	}
	root, err := os.OpenRoot(out)
	must(t, err)
	for range slices.Repeat([]string{"d"}, levels) {
		next, err := root.OpenRoot("d")
		must(t, errors.Join(err, root.Close()))
		root = next
	}
	defer root.Close()
	for name, want := range map[string]string{"one": "1", "two": "2", "four": "4"} {
		if data, err := root.ReadFile(name); err != nil || string(data) != want {
			t.Errorf("%s at the bottom: %q, %v; want %q", name, data, err, want)
		}
	}
	if read(t, filepath.Join(out, "d", "d", "three")) != "3" {
		t.Error("the file on the way was not copied")
	}
}

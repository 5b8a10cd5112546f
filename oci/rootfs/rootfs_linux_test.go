package rootfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/image"
)

var epoch = time.Unix(1_700_000_000, 0)

// newCache is a cache with a store of its own.
func newCache(t *testing.T) Cache {
	t.Helper()
	dir := t.TempDir()
	store, err := image.Open(image.Config{Home: filepath.Join(dir, "images")})
	if err != nil {
		t.Fatal(err)
	}
	return Cache{Images: store, Dir: filepath.Join(dir, "rootfs")}
}

// newRoot is a root directory with files of all kinds.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"etc", "usr/bin", "root", "srv"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"etc/passwd": 0o644, "etc/os-release": 0o644, "usr/bin/tool": 0o4755, "root/key": 0o600, "srv/app.py": 0o600, "srv/start": 0o700} {
		path := filepath.Join(root, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode.Perm()|fs.ModeSetuid*(mode>>11&1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/usr/bin/tool", filepath.Join(root, "etc/hosts")); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestImage(t *testing.T) {
	c, root := newCache(t), newRoot(t)
	digest, made, err := c.Image(t.Context(), root, User{})
	if err != nil || !made {
		t.Fatalf("made %t, %v", made, err)
	}
	img, err := c.Images.Resolve(digest)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := c.Images.Meta(img)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/etc/hostname", "/etc/hosts", "/etc/nsswitch.conf", "/etc/os-release", "/etc/resolv.conf", "/srv", "/usr"}
	if d := cmp.Diff(want, meta.Trees); d != "" {
		t.Errorf("trees: %s", d)
	}
	for _, dropped := range []string{"forbidden /etc/passwd", "forbidden /root", "setuid /usr/bin/tool"} {
		if !slices.Contains(meta.Dropped, dropped) {
			t.Errorf("%q is not among what was left out: %q", dropped, meta.Dropped)
		}
	}
	tree, err := c.Images.Tree(t.Context(), img, image.TreeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for name, mode := range map[string]fs.FileMode{"/etc/hosts": 0o644, "/srv/app.py": 0o606, "/srv/start": 0o707, "/usr/bin/tool": 0o757} {
		if e, ok := tree.Lookup(name); !ok || e.Mode != mode {
			t.Errorf("%s: %v, %t, want %v", name, e.Mode, ok, mode)
		}
	}

	if again, made, err := c.Image(t.Context(), root, User{}); err != nil || made || again != digest {
		t.Errorf("again: %s, made %t, %v", again, made, err)
	}
	if other, made, err := c.Image(t.Context(), root, User{UID: 7, GID: 7}); err != nil || !made || other == digest {
		t.Errorf("for another user: %s, made %t, %v", other, made, err)
	}
	if err := c.Images.Remove(digest); err != nil {
		t.Fatal(err)
	}
	if again, made, err := c.Image(t.Context(), root, User{}); err != nil || !made || again != digest {
		t.Errorf("after the image was removed: %s, made %t, %v", again, made, err)
	}
}

func TestPrune(t *testing.T) {
	c, gone, stays := newCache(t), newRoot(t), newRoot(t)
	old, _, err := c.Image(t.Context(), gone, User{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stays, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kept, _, err := c.Image(t.Context(), stays, User{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		removed, err := c.Prune(dry)
		if err != nil || len(removed) != 1 {
			t.Fatalf("dry %t: removed %q, %v", dry, removed, err)
		}
	}
	if _, err := c.Images.Resolve(old); err == nil {
		t.Error("the image of a directory that is gone is still there")
	}
	if _, err := c.Images.Resolve(kept); err != nil {
		t.Error(err)
	}
	if removed, err := c.Prune(false); err != nil || len(removed) != 0 {
		t.Errorf("again: removed %q, %v", removed, err)
	}
}

func TestUserMay(t *testing.T) {
	for _, test := range []struct {
		name     string
		user     User
		mode     fs.FileMode
		uid, gid uint32
		want     fs.FileMode
	}{
		{"root reads everything", User{}, 0o000, 7, 7, 0o6},
		{"root executes what anybody may", User{}, 0o010, 7, 7, 0o7},
		{"root enters every directory", User{}, fs.ModeDir, 7, 7, 0o7},
		{"an owner", User{UID: 7}, 0o741, 7, 8, 0o7},
		{"an owner who may not, though others may", User{UID: 7}, 0o077, 7, 8, 0},
		{"a group", User{UID: 7, GID: 8}, 0o741, 1, 8, 0o4},
		{"a further group", User{UID: 7, GID: 1, Groups: []uint32{8}}, 0o741, 1, 8, 0o4},
		{"others", User{UID: 7, GID: 7}, 0o741, 1, 1, 0o1},
	} {
		if got := test.user.may(test.mode, test.uid, test.gid); got != test.want {
			t.Errorf("%s: %o, want %o", test.name, got, test.want)
		}
	}
}

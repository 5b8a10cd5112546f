package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseOverlay(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw - ext4 /dev/vda rw
90 22 0:55 / /var/lib/docker/overlay2/ab/merged rw,relatime - overlay overlay rw,lowerdir=/o/l/TOP:/o/l/BASE,upperdir=/o/ab/diff,workdir=/o/ab/work
91 22 0:56 / /relative rw - overlay overlay rw,lowerdir=l/A:l/B,upperdir=ab/diff,workdir=ab/work
92 22 0:57 / /with\040blank rw - overlay overlay ro,lowerdir=/o/a\040b:/o/c
93 22 0:58 /below /bound rw - overlay overlay rw,lowerdir=/o/a,upperdir=/o/u,workdir=/o/w
94 22 0:59 / /covered rw - overlay overlay rw,lowerdir=/o/a,upperdir=/o/u,workdir=/o/w
95 94 0:60 / /covered rw - tmpfs tmpfs rw
96 22 0:61 / /escaped rw - overlay overlay rw,lowerdir=/o/a\134:b,upperdir=/o/u,workdir=/o/w
`
	for _, test := range []struct {
		name, point string
		lower       []string
		upper       string
	}{
		{"layers, the topmost first", "/var/lib/docker/overlay2/ab/merged", []string{"/o/l/TOP", "/o/l/BASE"}, "/o/ab/diff"},
		{"relative directories cannot be found", "/relative", nil, ""},
		{"read-only, and with blanks", "/with blank", []string{"/o/a b", "/o/c"}, ""},
		{"a directory of an overlay is none", "/bound", nil, ""},
		{"what is mounted over one counts", "/covered", nil, ""},
		{"a colon in a name", "/escaped", nil, ""},
		{"not mounted", "/nowhere", nil, ""},
		{"another file system", "/", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			lower, upper := parseOverlay(mountinfo, test.point)
			if d := cmp.Diff(test.lower, lower); d != "" || upper != test.upper {
				t.Errorf("upper %q, want %q; lower %s", upper, test.upper, d)
			}
		})
	}
}

func FuzzParseOverlay(f *testing.F) {
	f.Add("90 22 0:55 / /m rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/u", "/m")
	f.Fuzz(func(t *testing.T, mountinfo, point string) {
		lower, upper := parseOverlay(mountinfo, point)
		for _, dir := range append(lower, upper) {
			if dir != "" && !filepath.IsAbs(dir) {
				t.Errorf("layer %q", dir)
			}
		}
	})
}

// TestKeyOfADirectory: whatever changes the image changes the key, and nothing else does.
func TestKeyOfADirectory(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("etc/a", "one")
	write("b", "two")
	key := func(user User) string {
		t.Helper()
		k, err := keyOf(t.Context(), root, user)
		if err != nil {
			t.Fatal(err)
		}
		return k.ID
	}
	first := key(User{})
	if again := key(User{}); again != first {
		t.Error("the same directory has two keys")
	}
	seen := map[string]string{first: "at first"}
	step := func(what string) {
		t.Helper()
		k := key(User{})
		if before, ok := seen[k]; ok {
			t.Errorf("%s: the key is that of %q", what, before)
		}
		seen[k] = what
	}
	write("etc/a", "ONE")
	step("another content of the same size")
	if err := os.Chmod(filepath.Join(root, "b"), 0o600); err != nil {
		t.Fatal(err)
	}
	step("other permissions")
	if err := os.Symlink("etc/a", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	step("a link")
	if err := os.Remove(filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("etc/b", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	step("another target")
	if now := key(User{}); now == key(User{UID: 7}) {
		t.Error("the key does not say whose eyes the directory is read with")
	}
	if key(User{UID: 7, Groups: []uint32{2, 1}}) != key(User{UID: 7, Groups: []uint32{1, 2}}) {
		t.Error("the order of groups makes another key")
	}
}

// TestKeyOfLayers: a large layer is known by its place, a small one by its content, wherever it lies.
func TestKeyOfLayers(t *testing.T) {
	layer := func(files int, content string) string {
		t.Helper()
		dir := t.TempDir()
		for i := range files {
			path := filepath.Join(dir, string(rune('a'+i%26))+string(rune('a'+i/26)))
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, epoch, epoch); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	sum := func(dirs ...string) (string, []string) {
		t.Helper()
		k := newKeying(t.Context(), User{})
		for _, dir := range dirs {
			if err := k.lower(dir); err != nil {
				t.Fatal(err)
			}
		}
		key := k.key()
		return key.ID, key.Layers
	}
	large, small := layer(smallLayer+1, "x"), layer(3, "x")
	one, layers := sum(large, small)
	if d := cmp.Diff([]string{large}, layers); d != "" {
		t.Errorf("layers that stay: %s", d)
	}
	if two, _ := sum(large, layer(3, "x")); two != one {
		t.Error("an equal small layer elsewhere makes another key")
	}
	for path, at := range map[string]time.Time{"aa": time.Now(), "ba": time.Now().Add(-time.Minute)} { // as in a layer that an engine has just made
		if err := os.Chtimes(filepath.Join(small, path), at, at); err != nil {
			t.Fatal(err)
		}
	}
	fresh, _ := sum(large, small)
	again := layer(3, "x")
	for _, path := range []string{"aa", "ba"} {
		if err := os.Chtimes(filepath.Join(again, path), time.Now().Add(time.Hour), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if two, _ := sum(large, again); two != fresh {
		t.Error("when files were made, which the image does not have, makes another key")
	}
	if fresh == one {
		t.Error("a time that the image does have makes no other key")
	}
	if two, _ := sum(large, layer(3, "y")); two == one {
		t.Error("another content of the small layer makes no other key")
	}
	if two, _ := sum(layer(smallLayer+1, "x"), small); two == one {
		t.Error("another large layer makes no other key")
	}
	heavy := layer(1, strings.Repeat("x", smallBytes+1))
	if _, layers := sum(heavy); len(layers) != 1 {
		t.Error("a layer of one large file is read with each container")
	}
	if two, _ := sum(small, large); two == one {
		t.Error("the order of the layers does not matter")
	}
}

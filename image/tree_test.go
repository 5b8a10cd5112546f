package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listing renders a tree, one entry a line, so that tests can say what they want in text.
func listing(t testing.TB, tree *Tree) []string {
	t.Helper()
	var lines []string
	for e := range tree.All() {
		line := fmt.Sprintf("%v %s", e.Mode, e.Path)
		switch {
		case e.Mode.IsRegular():
			data, err := io.ReadAll(tree.open(e.node))
			if err != nil {
				t.Fatal(err)
			}
			line += fmt.Sprintf(" = %q", data)
		case e.Mode&fs.ModeSymlink != 0:
			line += " -> " + e.Target
		}
		if e.Links > 1 {
			line += fmt.Sprintf(" (%d links)", e.Links)
		}
		lines = append(lines, line)
	}
	return lines
}

func addFile(t testing.TB, tree *Tree, name, content string) {
	t.Helper()
	if err := tree.AddFile(name, 0o644, time.Time{}, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func addSymlink(t testing.TB, tree *Tree, name, target string) {
	t.Helper()
	if err := tree.AddSymlink(name, target); err != nil {
		t.Fatal(err)
	}
}

func TestTreeFollowsLinkedParentsInsideOnly(t *testing.T) {
	for _, test := range []struct {
		name, link, target, add, want string
	}{
		{"usr-merge", "/bin", "usr/bin", "/bin/sh", "/usr/bin/sh"},
		{"absolute target", "/lib", "/usr/lib", "/lib/x/y", "/usr/lib/x/y"},
		{"absolute target, from below the root", "/opt/lib", "/usr/lib", "/opt/lib/x", "/usr/lib/x"},
		{"target above the root", "/up", "../../../etc", "/up/passwd", "/etc/passwd"},
		{"target with dots", "/a/b", "./../c/./d", "/a/b/f", "/c/d/f"},
		{"the root itself", "/self", "/", "/self/f", "/f"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree := newTree(t)
			addSymlink(t, tree, test.link, test.target)
			addFile(t, tree, test.add, "content")
			got, ok := tree.Lookup(test.want)
			if !ok || !got.Mode.IsRegular() {
				t.Fatalf("nothing at %s; the tree is:\n%s", test.want, strings.Join(listing(t, tree), "\n"))
			}
			same, ok := tree.Stat(test.add)
			if !ok || !same.SameFile(got) || same.Path != test.want {
				t.Errorf("Stat(%s) = %+v", test.add, same)
			}
		})
	}
}

func TestTreeKeepsModesAndTimes(t *testing.T) {
	tree := newTree(t)
	const all = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	old := time.Unix(1_000_000_000, 999)
	if err := errors.Join(
		tree.AddDir("/tmp", all),
		tree.AddFile("/old", all, old, strings.NewReader("")),
		tree.AddFile("/late", 0o4600, tree.Epoch().Add(time.Second), strings.NewReader("")),
		tree.AddFile("/before 1970", 0, time.Unix(-1, 0), strings.NewReader("")),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Entry{
		"/tmp":         {Mode: fs.ModeDir | fs.ModePerm | fs.ModeSticky, ModTime: tree.Epoch()},
		"/old":         {Mode: fs.ModePerm, ModTime: old.Truncate(time.Second)},
		"/late":        {Mode: 0o600, ModTime: tree.Epoch()},
		"/before 1970": {ModTime: tree.Epoch()},
	} {
		if got, _ := tree.Lookup(name); got.Mode != want.Mode || !got.ModTime.Equal(want.ModTime) {
			t.Errorf("%s: %v at %v, want %v at %v", name, got.Mode, got.ModTime, want.Mode, want.ModTime)
		}
	}
}

func TestTreeRefusesBadNames(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, name := range []string{"", "/", ".", "../x", "/a/../b", "a/..", "a//b", "a/./b", "a\x00b", long, strings.Repeat("d/", 2048) + "x"} {
		tree := newTree(t)
		if err := tree.AddFile(name, 0o644, time.Time{}, strings.NewReader("")); err == nil {
			t.Errorf("AddFile(%.40q) succeeded", name)
		}
		if err := tree.AddSymlink(name, "x"); err == nil {
			t.Errorf("AddSymlink(%.40q) succeeded", name)
		}
		if got := len(listing(t, tree)); got != 1 {
			t.Errorf("%.40q left %d entries behind", name, got-1)
		}
	}
}

func TestTreeConflicts(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*Tree) error
		want error
	}{
		{"file over directory", func(t *Tree) error { return t.AddFile("/dir", 0, time.Time{}, strings.NewReader("")) }, ErrIsDirectory},
		{"link over directory", func(t *Tree) error { return t.AddSymlink("/dir", "x") }, ErrIsDirectory},
		{"directory over file", func(t *Tree) error { return t.AddDir("/file", 0o755) }, ErrNotDirectory},
		{"directory over a link to a file", func(t *Tree) error { return t.AddDir("/tofile", 0o755) }, ErrNotDirectory},
		{"parent is a file", func(t *Tree) error { return t.AddSymlink("/file/x", "y") }, ErrNotDirectory},
		{"links in a circle", func(t *Tree) error { return t.AddDir("/circle/x", 0o755) }, ErrLoop},
		{"hard link to nothing", func(t *Tree) error { return t.AddHardlink("/h", "/none") }, fs.ErrNotExist},
		{"hard link to a directory", func(t *Tree) error { return t.AddHardlink("/h", "/dir") }, ErrIsDirectory},
		{"empty target", func(t *Tree) error { return t.AddSymlink("/l", "") }, fs.ErrInvalid},
		{"target with NUL", func(t *Tree) error { return t.AddSymlink("/l", "a\x00") }, fs.ErrInvalid},
		{"remove a full directory", func(t *Tree) error { return t.Remove("/dir") }, ErrIsDirectory},
		{"remove nothing", func(t *Tree) error { return t.Remove("/none") }, fs.ErrNotExist},
		{"remove the root", func(t *Tree) error { return t.RemoveAll("/") }, fs.ErrInvalid},
		{"chmod nothing", func(t *Tree) error { return t.Chmod("/none", 0) }, fs.ErrNotExist},
		{"failing reader", func(t *Tree) error { return t.AddFile("/file", 0, time.Time{}, iotest.ErrReader(io.ErrClosedPipe)) }, io.ErrClosedPipe},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree := newTree(t)
			addFile(t, tree, "/dir/x", "x")
			addFile(t, tree, "/file", "old")
			addSymlink(t, tree, "/tofile", "file")
			addSymlink(t, tree, "/circle", "circle2")
			addSymlink(t, tree, "/circle2", "/circle")
			before := listing(t, tree)
			if err := test.do(tree); !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
			if diff := cmp.Diff(before, listing(t, tree)); diff != "" {
				t.Errorf("the tree changed:\n%s", diff)
			}
		})
	}
}

func TestTreeReplacesAndRemoves(t *testing.T) {
	tree := newTree(t)
	addFile(t, tree, "/a", "one")
	if err := tree.AddHardlink("/b", "/a"); err != nil {
		t.Fatal(err)
	}
	if err := tree.AddHardlink("/c", "b"); err != nil {
		t.Fatal(err)
	}
	if err := tree.AddHardlink("/b", "/b"); err != nil {
		t.Fatal(err)
	}
	addFile(t, tree, "/a", "two") // b and c keep the old content
	addSymlink(t, tree, "/c", "a")
	if err := tree.Chmod("/c", 0o600|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	addFile(t, tree, "/d/e/f", "")
	addFile(t, tree, "/d/g", "")
	if err := tree.RemoveAll("/d/e"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/none", "/none/below"} {
		if err := tree.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.AddDir("/", 0o711); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`drwx--x--x /`,
		`-rw------- /a = "two"`,
		`-rw-r--r-- /b = "one"`,
		`Lrwxrwxrwx /c -> a`,
		`drwxr-xr-x /d`,
		`-rw-r--r-- /d/g = ""`,
	}
	if diff := cmp.Diff(want, listing(t, tree)); diff != "" {
		t.Error(diff)
	}
	if got := tree.entries; got != len(want)-1 {
		t.Errorf("%d entries counted, want %d", got, len(want)-1)
	}
}

func TestTreeKeepsALinkWhereADirectoryIsAdded(t *testing.T) {
	tree := newTree(t)
	addSymlink(t, tree, "/lib", "usr/lib")
	if err := tree.AddDir("/lib", 0o700); err != nil {
		t.Fatal(err)
	}
	if got, _ := tree.Lookup("/lib"); got.Mode&fs.ModeSymlink == 0 {
		t.Errorf("the link became %v", got.Mode)
	}
	if got, _ := tree.Stat("/lib"); !got.Mode.IsDir() || got.Path != "/usr/lib" {
		t.Errorf("the link leads to %+v", got)
	}
}

func TestTreeLimits(t *testing.T) {
	tree, err := NewTree(TreeConfig{SpoolDir: t.TempDir(), MaxEntries: 3, MaxBytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	addFile(t, tree, "/a", "0123456789")
	if err := tree.AddFile("/b", 0, time.Time{}, strings.NewReader("x")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
	if err := tree.AddDir("/b/c", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := tree.AddDir("/d", 0o755); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one entry too many: %v", err)
	}
	if err := tree.AddDir("/b/c/d", 0o755); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one entry too many: %v", err)
	}
	addSymlink(t, tree, "/a", "replaced") // needs no room
}

func TestTreeStopsWalkingWhenTold(t *testing.T) {
	tree := newTree(t)
	addFile(t, tree, "/a/b/c", "")
	var seen []string
	for e := range tree.All() {
		seen = append(seen, e.Path)
		if e.Path == "/a/b" {
			break
		}
	}
	if !slices.Equal(seen, []string{"/", "/a", "/a/b"}) {
		t.Errorf("walked %v", seen)
	}
}

func TestTreeOpen(t *testing.T) {
	tree := newTree(t)
	addFile(t, tree, "/usr/bin/x", "first")
	addSymlink(t, tree, "/bin", "usr/bin")
	r, err := tree.Open("/bin/x")
	if err != nil {
		t.Fatal(err)
	}
	addFile(t, tree, "/usr/bin/x", "second")
	if got, err := io.ReadAll(r); string(got) != "first" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	for _, name := range []string{"/none", "/usr", "../x"} {
		if _, err := tree.Open(name); err == nil {
			t.Errorf("Open(%s) succeeded", name)
		}
	}
}

func TestDigest(t *testing.T) {
	good := "sha256:" + strings.Repeat("0a", 32)
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"right", good, true},
		{"no algorithm", good[7:], false},
		{"other algorithm", "sha512:" + good[7:], false},
		{"too short", good[:70], false},
		{"too long", good + "0", false},
		{"upper case", strings.ToUpper(good), false},
		{"not hexadecimal", good[:70] + "g", false},
	} {
		d, err := ParseDigest(test.text)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
		if err == nil && d.String() != test.text {
			t.Errorf("%s: became %s", test.name, d)
		}
	}
	type record struct{ A, B Digest }
	d, _ := ParseDigest(good)
	text, err := json.Marshal(record{A: d})
	if err != nil || string(text) != `{"A":"`+good+`","B":""}` {
		t.Errorf("JSON is %s, %v", text, err)
	}
	var back record
	if err := json.Unmarshal(text, &back); err != nil || back.A != d || !back.B.IsZero() {
		t.Errorf("read back %v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"A":"sha256:1"}`), &back); err == nil {
		t.Error("a short digest was accepted")
	}
}

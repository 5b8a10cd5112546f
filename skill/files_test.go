//go:build unix

package skill

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadFiles(t *testing.T) {
	outside := tree(t, map[string]string{"secret": "secret", "sub/x": "x"})
	dir := tree(t, map[string]string{"a.js": "a", "lib/b.js": "b", "lib/deep/c.js": "c", "Upper.js": "u"})
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(outside, "secret"), "out.js")
	link("a.js", "in.js")
	link(outside, "outdir")
	link("lib", "indir")
	link("nowhere", "dangling.js")
	link("loop.js", "loop.js")
	if err := os.Link(filepath.Join(dir, "a.js"), filepath.Join(dir, "second.js")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.js"), 0o644); err != nil {
		t.Fatal(err)
	}
	hash := func(text string) string { return hashOf([]byte(text)) }
	for _, tt := range []struct {
		name, path, text string
		want             string // in the message; "" for a plain mismatch, "ok"
	}{
		{"a file", "a.js", "a", "ok"},
		{"a file below", "lib/deep/c.js", "c", "ok"},
		{"a second name of a file", "second.js", "a", "ok"},
		{"another content", "a.js", "b", ""},
		{"not there", "no.js", "", "no such file"},
		{"a directory", "lib", "", "no plain file"},
		{"a file as directory", "a.js/b", "", "no directory"},
		{"a link out", "out.js", "secret", "is a link"},
		{"a link that stays inside", "in.js", "a", "is a link"},
		{"below a link out", "outdir/secret", "secret", "is a link"},
		{"below a link that stays inside", "indir/b.js", "b", "is a link"},
		{"a link to nothing", "dangling.js", "", "is a link"},
		{"a link to itself", "loop.js", "", "is a link"},
		{"a pipe", "pipe.js", "", "no plain file"},
		{"out by name", "../" + filepath.Base(outside) + "/secret", "secret", "plain path"},
		{"out from below", "lib/../../x", "", "plain path"},
		{"in by a way round", "lib/../a.js", "a", "plain path"},
		{"absolute", filepath.Join(outside, "secret"), "secret", "plain path"},
		{"with a dot", "./a.js", "a", "plain path"},
		{"two slashes", "lib//b.js", "b", "plain path"},
		{"the directory itself", ".", "", "plain path"},
		{"another case", "upper.js", "u", "no such file"},
		{"a byte that cannot be seen", "a.js\x00", "a", "cannot be printed"},
		{"a line end", "a.js\n", "a", "cannot be printed"},
		{"a space that cannot be seen", "a\u200b.js", "a", "cannot be printed"},
		{"a backslash", `lib\b.js`, "b", `has a \ or a :`},
		{"a drive", "C:a.js", "a", `has a \ or a :`},
		{"a stream", "a.js::$DATA", "a", `has a \ or a :`},
		{"a dot at the end", "a.js.", "a", "ends in a dot"},
		{"silk's own", ".silk/main", "", ".silk"},
		{"a long element", strings.Repeat("a", 256), "", "more than 255 bytes"},
		{"a long path", strings.Repeat("a/", 2048) + "a", "", "longer than 4095 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			contents, mismatches, err := ReadFiles(dir, []File{{tt.path, hash(tt.text)}})
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "ok" {
				if len(mismatches) > 0 || len(contents) != 1 || string(contents[0].Bytes) != tt.text {
					t.Errorf("%q, %+v", contents, mismatches)
				}
				return
			}
			if len(contents) > 0 || len(mismatches) != 1 || !strings.Contains(mismatches[0].Message, tt.want) || (mismatches[0].Actual == "") != (tt.want != "") ||
				strings.Contains(mismatches[0].Message, dir) {
				t.Errorf("%q, %+v, want %q", contents, mismatches, tt.want)
			}
		})
	}
	if _, _, err := ReadFiles(filepath.Join(dir, "no"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestReadFilesRoom(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), MaxFileBytes/2+1); err != nil {
			t.Fatal(err)
		}
	}
	files, err := HashFiles(dir, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	_, mismatches, err := ReadFiles(dir, []File{files[0], {"b", files[0].SHA256}})
	if err != nil || len(mismatches) != 1 || !strings.Contains(mismatches[0].Message, "more than 64 MiB") {
		t.Errorf("%+v, %v", mismatches, err)
	}
}

func TestListFiles(t *testing.T) {
	dir := tree(t, map[string]string{"b.js": "", "a/c.py": "", ".git/config": "", ".env": "", "manifest.json": "", "node_modules/x/index.js": ""})
	names, err := ListFiles(dir)
	if diff := cmp.Diff([]string{"a/c.py", "b.js"}, names); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	if names, err := ListFiles(dir); err == nil {
		t.Errorf("a link is listed: %q", names)
	}
}

func TestFolded(t *testing.T) {
	for _, pair := range [][2]string{{"a", "A"}, {"straße", "STRAßE"}, {"k", "\u212a"}, {"ſ", "S"}, {"é", "É"}} {
		if folded(pair[0]) != folded(pair[1]) {
			t.Errorf("%q and %q are two", pair[0], pair[1])
		}
	}
	if folded("a") == folded("b") {
		t.Error("a and b are one")
	}
}

func FuzzBadPath(f *testing.F) {
	for _, p := range []string{"a", "a/b.js", "../a", "/a", "a/../b", `a\b`, "a.", ".silk", "C:x", "a//b", "\xff"} {
		f.Add(p)
	}
	dir := tree(f, map[string]string{"a": "", "a.d/b.js": ""})
	f.Fuzz(func(t *testing.T, p string) {
		bad := badPath(p)
		if bad == "" && (!filepath.IsLocal(p) || filepath.Clean(p) != p || strings.ContainsRune(p, '\\')) {
			t.Errorf("%q is a plain path", p)
		}
		contents, mismatches, err := ReadFiles(dir, []File{{Path: p}})
		if err != nil || len(contents) > 0 || len(mismatches) != 1 {
			t.Errorf("%q: %v, %v, %v", p, contents, mismatches, err)
		}
	})
}

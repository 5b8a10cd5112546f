package workspace

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFillAgain: a workspace that was written once is the same bytes when it is taken over, and directories that the engine adds are not
// there twice.
func TestFillAgain(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"b.sh": 0o755, "a.txt": 0o600, "deep/er/c": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(1700000000, 123456789)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	extra := []File{{Name: ".silk", Mode: fs.ModeDir | 0o755}}
	var first, second bytes.Buffer
	before, err := Fill(&first, Source{Dir: dir, Code: &File{Name: "z.py", Bytes: []byte("print(1)")}, Extra: extra}, FillLimits{})
	if err != nil {
		t.Fatal(err)
	}
	after, err := Fill(&second, Source{Tar: first.Bytes(), Extra: extra}, FillLimits{})
	if err != nil {
		t.Fatal(err)
	}
	if before.Hash() != after.Hash() || before.Bytes != after.Bytes || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("it is another: %s, then %s; %d bytes, then %d", before.Hash(), after.Hash(), first.Len(), second.Len())
	}
}

func TestFillAgainRefuses(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []tar.Header
		want    string
	}{
		{"a name that leads out", []tar.Header{{Typeflag: tar.TypeReg, Name: "../x"}}, "is not a plain path below it"},
		{"an absolute name", []tar.Header{{Typeflag: tar.TypeReg, Name: "/x"}}, "is not a plain path below it"},
		{"a device", []tar.Header{{Typeflag: tar.TypeChar, Name: "x"}}, "is no file, directory or link"},
		{"a hard link", []tar.Header{{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/passwd"}}, "is no file, directory or link"},
		{"a name twice", []tar.Header{{Typeflag: tar.TypeReg, Name: "x"}, {Typeflag: tar.TypeDir, Name: "x/"}}, "already there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stream bytes.Buffer
			w := tar.NewWriter(&stream)
			for _, h := range test.headers {
				if err := w.WriteHeader(&h); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Fill(&bytes.Buffer{}, Source{Tar: stream.Bytes()}, FillLimits{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	if _, err := Fill(&bytes.Buffer{}, Source{Tar: []byte("no archive, and longer than a block of one would have to be")}, FillLimits{}); err == nil {
		t.Error("what is no archive is taken")
	}
}

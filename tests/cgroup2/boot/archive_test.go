package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArchive(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	if err := os.WriteFile(src, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	a := newArchive(&b)
	a.device("dev/console", 5, 1)
	a.file("a/b/c", src, 0o755)
	a.file("a/b/d", src, 0o444)
	if err := a.finish(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"dev 40755 0:0 ",
		"dev/console 20600 5:1 ",
		"a 40755 0:0 ",
		"a/b 40755 0:0 ",
		"a/b/c 100755 0:0 12345",
		"a/b/d 100444 0:0 12345",
		"TRAILER!!! 0 0:0 ",
	}
	if d := cmp.Diff(want, entries(t, b.Bytes())); d != "" {
		t.Error(d)
	}
}

func TestArchiveOfWhatIsMissing(t *testing.T) {
	a := newArchive(new(bytes.Buffer))
	a.file("a", filepath.Join(t.TempDir(), "none"), 0o644)
	if err := a.finish(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

// entries reads an archive as the kernel does: thirteen numbers, a name, a content, each padded to four bytes.
func entries(t *testing.T, b []byte) (list []string) {
	t.Helper()
	for at := 0; at < len(b); {
		if string(b[at:at+6]) != "070701" {
			t.Fatalf("at %d: magic %q", at, b[at:at+6])
		}
		var n [13]int
		for i := range n {
			v, err := strconv.ParseUint(string(b[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			n[i] = int(v)
		}
		mode, size, major, minor, nameSize := n[1], n[6], n[9], n[10], n[11]
		name := string(b[at+110 : at+110+nameSize])
		data := (at + 110 + nameSize + 3) &^ 3
		list = append(list, fmt.Sprintf("%s %o %d:%d %s", strings.TrimSuffix(name, "\x00"), mode, major, minor, b[data:data+size]))
		at = (data + size + 3) &^ 3
	}
	return list
}

//go:build unix

package image

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/erofs/go-erofs"
)

// FuzzImportTar checks that no archive harms the importer, and that what it accepts is a tree of harmless, canonical
// entries that can be written and read back.
func FuzzImportTar(f *testing.F) {
	f.Add(archive(f, "usr/bin/sh=x", "bin -> usr/bin", "bin/ls=y", "h => bin/ls", "d/", ".wh.d"))
	f.Add(archive(f, "../x=1"))
	f.Add(archive(f, "a -> ..", "a/b=1", "a/.wh..wh..opq"))
	f.Add(longNameWithNUL(f))
	f.Add(compressed(f, archive(f, "a=1")))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, whiteouts := range []bool{false, true} {
			imp, err := newImporter(ImportConfig{
				Tree:       TreeConfig{SpoolDir: os.TempDir(), MaxBytes: 1 << 20, MaxEntries: 1000},
				DropSetuid: true, DropSpecial: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			r, err := decompress(bytes.NewReader(data))
			if err == nil {
				l := layer{importer: imp, dropSetuid: true, whiteouts: whiteouts}
				err = l.apply(t.Context(), imp.bounded(r))
			}
			tree, _, err := imp.finish(err)
			if err != nil {
				continue
			}
			checkTree(t, tree)
			if err := tree.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzLayers builds layers from text (see header; "--" begins a new layer), so that every input is a valid archive and
// the search is for combinations of entries instead of for checksums.
func FuzzLayers(f *testing.F) {
	f.Add("a=1\nb => a\nd/x=1\n--\na=2\nd/.wh..wh..opq\nd/y=2\n.wh.b")
	f.Add("bin -> usr/bin\nbin/sh=x\n--\nbin/.wh.sh\nbin/\nbin/x => usr/bin\n--\nusr=f")
	f.Add("l -> ../l/l\nl/x=1\nm -> .\nm/m/m/n=1\n--\n.wh.m\nm/\nm/.wh.m")
	f.Fuzz(func(t *testing.T, script string) {
		imp, err := newImporter(ImportConfig{Tree: TreeConfig{SpoolDir: os.TempDir(), MaxBytes: 1 << 20, MaxEntries: 100}})
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(script, "\n--\n") {
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			for line := range strings.SplitSeq(part, "\n") {
				h, content := header(line)
				if w.WriteHeader(h) == nil {
					_, _ = io.WriteString(w, content)
				}
			}
			if w.Close() != nil {
				continue
			}
			l := layer{importer: imp, dropSetuid: true, whiteouts: true}
			if err = l.apply(t.Context(), &out); err != nil {
				break
			}
		}
		tree, _, err := imp.finish(err)
		if err != nil {
			return
		}
		checkTree(t, tree)
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
}

// checkTree checks what holds for every tree.
func checkTree(t *testing.T, tree *Tree) {
	t.Helper()
	entries := 0
	for e := range tree.All() {
		entries++
		if path.Clean(e.Path) != e.Path || !strings.HasPrefix(e.Path, "/") || strings.ContainsRune(e.Path, 0) {
			t.Errorf("path %q", e.Path)
		}
		if e.Mode&^(fs.ModeDir|fs.ModeSymlink|fs.ModePerm|fs.ModeSticky) != 0 {
			t.Errorf("%q has mode %v", e.Path, e.Mode)
		}
		if e.Links < 1 || e.ModTime.After(tree.Epoch()) || e.ModTime.Unix() < 0 {
			t.Errorf("%q has %d links, time %v", e.Path, e.Links, e.ModTime)
		}
	}
	if entries != tree.entries+1 {
		t.Errorf("%d entries counted, %d found", tree.entries, entries-1)
	}
	raw := encode(t, tree)
	image, err := erofs.Open(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for e := range tree.All() {
		if !e.Mode.IsRegular() || !fs.ValidPath(e.Path[1:]) {
			continue
		}
		got, err := fs.ReadFile(image, e.Path[1:])
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(tree.open(e.node))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q reads %q, want %q, %v", e.Path, got, want, err)
		}
	}
}

// FuzzReadSuper checks the first bytes of a file that was found where an image should be.
func FuzzReadSuper(f *testing.F) {
	f.Add(encode(f, build(f, nil))[:2048])
	f.Fuzz(func(t *testing.T, data []byte) {
		super, err := readSuper(bytes.NewReader(data))
		if err == nil && super.sizeBytes < 0 {
			t.Errorf("size %d", super.sizeBytes)
		}
	})
}

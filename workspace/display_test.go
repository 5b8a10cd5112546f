//go:build unix

package workspace

import (
	"archive/tar"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Results are what lies in their directory and is let pass, though that is ignored; the rest there is nothing.
func TestCollectDisplay(t *testing.T) {
	before, _ := fill(t, Source{})
	asked := []string{}
	cfg := CollectConfig{
		Dir: filepath.Join(t.TempDir(), "out"), Ignore: []string{".silk"}, DisplayDir: ".silk/display", DisplayBytes: 10, Displays: 2,
		Display: func(path string, content []byte) (string, error) {
			asked = append(asked, path+"="+string(content))
			if strings.HasSuffix(path, "bad") {
				return "", errors.New("no")
			}
			return "x/y", nil
		},
	}
	got := collect(t, pack(t,
		dir(".silk"), file(".silk/main", "x"), dir(".silk/display"), file(".silk/display/a", "first"), file(".silk/display/bad", "b"), file(".silk/display/.part", "p"),
		special(tar.TypeSymlink, ".silk/display/link", "/etc/passwd"), dir(".silk/display/sub"), file(".silk/display/sub/c", "c"), file(".silk/display/long", strings.Repeat("x", 11)),
		file(".silk/display/b", strings.Repeat("x", 10)), file(".silk/display/third", "t"), file("other", "o"),
	), before, cfg)
	want := []Artifact{
		{Path: ".silk/display/a", Type: TypeFile, Size: 5, Mode: 0o644, SHA256: hexSum("first"), MIME: "text/plain; charset=utf-8", Display: "x/y"},
		{Path: ".silk/display/b", Type: TypeFile, Size: 10, Mode: 0o644, SHA256: hexSum(strings.Repeat("x", 10)), MIME: "text/plain; charset=utf-8", Display: "x/y"},
		{Path: "other", Type: TypeFile, Size: 1, Mode: 0o644, SHA256: hexSum("o"), MIME: "text/plain; charset=utf-8"},
	}
	if diff := cmp.Diff(want, got.Artifacts); diff != "" {
		t.Error(diff)
	}
	if got.Hidden != 4 { // bad, link, long, third
		t.Errorf("%d files are no results, want 4", got.Hidden)
	}
	if want := []string{".silk/display/a=first", ".silk/display/bad=b", ".silk/display/b=xxxxxxxxxx"}; cmp.Diff(want, asked) != "" {
		t.Error(cmp.Diff(want, asked))
	}
	if read(t, filepath.Join(cfg.Dir, ".silk/display/a")) != "first" {
		t.Error("a result is not copied")
	}
	// A result that was there before is none.
	d := t.TempDir()
	write(t, filepath.Join(d, ".silk/display/a"), "first")
	before, _ = fill(t, Source{Dir: d})
	cfg.Dir = ""
	if got := collect(t, pack(t, file(".silk/display/a", "first")), before, cfg); len(got.Artifacts) > 0 {
		t.Errorf("got %+v", got.Artifacts)
	}
}

//go:build unix

package workspace

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// genElement makes one element of a path: mostly short, so that trees branch, and sometimes odd.
var genElement = rapid.OneOf(
	rapid.StringMatching(`[a-c]`),
	rapid.StringMatching(`[a-z]{1,3}\.(py|txt|csv)`),
	rapid.SampledFrom([]string{"-x", "new\nline", "\xff", "ü", " ", "...", strings.Repeat("n", 255), "a=b", "\x01"}),
	rapid.Custom(func(t *rapid.T) string {
		b := rapid.SliceOfN(rapid.ByteRange(1, 255), 1, 12).Draw(t, "bytes")
		b = bytes.ReplaceAll(b, []byte("/"), []byte("_"))
		if s := string(b); s != "." && s != ".." {
			return s
		}
		return "dot"
	}),
)

var genContent = rapid.OneOf(
	rapid.Just(""),
	rapid.StringN(0, 20, 40),
	rapid.Custom(func(t *rapid.T) string { // around the size that is kept in memory
		n := rapid.SampledFrom([]int{511, 512, 513, headBytes - 1, headBytes, headBytes + 1, 2*headBytes + 7}).Draw(t, "size")
		return strings.Repeat(rapid.SampledFrom([]string{"\x00", "x"}).Draw(t, "byte"), n)
	}),
)

// makeTree draws a tree and makes it below dir.
func makeTree(t *rapid.T, dir string) {
	for range rapid.IntRange(0, 12).Draw(t, "entries") {
		parent := dir
		for _, e := range rapid.SliceOfN(genElement, 0, 3).Draw(t, "parent") {
			next := filepath.Join(parent, e)
			if err := os.Mkdir(next, 0o755); err != nil && !isDir(next) {
				break // a file has the name already
			}
			parent = next
		}
		path := filepath.Join(parent, genElement.Draw(t, "name"))
		if _, err := os.Lstat(path); err == nil || len(path) > 3000 {
			continue
		}
		var err error
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			err = os.Mkdir(path, 0o755)
		case 1:
			err = os.Symlink(rapid.SampledFrom([]string{"a", "/etc/passwd", "../..", "\xfe"}).Draw(t, "target"), path)
		default:
			var f *os.File
			f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(rapid.SampledFrom([]int{0o644, 0o755, 0o600}).Draw(t, "mode")))
			if err == nil {
				_, err = f.WriteString(genContent.Draw(t, "content"))
				f.Close()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// roundTrip fills a drawn tree. Collected as it is, it gives no artifact; collected after drawn changes, it gives
// exactly those, copied with exactly their content.
func roundTrip(t *rapid.T) {
	top, err := os.MkdirTemp("", "workspace-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	src, out := filepath.Join(top, "src"), filepath.Join(top, "out")
	if err := os.Mkdir(src, 0o755); err != nil {
		t.Fatal(err)
	}
	makeTree(t, src)
	var buf bytes.Buffer
	before, err := Fill(&buf, Source{Dir: src}, FillLimits{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Collect(bytes.NewReader(buf.Bytes()), before, CollectConfig{Dir: out})
	if err != nil || len(got.Artifacts) != 0 {
		t.Fatalf("unchanged, yet %s, %v", paths(got), err)
	}
	if names := listAll(t, out); len(names) != 0 {
		t.Fatalf("unchanged, yet copied %q", names)
	}

	after, wantPaths, wantFiles := change(t, unpackRapid(t, buf.Bytes()))
	got, err = Collect(bytes.NewReader(packRapid(t, after)), before, CollectConfig{Dir: out})
	if err != nil {
		t.Fatal(err)
	}
	var gotPaths []string
	for _, a := range got.Artifacts {
		gotPaths = append(gotPaths, string(a.Type)+" "+a.Path)
		if a.Omitted != "" {
			t.Errorf("%q: %s", a.Path, a.Omitted)
		}
	}
	if diff := cmp.Diff(wantPaths, gotPaths); diff != "" {
		t.Errorf("artifacts: %s", diff)
	}
	if diff := cmp.Diff(wantFiles, listAll(t, out)); diff != "" {
		t.Errorf("copies: %s", diff)
	}
}

// change draws what a program did to a workspace.
func change(t *rapid.T, entries []entry) (after []entry, artifacts []string, files map[string]string) {
	files = map[string]string{}
	changed := func(e entry, typ Type) {
		after = append(after, e)
		artifacts = append(artifacts, string(typ)+" "+strings.ToValidUTF8(e.Name, "\uFFFD"))
		if typ == TypeFile {
			files[e.Name] = e.data
		}
	}
	taken := map[string]bool{}
	for _, e := range entries {
		taken[strings.TrimSuffix(e.Name, "/")] = true
		what := rapid.IntRange(0, 5).Draw(t, "change")
		switch {
		case e.Typeflag == tar.TypeDir || what == 0: // as it was
			after = append(after, e)
		case what == 1: // removed
		case what == 2: // touched, other permissions
			e.Mode, e.ModTime = 0o700, e.ModTime.Add(time.Hour)
			after = append(after, e)
		case what == 3 && e.Typeflag == tar.TypeReg: // same size, another content
			if e.data == "" {
				after = append(after, e)
				continue
			}
			last := len(e.data) - 1
			e.data = e.data[:last] + string(e.data[last]^1)
			if len(e.data) != last+1 { // the byte became two in UTF-8
				e.data = e.data[:last] + "\x7e"
			}
			e.Size = int64(len(e.data))
			changed(e, TypeFile)
		case what == 4: // replaced by a FIFO
			changed(special(tar.TypeFifo, e.Name, ""), TypeFIFO)
		default: // replaced by a longer file
			changed(file(e.Name, e.data+"more"), TypeFile)
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "new") {
		name := fmt.Sprint("made by the program ", i)
		if !taken[name] {
			changed(file(name, genContent.Draw(t, "content")), TypeFile)
		}
	}
	return after, artifacts, files
}

func listAll(t *rapid.T, dir string) map[string]string {
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		got[rel] = string(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is made for the first file
		t.Fatal(err)
	}
	return got
}

func TestRoundTrip(t *testing.T) { rapid.Check(t, roundTrip) }

func FuzzRoundTrip(f *testing.F) { f.Fuzz(rapid.MakeFuzz(roundTrip)) }

// FuzzCollect: whatever the bytes, Collect ends without a panic, keeps to its limits and to its directory.
func FuzzCollect(f *testing.F) {
	f.Add([]byte{})
	f.Add(pack(f, file("a", "x"), dir("d"), file("../x", "y"), special(tar.TypeSymlink, "l", "/"), special(tar.TypeLink, "h", "a")))
	f.Add(pack(f, records(file("o", ""), RecordOmitted, "x", RecordSize, "12"), records(file("s", ""), RecordType, "socket")))
	f.Add(append(rawSparse("hole"), pack(f, file("a/b/c", "x"))...))
	before := Manifest{Entries: map[string]Entry{"a": {Type: TypeFile, Size: 1}, "l": {Type: TypeLink}}}
	f.Fuzz(func(t *testing.T, stream []byte) {
		if err := checkHostile(t.TempDir(), stream, before); err != nil {
			t.Error(err)
		}
	})
}

// hostile draws entries that a program, or a broken driver, might send.
func hostile(t *rapid.T) {
	name := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "l", "../x", "/x", ".", "a/../../x", "a//b", "a/b", "a/b/c", "./d", "l/x", ".git/x", "\xff", "x/"}),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.OneOf(genElement, rapid.Just("..")), 1, 4).Draw(t, "elements"), "/")
		}))
	var entries []entry
	for range rapid.IntRange(0, 10).Draw(t, "entries") {
		e := file(name.Draw(t, "name"), rapid.StringN(0, 600, 1500).Draw(t, "content"))
		if strings.HasSuffix(e.Name, "/") { // only a directory's may
			entries = append(entries, dir(strings.TrimRight(e.Name, "/")))
			continue
		}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			typ := rapid.SampledFrom([]byte{tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeChar, tar.TypeDir}).Draw(t, "type")
			e = special(typ, e.Name, rapid.SampledFrom([]string{"a", "/etc", ".."}).Draw(t, "target"))
		case 1:
			e = records(file(e.Name, ""), RecordOmitted, "x", RecordSize, rapid.SampledFrom([]string{"0", "5", "-5", "x"}).Draw(t, "size"))
		case 2:
			e = records(e, RecordType, rapid.SampledFrom([]string{"socket", "file"}).Draw(t, "record"))
		}
		entries = append(entries, e)
	}
	stream := packRapid(t, entries)
	if rapid.Bool().Draw(t, "cut") {
		stream = stream[:rapid.IntRange(0, len(stream)).Draw(t, "length")]
	}
	top, err := os.MkdirTemp("", "workspace-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	before := Manifest{Entries: map[string]Entry{"a": {Type: TypeFile, Size: 1}, "l": {Type: TypeLink}}}
	if err := checkHostile(top, stream, before); err != nil {
		t.Error(err)
	}
}

func TestHostileStreams(t *testing.T) { rapid.Check(t, hostile) }

func FuzzHostileStreams(f *testing.F) { f.Fuzz(rapid.MakeFuzz(hostile)) }

// checkHostile collects stream into top/out, where links are planted, and says what is wrong with the result.
func checkHostile(top string, stream []byte, before Manifest) error {
	out, outside := filepath.Join(top, "out"), filepath.Join(top, "outside")
	if err := errors.Join(os.Mkdir(out, 0o755), os.Mkdir(outside, 0o755), os.Symlink(outside, filepath.Join(out, "l")),
		os.Symlink("a", filepath.Join(out, "b"))); err != nil {
		return err
	}
	cfg := CollectConfig{Dir: out, Files: 3, FileBytes: 1000, TotalBytes: 2000}
	got, err := Collect(bytes.NewReader(stream), before, cfg)
	if err == nil && len(stream) < trailerBytes {
		return errors.New("a stream without an end was taken for whole")
	}
	files, kept, omitted := 0, int64(0), 0
	for _, a := range got.Artifacts {
		switch {
		case a.Type != TypeFile:
		case a.Omitted != "":
			files, omitted = files+1, omitted+1
		case a.Size > cfg.FileBytes || a.SHA256 == "":
			return fmt.Errorf("kept %+v", a)
		default:
			files, kept = files+1, kept+a.Size
		}
	}
	if files > 3 || len(got.Artifacts) > 6 || kept != got.Bytes || kept > cfg.TotalBytes || omitted != got.Omitted {
		return fmt.Errorf("beyond the limits: %+v", got)
	}
	for dir, want := range map[string]int{top: 2, outside: 0} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
			return errors.Join(fmt.Errorf("beside the artifact directory: %v", entries), err)
		}
	}
	copies := 0
	err = filepath.WalkDir(out, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Type() == os.ModeSymlink && (e.Name() == "l" || e.Name() == "b") {
			return err
		}
		copies++
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".silk-") {
			return fmt.Errorf("copied %s, a %v", path, e.Type())
		}
		return nil
	})
	if err == nil && copies != files-omitted {
		err = fmt.Errorf("%d copies of %d files: %+v", copies, files-omitted, got)
	}
	return err
}

func unpackRapid(t *rapid.T, stream []byte) []entry { return unpackWith(t.Fatal, stream) }

func packRapid(t *rapid.T, entries []entry) []byte { return packWith(t.Fatal, entries) }

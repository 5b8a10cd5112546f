//go:build unix

package workspace

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCollectArtifact(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", 20)
	got := collect(t, pack(t,
		dir("plots"), file("plots/a.png", png), executable("run.sh", "#!/bin/sh\n"), file("empty", ""), dir("no-artifact"),
	), Manifest{}, CollectConfig{})
	want := Collected{
		Bytes: int64(len(png)) + 10,
		Artifacts: []Artifact{
			{Path: "plots/a.png", Type: TypeFile, Size: int64(len(png)), Mode: 0o644, SHA256: hexSum(png), MIME: "image/png"},
			{Path: "run.sh", Type: TypeFile, Size: 10, Mode: 0o755, SHA256: hexSum("#!/bin/sh\n"), MIME: "text/x-shellscript"},
			{Path: "empty", Type: TypeFile, Mode: 0o644, SHA256: hexSum(""), MIME: "text/plain"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCollectChanges(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", headBytes/16+1) // longer than what is kept in memory
	d := t.TempDir()
	for name, data := range map[string]string{
		"same": "s", "edited": "before", "shorter": "long text", "sub/big-same": big,
		"sub/big-edited": big, "becomes-link": "x", "removed": "x",
	} {
		write(t, filepath.Join(d, name), data)
	}
	must(t, os.Symlink("same", filepath.Join(d, "link-same")))
	must(t, os.Symlink("same", filepath.Join(d, "link-moved")))
	must(t, os.Symlink("same", filepath.Join(d, "becomes-file")))
	before, _ := fill(t, Source{Dir: d})
	edited := big[:len(big)-1] + "!"
	out := filepath.Join(t.TempDir(), "out")
	touched := executable("same", "s")
	touched.ModTime = time.Unix(1, 0)
	got := collect(t, pack(t, touched, file("edited", "after!"), file("shorter", "text"), dir("sub"),
		file("sub/big-same", big), file("sub/big-edited", edited), special(tar.TypeSymlink, "becomes-link", "x"),
		special(tar.TypeSymlink, "link-same", "same"), special(tar.TypeSymlink, "link-moved", "edited"),
		file("becomes-file", "same"), file("new", "n"), special(tar.TypeFifo, "pipe", ""),
	), before, CollectConfig{Dir: out})
	want := "edited shorter sub/big-edited becomes-link(link) link-moved(link) becomes-file new pipe(fifo)"
	if paths(got) != want {
		t.Errorf("got  %s\nwant %s", paths(got), want)
	}
	if read(t, filepath.Join(out, "sub", "big-edited")) != edited {
		t.Error("the large changed file was not copied whole")
	}
	if names := tree1(t, out); names != "becomes-file edited new shorter sub/ sub/big-edited" {
		t.Errorf("copied %s", names)
	}
}

// tree1 lists everything below dir, for comparison.
func tree1(t testing.TB, dir string) string {
	t.Helper()
	var names []string
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			if e.IsDir() {
				rel += "/"
			}
			names = append(names, rel)
		}
		return err
	}))
	return strings.Join(names, " ")
}

func TestCollectUnchangedMakesNoDirectories(t *testing.T) {
	d, out := t.TempDir(), t.TempDir()
	write(t, filepath.Join(d, "sub", "big"), strings.Repeat("x", 3*headBytes))
	before, stream := fill(t, Source{Dir: d})
	if got := collect(t, stream, before, CollectConfig{Dir: out}); len(got.Artifacts) != 0 || tree1(t, out) != "" {
		t.Errorf("got %s and %s, want nothing", paths(got), tree1(t, out))
	}
}

func TestCollectIgnores(t *testing.T) {
	got := collect(t, pack(t,
		file("a/__pycache__/m.pyc", "x"), file("node_modules/x/index.js", "x"), file(".git/config", "x"), file(".cache", "x"),
		special(tar.TypeSymlink, ".silk/link", "x"), file("target/x", "x"),
		file("my__pycache__", "x"), file(".gitignore", "x"), file("Target", "x"),
	), Manifest{}, CollectConfig{Ignore: []string{"__pycache__", "node_modules", ".git", ".cache", ".silk", "target"}})
	if want := "my__pycache__ .gitignore Target"; paths(got) != want || got.Ignored != 6 {
		t.Errorf("got %s and %d ignored, want %s and 6", paths(got), got.Ignored, want)
	}
}

func TestCollectSpecials(t *testing.T) {
	got := collect(t, pack(t,
		special(tar.TypeSymlink, "link", "/etc/passwd"), special(tar.TypeLink, "hard", "link"), special(tar.TypeFifo, "fifo", ""),
		special(tar.TypeChar, "char", ""), special(tar.TypeBlock, "block", ""), records(file("sock", ""), RecordType, "socket"),
		records(file("disk", ""), RecordType, "device"),
	), Manifest{}, CollectConfig{Dir: t.TempDir()})
	if want := "link(link) hard(link) fifo(fifo) char(device) block(device) sock(socket) disk(device)"; paths(got) != want {
		t.Errorf("got %s, want %s", paths(got), want)
	}
	if got.Bytes != 0 || got.Omitted != 0 {
		t.Errorf("kept %d bytes, omitted %d; want none: they have no content", got.Bytes, got.Omitted)
	}
}

func TestCollectNamesThatAreNotUTF8(t *testing.T) {
	out := t.TempDir()
	got := collect(t, pack(t, file("caf\xe9/\xff\xfe", "x"), file("ok-é", "y"), file("new\nline", "z")), Manifest{}, CollectConfig{Dir: out})
	want := []Artifact{
		{Path: "caf\uFFFD/\uFFFD", PathB64: base64.StdEncoding.EncodeToString([]byte("caf\xe9/\xff\xfe"))},
		{Path: "ok-é"},
		{Path: "new\nline"},
	}
	for i, a := range got.Artifacts {
		if a.Path != want[i].Path || a.PathB64 != want[i].PathB64 {
			t.Errorf("got %q %q, want %q %q", a.Path, a.PathB64, want[i].Path, want[i].PathB64)
		}
	}
	if read(t, filepath.Join(out, "caf\xe9", "\xff\xfe")) != "x" || read(t, filepath.Join(out, "new\nline")) != "z" {
		t.Error("an odd name was not copied as it is")
	}
}

func TestCollectCaps(t *testing.T) {
	var many []entry
	for i := range 12 {
		many = append(many, file(fmt.Sprint("f", i), "x"), special(tar.TypeSymlink, fmt.Sprint("l", i), "x"))
	}
	t.Run("files and links", func(t *testing.T) {
		out := t.TempDir()
		got := collect(t, pack(t, many...), Manifest{}, CollectConfig{Files: 5, Dir: out})
		if len(got.Artifacts) != 10 || got.More != 14 || got.Bytes != 5 {
			t.Errorf("listed %d, more %d, kept %d bytes; want 10, 14, 5", len(got.Artifacts), got.More, got.Bytes)
		}
		if tree1(t, out) != "f0 f1 f2 f3 f4" {
			t.Errorf("copied %s", tree1(t, out))
		}
	})
	t.Run("bytes of one and of all", func(t *testing.T) {
		out := t.TempDir()
		got := collect(t, pack(t, file("a", "12345"), file("b", "123456"), file("c", "1234"), file("d", "12"), file("e", "1"),
			file("f", "")), Manifest{}, CollectConfig{FileBytes: 5, TotalBytes: 10, Dir: out})
		if want := "a b! c d! e f"; paths(got) != want || got.Bytes != 10 || got.Omitted != 2 {
			t.Errorf("got %s, %d bytes, %d omitted; want %s, 10, 2", paths(got), got.Bytes, got.Omitted, want)
		}
		if b := got.Artifacts[1]; b.Size != 6 || b.SHA256 != "" || !strings.Contains(b.Omitted, "larger than the 5 bytes") {
			t.Errorf("b: %+v", b)
		}
		if d := got.Artifacts[3]; d.SHA256 != hexSum("12") || !strings.Contains(d.Omitted, "beyond the 10 bytes") {
			t.Errorf("d: %+v", d)
		}
		if tree1(t, out) != "a c e f" {
			t.Errorf("copied %s", tree1(t, out))
		}
	})
	t.Run("unchanged files cost nothing", func(t *testing.T) {
		d := t.TempDir()
		write(t, filepath.Join(d, "a"), "12345")
		before, _ := fill(t, Source{Dir: d})
		got := collect(t, pack(t, file("a", "12345"), file("b", "123")), before, CollectConfig{Files: 1, TotalBytes: 3})
		if paths(got) != "b" {
			t.Errorf("got %s, want b", paths(got))
		}
	})
	t.Run("long names", func(t *testing.T) {
		long := strings.Repeat(strings.Repeat("n", 255)+"/", 1000)
		var entries []entry
		for i := range 40 {
			entries = append(entries, file(long+fmt.Sprint(i), "x"))
		}
		got := collect(t, pack(t, entries...), Manifest{}, CollectConfig{})
		if n := len(got.Artifacts); n != listBytes/(len(long)+2) || got.More != 40-n {
			t.Errorf("listed %d and %d more, want names of %d bytes at most", n, got.More, listBytes)
		}
	})
}

func TestCollectOmittedByDriver(t *testing.T) {
	omitted := func(name, size string) entry {
		e := records(file(name, ""), RecordOmitted, "larger than\x1b[31m 64 MiB", RecordSize, size)
		e.ModTime = someTime.Truncate(time.Second)
		return e
	}
	got := collect(t, pack(t, omitted("tb", "1099511627776"), file("after", "x")), Manifest{}, CollectConfig{})
	want := Artifact{Path: "tb", Type: TypeFile, Size: 1 << 40, Mode: 0o644, Omitted: "larger than?[31m 64 MiB"}
	if diff := cmp.Diff(want, got.Artifacts[0]); diff != "" || paths(got) != "tb! after" || got.Omitted != 1 {
		t.Errorf("got %s, %d omitted, %s", paths(got), got.Omitted, diff)
	}

	before := Manifest{Entries: map[string]Entry{"tb": {Type: TypeFile, Size: 1 << 40, ModTime: someTime}}}
	if got := collect(t, pack(t, omitted("tb", "1099511627776")), before, CollectConfig{}); len(got.Artifacts) != 0 {
		t.Errorf("got %s, want nothing: size and time are as before", paths(got))
	}
	if got := collect(t, pack(t, omitted("tb", "1099511627777")), before, CollectConfig{}); paths(got) != "tb!" {
		t.Errorf("got %s, want tb: its size is another", paths(got))
	}

	for _, size := range []string{"", "-1", "1e3", "99999999999999999999"} {
		stream := pack(t, file("first", "x"), omitted("bad", size))
		got, err := Collect(bytes.NewReader(stream), Manifest{}, CollectConfig{})
		if err == nil || paths(got) != "first" {
			t.Errorf("size %q: got %s, %v; want the first file and an error", size, paths(got), err)
		}
	}
	more := records(file(".", ""), RecordOmitted, "more than 100000 entries")
	if got := collect(t, pack(t, file("a", "x"), more), Manifest{}, CollectConfig{}); paths(got) != "a" || got.More != 1 {
		t.Errorf("got %s and %d more, want a and 1: the driver stopped sending", paths(got), got.More)
	}
	contradiction := records(file("bad", "content"), RecordOmitted, "x", RecordSize, "7")
	if _, err := Collect(bytes.NewReader(pack(t, contradiction)), Manifest{}, CollectConfig{}); err == nil {
		t.Error("content that was omitted and sent was accepted")
	}
	unknown := records(file("bad", ""), RecordType, "door")
	if _, err := Collect(bytes.NewReader(pack(t, unknown)), Manifest{}, CollectConfig{}); err == nil {
		t.Error("an unknown type was accepted")
	}
}

func TestCollectHostileNames(t *testing.T) {
	parent := t.TempDir()
	out := filepath.Join(parent, "out")
	got := collect(t, pack(t,
		file("../escape", "x"), file("a/../../escape", "x"), file("/escape", "x"), file("..", "x"), file(".", "x"),
		file("a//b", "x"), file("a/./b", "x"), file("./fine", "x"), special(tar.TypeSymlink, "../l", "x"),
	), Manifest{}, CollectConfig{Dir: out})
	want := "../escape! a/../../escape! /escape! ..! .! a//b! a/./b! fine ../l(link)"
	if paths(got) != want {
		t.Errorf("got  %s\nwant %s", paths(got), want)
	}
	if names := tree1(t, parent); names != "out/ out/fine" {
		t.Errorf("the directory above has %s, want only what belongs there", names)
	}
}

func TestCollectPlantedLinks(t *testing.T) {
	parent := t.TempDir()
	out, outside := filepath.Join(parent, "out"), filepath.Join(parent, "outside")
	write(t, filepath.Join(outside, "target"), "precious")
	write(t, filepath.Join(out, "inside", "target"), "precious")
	must(t, os.Symlink(outside, filepath.Join(out, "dir-out")))
	must(t, os.Symlink("inside", filepath.Join(out, "dir-in")))
	must(t, os.Symlink(filepath.Join(outside, "target"), filepath.Join(out, "file-out")))
	must(t, os.Symlink("inside/target", filepath.Join(out, "file-in")))
	must(t, os.Symlink(filepath.Join(outside, "new"), filepath.Join(out, "dangling")))
	got := collect(t, pack(t,
		file("dir-out/target", "x"), file("dir-out/new", "x"), file("dir-in/target", "x"), file("file-out", "x"),
		file("file-in", "x"), file("dangling", "x"),
	), Manifest{}, CollectConfig{Dir: out})
	if want := "dir-out/target! dir-out/new! dir-in/target! file-out file-in dangling"; paths(got) != want {
		t.Errorf("got %s, want %s", paths(got), want)
	}
	if read(t, filepath.Join(outside, "target")) != "precious" || read(t, filepath.Join(out, "inside", "target")) != "precious" {
		t.Error("a copy was written through a link")
	}
	if names := tree1(t, parent); names != "out/ out/dangling out/dir-in out/dir-out out/file-in out/file-out out/inside/ "+
		"out/inside/target outside/ outside/target" {
		t.Errorf("now there is %s", names)
	}
	if info, err := os.Lstat(filepath.Join(out, "file-out")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("file-out is %v, %v; want a regular file in place of the link", info.Mode(), err)
	}
}

func TestCollectCollisions(t *testing.T) {
	out := t.TempDir()
	write(t, filepath.Join(out, "old"), "old content")
	write(t, filepath.Join(out, "file"), "keep")
	write(t, filepath.Join(out, "dir", "f"), "keep")
	makeFIFO(t, filepath.Join(out, "fifo"))
	makeFIFO(t, filepath.Join(out, "fifo-dir"))
	reader, err := os.Open(filepath.Join(out, "old"))
	must(t, err)
	defer reader.Close()
	got := collect(t, pack(t, file("old", "new"), file("file/below", "x"), file("dir", "x"), file("fifo", "x"),
		file("fifo-dir/x", "x"), file(strings.Repeat("n", 256), "x"), file("later", "x"),
	), Manifest{}, CollectConfig{Dir: out})
	if want := "old file/below! dir! fifo fifo-dir/x! " + strings.Repeat("n", 256) + "! later"; paths(got) != want {
		t.Errorf("got  %s\nwant %s", paths(got), want)
	}
	if names := tree1(t, out); names != "dir/ dir/f fifo fifo-dir file later old" {
		t.Errorf("now there is %s", names)
	}
	data, err := io.ReadAll(reader)
	if err != nil || string(data) != "old content" {
		t.Errorf("who had the old file open reads %q, %v; want it whole", data, err)
	}
	if read(t, filepath.Join(out, "old")) != "new" || read(t, filepath.Join(out, "file")) != "keep" {
		t.Error("wrong content after a collision")
	}
	for _, a := range got.Artifacts {
		if a.Omitted != "" && !strings.HasPrefix(a.Omitted, "not copied: ") {
			t.Errorf("%s: %q", a.Path, a.Omitted)
		}
	}
}

func TestCollectModes(t *testing.T) {
	out := t.TempDir()
	setuid := executable("setuid", "x")
	setuid.Mode = 0o6777
	closed := file("closed", "x")
	closed.Mode = 0
	got := collect(t, pack(t, setuid, closed), Manifest{}, CollectConfig{Dir: out})
	if got.Artifacts[0].Mode != 0o777 || got.Artifacts[1].Mode != 0 {
		t.Errorf("got modes %v and %v, want permissions as sent, without set-id bits", got.Artifacts[0].Mode, got.Artifacts[1].Mode)
	}
	for name, want := range map[string]fs.FileMode{"setuid": 0o755, "closed": 0o644} {
		info, err := os.Stat(filepath.Join(out, name))
		must(t, err)
		if got := info.Mode(); got&^want != 0 || got&0o600 != 0o600 || got&0o100 != want&0o100 {
			t.Errorf("%s was copied with %v, want %v less the umask", name, got, want)
		}
	}
}

func TestCollectTwice(t *testing.T) {
	for _, pair := range [][2]entry{
		{file("a", "1"), file("a", "2")},
		{file("a", "1"), file("./a", "2")},
		{special(tar.TypeSymlink, "a", "b"), file("a", "2")},
		{file("a", "1"), special(tar.TypeFifo, "a", "")},
	} {
		got, err := Collect(bytes.NewReader(pack(t, pair[0], pair[1])), Manifest{}, CollectConfig{})
		if err == nil || len(got.Artifacts) != 1 {
			t.Errorf("got %s, %v; want the first and an error", paths(got), err)
		}
	}
}

// Cut at any byte, a stream gives an error, and what had arrived whole.
func TestCollectTruncated(t *testing.T) {
	stream := pack(t, file("a", "first"), dir("d"), file("d/zeros", strings.Repeat("\x00", 2000)),
		records(file("c", "x"), "SILK.test", "y"), special(tar.TypeSymlink, "l", "x"), file("\xff", ""))
	all := collect(t, stream, Manifest{}, CollectConfig{}).Artifacts
	out := t.TempDir()
	for n := range len(stream) {
		cfg := CollectConfig{}
		if n%61 == 0 {
			cfg.Dir = out
		}
		got, err := Collect(bytes.NewReader(stream[:n]), Manifest{}, cfg)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at byte %d of %d: got error %v, want io.ErrUnexpectedEOF", n, len(stream), err)
		}
		if diff := cmp.Diff(all[:len(got.Artifacts)], got.Artifacts, cmp.Transformer("nil", func(a []Artifact) []Artifact {
			return append([]Artifact{}, a...)
		})); diff != "" {
			t.Fatalf("cut at byte %d: %s", n, diff)
		}
		if strings.Contains(tree1(t, out), ".silk-") {
			t.Fatalf("cut at byte %d: left a temporary file in %s", n, tree1(t, out))
		}
	}
}

func TestCollectGarbage(t *testing.T) {
	good := pack(t, file("good", "x"))
	good = good[:len(good)-trailerBytes]
	for name, garbage := range map[string][]byte{
		"text":         bytes.Repeat([]byte("no tar header at all "), 100),
		"bad checksum": append([]byte("x"), good[1:]...),
		"one block":    bytes.Repeat([]byte{1}, 512),
	} {
		got, err := Collect(bytes.NewReader(append(append([]byte{}, good...), garbage...)), Manifest{}, CollectConfig{})
		if err == nil || paths(got) != "good" {
			t.Errorf("%s: got %s, %v; want the good file and an error", name, paths(got), err)
		}
	}
}

func TestCollectReadError(t *testing.T) {
	stream := pack(t, file("a", "first"), file("b", strings.Repeat("x", 1<<20)))
	lost := errors.New("connection lost")
	r := io.MultiReader(bytes.NewReader(stream[:500_000]), errReader{lost})
	out := t.TempDir()
	got, err := Collect(r, Manifest{}, CollectConfig{Dir: out})
	if !errors.Is(err, lost) || paths(got) != "a" || tree1(t, out) != "a" {
		t.Errorf("got %s, %v, copied %s; want a, the error, a", paths(got), err, tree1(t, out))
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// rawSparse is an entry in GNU's sparse format 0.1: a terabyte that is one hole.
func rawSparse(name string) []byte {
	record := func(key, value string) string {
		n := len(key) + len(value) + 3
		n += len(fmt.Sprint(n + 2))
		return fmt.Sprintf("%d %s=%s\n", n, key, value)
	}
	header := func(name string, typ byte, size int) []byte {
		b := make([]byte, 512)
		copy(b, name)
		copy(b[100:], "0000644\x000000000\x000000000\x00")
		copy(b[124:], fmt.Sprintf("%011o\x00%011o\x00        ", size, 0))
		b[156] = typ
		copy(b[257:], "ustar\x0000")
		sum := 0
		for _, c := range b {
			sum += int(c)
		}
		copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
		return b
	}
	text := record("GNU.sparse.size", "1099511627776") + record("GNU.sparse.numblocks", "1") +
		record("GNU.sparse.map", "1099511627776,0")
	block := make([]byte, 512)
	copy(block, text)
	return bytes.Join([][]byte{header("x", 'x', len(text)), block, header(name, '0', 0)}, nil)
}

func TestCollectSparseEntry(t *testing.T) {
	stream := append(rawSparse("hole"), pack(t, file("after", "x"))...)
	if h, err := tar.NewReader(bytes.NewReader(stream)).Next(); err != nil || h.Size != 1<<40 {
		t.Fatalf("the test's own entry: %v, %v", h, err)
	}
	got := collect(t, stream, Manifest{}, CollectConfig{FileBytes: 1 << 50, TotalBytes: 1 << 50, Dir: t.TempDir()})
	if paths(got) != "hole! after" || got.Artifacts[0].Size != 1<<40 {
		t.Errorf("got %s, want the hole without its content", paths(got))
	}
}

// TestCollectNothing leaves no directory where there is nothing to keep, and needs none.
func TestCollectNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	same := pack(t, file("a", "x"))
	before := Manifest{Entries: map[string]Entry{"a": {Type: TypeFile, Size: 1, SHA256: sha256.Sum256([]byte("x"))}}}
	if got, err := Collect(bytes.NewReader(same), before, CollectConfig{Dir: dir}); err != nil || paths(got) != "" {
		t.Errorf("got %s, %v, want nothing", paths(got), err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made for nothing: %v", err)
	}
}

func TestCollectDirUnusable(t *testing.T) {
	out := filepath.Join(t.TempDir(), "file")
	write(t, out, "x")
	got, err := Collect(bytes.NewReader(pack(t, file("a", "x"), file("b", ""))), Manifest{}, CollectConfig{Dir: out})
	if err == nil || !strings.Contains(err.Error(), "open artifact directory") {
		t.Errorf("got %v, want an error about the artifact directory", err)
	}
	if paths(got) != "a! b!" || got.Artifacts[0].SHA256 != hexSum("x") {
		t.Errorf("got %s, want both listed and not kept", paths(got))
	}
}

// zeros is an endless reader that notes how much memory is in use while it is read.
type zeros struct{ peak uint64 }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	z.peak = max(z.peak, m.HeapAlloc)
	return len(p), nil
}

func TestCollectMemory(t *testing.T) {
	const size = 60 << 20
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: size}))
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	z := &zeros{}
	got := func() Collected {
		r := io.MultiReader(&head, io.LimitReader(z, size+trailerBytes))
		got, err := Collect(r, Manifest{}, CollectConfig{Dir: t.TempDir()})
		must(t, err)
		return got
	}()
	if paths(got) != "big" {
		t.Fatalf("got %s", paths(got))
	}
	if grown := int64(z.peak) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("memory grew by %d MiB for a file of %d MiB", grown>>20, size>>20)
	}
}

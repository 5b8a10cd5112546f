//go:build unix

package workspace

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lines shows entries one per line: type letter, permissions, name, target or content.
func lines(entries []entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%c %o %q", e.Typeflag, e.Mode, e.Name)
		if e.Linkname != "" {
			fmt.Fprintf(&b, " -> %q", e.Linkname)
		}
		if e.data != "" {
			fmt.Fprintf(&b, " %q", e.data)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestFillEmpty(t *testing.T) {
	m, stream := fill(t, Source{})
	if len(m.Entries) != 0 || len(unpack(t, stream)) != 0 || len(stream) != trailerBytes {
		t.Errorf("got %v and %d bytes, want nothing but the end of a tar stream", m, len(stream))
	}
}

func TestFillParts(t *testing.T) {
	d := t.TempDir()
	write(t, filepath.Join(d, "src", "main.py"), "old")
	write(t, filepath.Join(d, "src", "data", "x.csv"), "1,2\n")
	write(t, filepath.Join(d, "one.txt"), "one")
	must(t, os.Symlink("one.txt", filepath.Join(d, "link-to-one")))
	must(t, os.Mkdir(filepath.Join(d, "src", "empty"), 0o700))
	must(t, os.Chmod(filepath.Join(d, "src", "data", "x.csv"), 0o4751|fs.ModeSetuid))
	_, stream := fill(t, Source{
		Dir:   filepath.Join(d, "src"),
		Files: []string{filepath.Join(d, "one.txt"), filepath.Join(d, "link-to-one")},
		Extra: []File{{Name: ".gotmp", Mode: fs.ModeDir}, {Name: ".silk/site.py", Bytes: []byte("s"), Mode: 0o444}},
		Code:  &File{Name: "main.py", Bytes: []byte("new")},
	})
	got := lines(unpack(t, stream))
	want := `5 755 "data/"
0 751 "data/x.csv" "1,2\n"
5 700 "empty/"
0 644 "one.txt" "one"
0 644 "link-to-one" "one"
5 755 ".gotmp/"
5 755 ".silk/"
0 444 ".silk/site.py" "s"
0 644 "main.py" "new"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, e := range unpack(t, stream) {
		if e.Uid != Owner || e.Gid != Owner {
			t.Errorf("%s belongs to %d:%d, want %d", e.Name, e.Uid, e.Gid, Owner)
		}
	}
}

func TestFillKeepsTimes(t *testing.T) {
	d := t.TempDir()
	write(t, filepath.Join(d, "f"), "x")
	must(t, os.Chtimes(filepath.Join(d, "f"), someTime, someTime))
	m, stream := fill(t, Source{Dir: d, Code: &File{Name: "code"}})
	entries := unpack(t, stream)
	if got := entries[0].ModTime; !got.Equal(someTime) || !m.Entries["f"].ModTime.Equal(someTime) {
		t.Errorf("f has time %v, want %v", got, someTime)
	}
	if got := entries[1].ModTime; !got.Equal(time.Unix(0, 0)) {
		t.Errorf("code has time %v, want the epoch", got)
	}
}

func TestFillOddNames(t *testing.T) {
	d := t.TempDir()
	names := []string{
		"-rf", "--", "...", "a b", " ", "new\nline", "tab\t", "back\\slash", "quote'\"", "\x01\x7f", "é", "e\u0301",
		"\xff\xfe", strings.Repeat("n", 255), strings.Repeat("ü", 127), "*", "$(reboot)", "CON", "x=1", "0 path=evil",
	}
	want, wantLinks := map[string]string{}, map[string]string{}
	for i, name := range names {
		content := fmt.Sprint(i)
		write(t, filepath.Join(d, name), content)
		want[name] = content
		must(t, os.Mkdir(filepath.Join(d, fmt.Sprint("d", i)), 0o755))
		write(t, filepath.Join(d, fmt.Sprint("d", i), name), content)
		want[fmt.Sprint("d", i)+"/"+name] = content
		must(t, os.Symlink(name, filepath.Join(d, fmt.Sprint("l", i))))
		wantLinks[fmt.Sprint("l", i)] = name
	}
	m, stream := fill(t, Source{Dir: d})
	got, links := map[string]string{}, map[string]string{}
	for _, e := range unpack(t, stream) {
		switch e.Typeflag {
		case tar.TypeReg:
			got[e.Name] = e.data
		case tar.TypeSymlink:
			links[e.Name] = e.Linkname
		}
	}
	if diff := cmp.Diff(want, got) + cmp.Diff(wantLinks, links); diff != "" {
		t.Error(diff)
	}
	if len(m.Entries) != 4*len(names) {
		t.Errorf("the manifest has %d entries, want %d", len(m.Entries), 4*len(names))
	}
	if got := collect(t, stream, m, CollectConfig{}); len(got.Artifacts) != 0 {
		t.Errorf("unchanged, yet artifacts: %v", paths(got))
	}
}

func TestFillKinds(t *testing.T) {
	d, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	write(t, filepath.Join(d, "a"), "content")
	must(t, os.Link(filepath.Join(d, "a"), filepath.Join(d, "b-second-name")))
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(d, "c-out")))
	must(t, os.Symlink(outside, filepath.Join(d, "d-out-dir")))
	must(t, os.Symlink("../../../../etc/passwd", filepath.Join(d, "e-up")))
	must(t, os.Symlink("nowhere", filepath.Join(d, "f-dangling")))
	must(t, os.Symlink(".", filepath.Join(d, "g-loop")))
	makeFIFO(t, filepath.Join(d, "h-fifo"))
	sock, err := net.Listen("unix", filepath.Join(d, "i-socket"))
	must(t, err)
	defer sock.Close()
	m, stream := fill(t, Source{Dir: d})

	got := lines(unpack(t, stream))
	want := fmt.Sprintf(`0 644 "a" "content"
0 644 "b-second-name" "content"
2 777 "c-out" -> %q
2 777 "d-out-dir" -> %q
2 777 "e-up" -> "../../../../etc/passwd"
2 777 "f-dangling" -> "nowhere"
2 777 "g-loop" -> "."
`, filepath.Join(outside, "secret"), outside)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Skipped{{"h-fifo", TypeFIFO}, {"i-socket", TypeSocket}}, m.Skipped); diff != "" {
		t.Error(diff)
	}
	if bytes.Contains(stream, []byte("secret\x00")) && bytes.Contains(stream, []byte("secret\nsecret")) {
		t.Error("the content behind a link was copied")
	}
}

func TestFillDirItselfIsALink(t *testing.T) {
	d := t.TempDir()
	write(t, filepath.Join(d, "real", "f"), "x")
	must(t, os.Symlink("real", filepath.Join(d, "link")))
	m, _ := fill(t, Source{Dir: filepath.Join(d, "link")})
	if len(m.Entries) != 1 {
		t.Errorf("got %v, want the one file: the user named this link", m.Entries)
	}
}

func TestFillConflicts(t *testing.T) {
	d := t.TempDir()
	write(t, filepath.Join(d, "dir", "f"), "dir's")
	write(t, filepath.Join(d, "dir", "sub", "g"), "g")
	write(t, filepath.Join(d, "f"), "another")
	write(t, filepath.Join(d, "sub"), "file with a directory's name")
	must(t, os.Symlink("/etc", filepath.Join(d, "dir", "link")))
	must(t, os.Link(filepath.Join(d, "dir", "f"), filepath.Join(d, "dir", "h")))
	tests := []struct {
		name string
		src  Source
		want string // part of the error
	}{
		{"a file with the name of another in the directory", Source{Files: []string{d + "/f"}}, `"f": --file and --dir both have it`},
		{"a file with the name of a directory", Source{Files: []string{d + "/sub"}}, `"sub": --file and --dir`},
		{"the same file twice", Source{Files: []string{d + "/f", d + "/dir/../f"}}, "named twice"},
		{"code below a file", Source{Code: &File{Name: "f/main.py"}}, `"f" is a file, not a directory`},
		{"code below a link", Source{Code: &File{Name: "link/passwd"}}, `"link" is a link, not a directory`},
		{"code in place of a link", Source{Code: &File{Name: "link"}}, "a link of that name is already there"},
		{"code in place of a directory", Source{Code: &File{Name: "sub"}}, "a dir of that name"},
		{"code and extra of one name", Source{Extra: []File{{Name: "x"}}, Code: &File{Name: "x"}}, "named twice"},
		{"extra in place of a file of the directory", Source{Extra: []File{{Name: "f"}}}, "a file of that name"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.src.Dir = filepath.Join(d, "dir")
			_, err := Fill(io.Discard, test.src, FillLimits{})
			var conflict *ConflictError
			if !errors.As(err, &conflict) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want a conflict with %q", err, test.want)
			}
		})
	}
	t.Run("no conflict", func(t *testing.T) {
		m, stream := fill(t, Source{
			Dir:   filepath.Join(d, "dir"),
			Files: []string{filepath.Join(d, "dir", "f")}, // the directory's own
			Code:  &File{Name: "sub/g", Bytes: []byte("code")},
			Extra: []File{{Name: "sub", Mode: fs.ModeDir}, {Name: "sub/new/x"}},
		})
		if got := len(unpack(t, stream)); got != len(m.Entries) || got != 7 {
			t.Errorf("got %d entries in the stream and %d in the manifest, want 7 each", got, len(m.Entries))
		}
	})
}

func TestCheckNames(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "/abs", "../x", "a/../b", "a//b", "a/", "./a", "a/./b", "nul\x00",
		strings.Repeat("x/", maxPathBytes) + "x",
	} {
		src := Source{Code: &File{Name: name}}
		if err := src.Check(FillLimits{}); err == nil {
			t.Errorf("Check accepted the name %.40q", name)
		}
		if _, err := Fill(io.Discard, src, FillLimits{}); err == nil {
			t.Errorf("Fill accepted the name %.40q", name)
		}
	}
	for _, name := range []string{"a", "a/b", "...", "..a", "-", "\xff", "new\nline"} {
		if err := (Source{Code: &File{Name: name}}).Check(FillLimits{}); err != nil {
			t.Errorf("Check refused the name %q: %v", name, err)
		}
	}
}

func TestCheckHostFiles(t *testing.T) {
	d := t.TempDir()
	write(t, filepath.Join(d, "f"), "x")
	makeFIFO(t, filepath.Join(d, "fifo"))
	for _, test := range []struct {
		name string
		src  Source
		want string
	}{
		{"missing file", Source{Files: []string{d + "/none"}}, "no such file"},
		{"directory as a file", Source{Files: []string{d}}, "copy it with --dir"},
		{"fifo as a file", Source{Files: []string{d + "/fifo"}}, "is a fifo, not a regular file"},
		{"device as a file", Source{Files: []string{os.DevNull}}, "is a device, not a regular file"},
		{"missing directory", Source{Dir: d + "/none"}, "no such file"},
		{"file as a directory", Source{Dir: d + "/f"}, "is not a directory; name single files with --file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.src.Check(FillLimits{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if err := (Source{Dir: d, Files: []string{d + "/f"}}).Check(FillLimits{}); err != nil {
		t.Error(err)
	}
}

func TestFillLimits(t *testing.T) {
	d := t.TempDir()
	for i := range 10 {
		write(t, filepath.Join(d, fmt.Sprint("f", i)), "0123456789")
	}
	for _, test := range []struct {
		name string
		src  Source
		lim  FillLimits
		want string // LimitError.What; empty: fits
	}{
		{"exactly as many bytes", Source{Dir: d}, FillLimits{Bytes: 100}, ""},
		{"one byte too many", Source{Dir: d}, FillLimits{Bytes: 99}, "bytes"},
		{"code counts", Source{Dir: d, Code: &File{Name: "c", Bytes: []byte("x")}}, FillLimits{Bytes: 100}, "bytes"},
		{"exactly as many entries", Source{Dir: d}, FillLimits{Entries: 10}, ""},
		{"one entry too many", Source{Dir: d}, FillLimits{Entries: 9}, "entries"},
		{"directories of code count", Source{Dir: d, Code: &File{Name: "a/b/c"}}, FillLimits{Entries: 12}, "entries"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Fill(io.Discard, test.src, test.lim)
			var limit *LimitError
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (!errors.As(err, &limit) || limit.What != test.want):
				t.Errorf("got %v, want a limit on %s", err, test.want)
			}
		})
	}
}

// Neither a path nor a directory is held in memory at any length: both are refused before the limit of entries is.
func TestFillLimitsNames(t *testing.T) {
	f := filler{lim: FillLimits{}.withDefaults()}
	var limit *LimitError
	if err := f.reserve(strings.Repeat("x", maxPathBytes+1)); !errors.As(err, &limit) || limit.What != "path" {
		t.Errorf("got %v, want a limit on the path", err)
	}
	d := t.TempDir()
	write(t, filepath.Join(d, "a"), "x")
	write(t, filepath.Join(d, "b"), "x")
	tr, err := openTree(d)
	must(t, err)
	defer tr.close()
	if err := tr.read(1); !errors.Is(err, errTooMany) {
		t.Errorf("got %v, want two names to be too many for one", err)
	}
}

func TestFillSparse(t *testing.T) {
	d := t.TempDir()
	write(t, filepath.Join(d, "hole"), "x")
	must(t, os.Truncate(filepath.Join(d, "hole"), 3<<20))
	_, stream := fill(t, Source{Dir: d})
	if e := unpack(t, stream)[0]; e.data != "x"+strings.Repeat("\x00", 3<<20-1) {
		t.Error("the hole did not arrive as zeros")
	}
	must(t, os.Truncate(filepath.Join(d, "hole"), 1<<40))
	var limit *LimitError
	if _, err := Fill(io.Discard, Source{Dir: d}, FillLimits{}); !errors.As(err, &limit) || limit.Path != "hole" {
		t.Errorf("got %v, want a limit reached at the file of a terabyte", err)
	}
}

// writerFunc is called with what Fill writes, before Fill goes on.
type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// The header of a file is written after it was measured and before its content is read: there the file changes.
func TestFillChangingFiles(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(path string) error
		want   error
	}{
		{"grows", func(p string) error { return os.Truncate(p, 2<<20) }, errGrew},
		{"shrinks", func(p string) error { return os.Truncate(p, 5) }, errShrank},
		{"disappears into nothing", func(p string) error { return os.Truncate(p, 0) }, errShrank},
		{"is overwritten with as many bytes", func(p string) error {
			f, err := os.OpenFile(p, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("y"), 10)
			return errors.Join(err, f.Close(), os.Chtimes(p, someTime, someTime))
		}, errChanged},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := t.TempDir()
			path := filepath.Join(d, "log")
			write(t, path, strings.Repeat("x", 1<<20))
			done := false
			w := writerFunc(func(p []byte) {
				if !done {
					done = true
					must(t, test.change(path))
				}
			})
			_, err := Fill(w, Source{Dir: d}, FillLimits{})
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), `"log"`) {
				t.Errorf("got %v, want %v with the name", err, test.want)
			}
		})
	}
}

func TestFillReplacedFile(t *testing.T) {
	d := t.TempDir()
	write(t, filepath.Join(d, "a"), "a")
	write(t, filepath.Join(d, "b"), "b")
	info, err := os.Lstat(filepath.Join(d, "a"))
	must(t, err)
	f := filler{tw: tar.NewWriter(io.Discard), lim: FillLimits{}.withDefaults()}
	err = f.copyFile("a", func() (*os.File, error) { return os.Open(filepath.Join(d, "b")) }, info)
	if !errors.Is(err, errReplaced) {
		t.Errorf("got %v, want %v", err, errReplaced)
	}
}

func TestFillWriteError(t *testing.T) {
	d := t.TempDir()
	write(t, filepath.Join(d, "f"), strings.Repeat("x", 1<<20))
	r, w := io.Pipe()
	gone := errors.New("the sandbox is gone")
	go func() {
		_, _ = io.CopyN(io.Discard, r, 10_000)
		r.CloseWithError(gone)
	}()
	if _, err := Fill(w, Source{Dir: d}, FillLimits{}); !errors.Is(err, gone) || !strings.Contains(err.Error(), `"f"`) {
		t.Errorf("got %v, want %v and the name of the file", err, gone)
	}
}

func TestManifestHash(t *testing.T) {
	hash := func(change func(dir string)) string {
		d := t.TempDir()
		write(t, filepath.Join(d, "a"), "a")
		write(t, filepath.Join(d, "sub", "b"), "b")
		must(t, os.Symlink("a", filepath.Join(d, "l")))
		if change != nil {
			change(d)
		}
		m, _ := fill(t, Source{Dir: d})
		return m.Hash()
	}
	base := hash(nil)
	if again := hash(nil); again != base {
		t.Errorf("the same files hash to %s and %s", base, again)
	}
	if touched := hash(func(d string) { must(t, os.Chtimes(d+"/a", someTime, someTime)) }); touched != base {
		t.Error("a time changes the hash")
	}
	seen := map[string]string{base: "nothing"}
	for name, change := range map[string]func(d string){
		"content":       func(d string) { must(t, os.Remove(d+"/a")); write(t, d+"/a", "A") },
		"permissions":   func(d string) { must(t, os.Chmod(d+"/a", 0o755)) },
		"name":          func(d string) { must(t, os.Rename(d+"/a", d+"/A")) },
		"new directory": func(d string) { must(t, os.Mkdir(d+"/new", 0o755)) },
		"target":        func(d string) { must(t, os.Remove(d+"/l")); must(t, os.Symlink("b", d+"/l")) },
		"type":          func(d string) { must(t, os.Remove(d+"/l")); write(t, d+"/l", "a") },
	} {
		got := hash(change)
		if other, ok := seen[got]; ok {
			t.Errorf("changing %s gives the same hash as changing %s", name, other)
		}
		seen[got] = name
	}
	if (Manifest{}).Hash() != (Manifest{Entries: map[string]Entry{}}).Hash() {
		t.Error("two empty workspaces hash differently")
	}
}

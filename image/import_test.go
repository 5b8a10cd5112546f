//go:build unix

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// header reads one line of an archive: "dir/", "link -> target", "hard => target", or "name=content".
func header(line string) (*tar.Header, string) {
	h := &tar.Header{Mode: 0o644, ModTime: time.Unix(1_000_000_000, 0)}
	if name, target, ok := strings.Cut(line, " -> "); ok {
		h.Typeflag, h.Name, h.Linkname, h.Mode = tar.TypeSymlink, name, target, 0o777
		return h, ""
	}
	if name, target, ok := strings.Cut(line, " => "); ok {
		h.Typeflag, h.Name, h.Linkname = tar.TypeLink, name, target
		return h, ""
	}
	name, content, _ := strings.Cut(line, "=")
	h.Name = name
	if strings.HasSuffix(name, "/") {
		h.Typeflag, h.Mode = tar.TypeDir, 0o755
		return h, ""
	}
	h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
	return h, content
}

func archive(t testing.TB, lines ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, line := range lines {
		h, content := header(line)
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func special(t testing.TB, h tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func writeTemp(t testing.TB, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// importBytes imports data and checks that a failure leaves no temporary file.
func importBytes(t testing.TB, data []byte, config ImportConfig) (*Tree, Meta, error) {
	t.Helper()
	return importPath(t, writeTemp(t, data), config)
}

func importPath(t testing.TB, name string, config ImportConfig) (*Tree, Meta, error) {
	t.Helper()
	config.Tree.SpoolDir = t.TempDir()
	tree, meta, err := Import(t.Context(), name, config)
	if left, _ := os.ReadDir(config.Tree.SpoolDir); len(left) > 0 {
		t.Errorf("left in the spool directory: %v", left)
	}
	if err == nil {
		t.Cleanup(func() { _ = tree.Close() })
	}
	return tree, meta, err
}

var standard = []string{"/dev", "/dev/shm", "/etc", "/proc", "/sys", "/tmp", "/workspace"}

// contents is the listing without the root and the standard mount points.
func contents(t testing.TB, tree *Tree) []string {
	return slices.DeleteFunc(listing(t, tree), func(line string) bool {
		_, name, _ := strings.Cut(line, " ")
		return name == "/" || slices.Contains(standard, name)
	})
}

func TestImportTar(t *testing.T) {
	lines := []string{
		"./", "./usr/", "usr/bin/sh=shell", "./bin -> usr/bin", "bin/ls=list", "usr/bin/dir => ./bin/ls",
		"usr/lib/deep/er/file=x", "etc/hosts=127.0.0.1", "late/name=first", "late/name=second",
		"became/a/file=x", "became=file", "turned -> nowhere", "turned/", ".wh.kept=no whiteout here",
	}
	want := []string{
		`-rw-r--r-- /.wh.kept = "no whiteout here"`,
		`-rw-r--r-- /became = "file"`,
		`Lrwxrwxrwx /bin -> usr/bin`,
		`-rw-r--r-- /etc/hosts = "127.0.0.1"`,
		`drwxr-xr-x /late`,
		`-rw-r--r-- /late/name = "second"`,
		`drwxr-xr-x /turned`,
		`drwxr-xr-x /usr`,
		`drwxr-xr-x /usr/bin`,
		`-rw-r--r-- /usr/bin/dir = "list" (2 links)`,
		`-rw-r--r-- /usr/bin/ls = "list" (2 links)`,
		`-rw-r--r-- /usr/bin/sh = "shell"`,
		`drwxr-xr-x /usr/lib`,
		`drwxr-xr-x /usr/lib/deep`,
		`drwxr-xr-x /usr/lib/deep/er`,
		`-rw-r--r-- /usr/lib/deep/er/file = "x"`,
	}
	plain := archive(t, lines...)
	var gz, zst bytes.Buffer
	gw := gzip.NewWriter(&gz)
	zw, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{gw, zw} {
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string][]byte{"plain": plain, "gzip": gz.Bytes(), "zstd": zst.Bytes()} {
		t.Run(name, func(t *testing.T) {
			last := int64(0)
			tree, meta, err := importBytes(t, data, ImportConfig{Progress: func(done, total int64, _ string) {
				if done < last || total != int64(len(data)) {
					t.Errorf("progress %d of %d after %d", done, total, last)
				}
				last = done
			}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, contents(t, tree)); diff != "" {
				t.Error(diff)
			}
			if last != int64(len(data)) {
				t.Errorf("progress ended at %d of %d", last, len(data))
			}
			if meta.Source != "import archive" {
				t.Errorf("source is %q", meta.Source)
			}
			for _, name := range standard {
				if e, ok := tree.Lookup(name); !ok || !e.Mode.IsDir() {
					t.Errorf("no directory %s", name)
				}
			}
		})
	}
}

func TestImportRefuses(t *testing.T) {
	truncate := func(data []byte, at int) []byte { return data[:at] }
	good := archive(t, "usr/a=content of a", "usr/b=content of b")
	zeros := archive(t, "zeros="+strings.Repeat("\x00", 1024))
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := w.Write(good); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	badSum := bytes.Clone(gz.Bytes())
	badSum[len(badSum)-5]++ // in the size, the very last field

	for _, test := range []struct {
		name  string
		data  []byte
		entry string // empty: any error
		want  error
	}{
		{"zip slip", archive(t, "ok=1", "../evil=x"), "../evil", ErrEscapes},
		{"zip slip inside", archive(t, "a/../../evil=x"), "a/../../evil", ErrEscapes},
		{"dots at the end", archive(t, "a/../"), "a/../", ErrEscapes},
		{"absolute name", archive(t, "/etc/passwd=x"), "/etc/passwd", ErrEscapes},
		{"hard link out", archive(t, "h => ../../etc/passwd"), "h", ErrEscapes},
		{"absolute hard link", archive(t, "h => /etc/passwd"), "h", ErrEscapes},
		{"hard link to nothing", archive(t, "h => none"), "h", fs.ErrNotExist},
		{"hard link to a directory", archive(t, "d/", "h => d"), "h", ErrIsDirectory},
		{"doubled slash", archive(t, "a//b=x"), "a//b", ErrName},
		{"dot inside", archive(t, "a/./b=x"), "a/./b", ErrName},
		{"long component", archive(t, strings.Repeat("n", 256)+"=x"), strings.Repeat("n", 256), ErrName},
		{"NUL in a name", longNameWithNUL(t), "", tar.ErrHeader}, // refused by package tar itself
		{"links in a circle", archive(t, "a -> b", "b -> a", "a/x=1"), "a/x", ErrLoop},
		{"file as a parent", archive(t, "f=1", "f/x=2"), "f/x", ErrNotDirectory},
		{"root as a file", archive(t, ".=x"), ".", ErrNotDirectory},
		{"empty link", special(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "l"}), "l", fs.ErrInvalid},
		{"character device", special(t, tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Devmajor: 1, Devminor: 3}), "dev/null", ErrSpecial},
		{"block device", special(t, tar.Header{Typeflag: tar.TypeBlock, Name: "dev/sda", Devmajor: 8}), "dev/sda", ErrSpecial},
		{"fifo", special(t, tar.Header{Typeflag: tar.TypeFifo, Name: "run/fifo"}), "run/fifo", ErrSpecial},
		{"setuid", special(t, tar.Header{Typeflag: tar.TypeReg, Name: "bin/su", Mode: 0o4755}), "bin/su", ErrSetuid},
		{"setgid", special(t, tar.Header{Typeflag: tar.TypeReg, Name: "bin/wall", Mode: 0o2755}), "bin/wall", ErrSetuid},
		{"capabilities", special(t, tar.Header{
			Typeflag: tar.TypeReg, Name: "bin/ping", Mode: 0o755,
			PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "\x01"},
		}), "bin/ping", ErrSetuid},
		{"unknown type", special(t, tar.Header{Typeflag: 'Q', Name: "odd"}), "odd", nil},
		{"cut in content", truncate(good, 512+5), "usr/a", ErrTruncated},
		{"cut in a header", truncate(good, 1024+100), "usr/a", ErrTruncated},
		{"cut between entries", truncate(good, 1024), "usr/a", ErrTruncated},
		{"cut before the end marker", truncate(good, 2048), "usr/b", ErrTruncated},
		{"cut behind zeros", truncate(zeros, 1536), "zeros", ErrTruncated},
		{"empty file", nil, "", ErrTruncated},
		{"cut compressed stream", truncate(gz.Bytes(), gz.Len()-20), "", ErrTruncated},
		{"wrong checksum at the end", badSum, "", gzip.ErrChecksum},
		{"xz", append([]byte("\xfd7zXZ\x00"), good...), "", errors.ErrUnsupported},
		{"no archive", []byte(strings.Repeat("no archive ", 100)), "", tar.ErrHeader},
		{"damaged header", func() []byte { d := bytes.Clone(good); d[1024+3]++; return d }(), "", tar.ErrHeader},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree, _, err := importBytes(t, test.data, ImportConfig{Kind: KindTar})
			if err == nil {
				t.Fatalf("imported:\n%s", strings.Join(contents(t, tree), "\n"))
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
			var refused *RefusedError
			if test.entry != "" && (!errors.As(err, &refused) || refused.Entry != test.entry) {
				t.Errorf("error %v does not name %q", err, test.entry)
			}
		})
	}
}

// longNameWithNUL is an archive whose PAX record gives a name that contains a NUL.
func longNameWithNUL(t testing.TB) []byte {
	t.Helper()
	const record = "12 path=a\x00b\n" // 12 bytes, its length included
	var out bytes.Buffer
	h := make([]byte, 512)
	copy(h, "pax")
	copy(h[100:], "0000644\x000000000\x000000000\x00")
	copy(h[124:], "00000000014\x0000000000000\x00")
	h[156] = 'x'
	copy(h[257:], "ustar\x0000")
	checksum(h)
	out.Write(h)
	out.Write(append([]byte(record), make([]byte, 512-len(record))...))
	out.Write(archive(t, "short=x"))
	return out.Bytes()
}

func checksum(h []byte) {
	copy(h[148:], "        ")
	sum := 0
	for _, b := range h[:512] {
		sum += int(b)
	}
	copy(h[148:], []byte{byte('0' + sum>>15&7), byte('0' + sum>>12&7), byte('0' + sum>>9&7), byte('0' + sum>>6&7), byte('0' + sum>>3&7), byte('0' + sum&7), 0, ' '})
}

func TestImportNeverLeavesTheTree(t *testing.T) {
	outside := t.TempDir()
	data := archive(t, "out -> "+outside, "out/planted=x", "up -> ../../../../../../../..", "up/planted2=x")
	tree, _, err := importBytes(t, data, ImportConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Fatalf("planted outside: %v", left)
	}
	if _, ok := tree.Lookup(outside + "/planted"); !ok {
		t.Errorf("not inside either:\n%s", strings.Join(contents(t, tree), "\n"))
	}
	if _, ok := tree.Lookup("/planted2"); !ok {
		t.Error("a link above the root does not lead to the root")
	}
}

func TestImportLimits(t *testing.T) {
	many := make([]string, 20)
	for i := range many {
		many[i] = string(rune('a'+i)) + "=x"
	}
	_, _, err := importBytes(t, archive(t, many...), ImportConfig{Tree: TreeConfig{MaxEntries: 10}})
	var refused *RefusedError
	if !errors.Is(err, ErrTooLarge) || !errors.As(err, &refused) || refused.Entry != "k" {
		t.Errorf("too many entries: %v", err)
	}
	_, _, err = importBytes(t, archive(t, "a=12345", "b=123456"), ImportConfig{Tree: TreeConfig{MaxBytes: 10}})
	if !errors.Is(err, ErrTooLarge) || !errors.As(err, &refused) || refused.Entry != "b" {
		t.Errorf("too many bytes: %v", err)
	}

	// A header that promises 1 TiB is refused before a byte is read, and one that promises more than there is, too.
	huge := special(t, tar.Header{Typeflag: tar.TypeReg, Name: "empty"})
	copy(huge[124:], "\x80\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00")
	checksum(huge)
	_, _, err = importBytes(t, huge, ImportConfig{Kind: KindTar})
	if !errors.Is(err, ErrTooLarge) || !errors.As(err, &refused) || refused.Entry != "empty" {
		t.Errorf("1 TiB: %v", err)
	}

	// A few hundred KiB that unpack to padding without end, and to headers of one directory without end.
	padding := compressed(t, make([]byte, drainMax+2<<20))
	header := archive(t, "d/")[:512]
	headers := compressed(t, bytes.Repeat(header, (drainMax+2<<20)/len(header)))
	for name, bomb := range map[string][]byte{"padding": padding, "headers": headers} {
		_, _, err = importBytes(t, bomb, ImportConfig{Kind: KindTar, Tree: TreeConfig{MaxBytes: 1 << 20, MaxEntries: 10}})
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestImportDropsWhenAllowed(t *testing.T) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "bin/su", Mode: 0o4755},
		{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666},
		{Typeflag: tar.TypeDir, Name: "var/mail/", Mode: 0o2775}, // harmless on a directory
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tree, meta, err := importBytes(t, out.Bytes(), ImportConfig{DropSetuid: true, DropSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`drwxr-xr-x /bin`, `-rwxr-xr-x /bin/su = ""`, `drwxr-xr-x /var`, `drwxrwxr-x /var/mail`}
	if diff := cmp.Diff(want, contents(t, tree)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"setuid /bin/su", "special /dev/null"}, meta.Dropped); diff != "" {
		t.Error(diff)
	}
}

func TestImportEndsWithItsContext(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, _, err := Import(ctx, writeTemp(t, archive(t, "a=b")), ImportConfig{}); !errors.Is(err, cause) {
		t.Errorf("tar: %v", err)
	}
	if _, _, err := Import(ctx, t.TempDir(), ImportConfig{}); !errors.Is(err, cause) {
		t.Errorf("directory: %v", err)
	}
	var refused *RefusedError
	if _, _, err := Import(ctx, "/dev/null/none", ImportConfig{}); err == nil || errors.As(err, &refused) {
		t.Errorf("no such file: %v", err)
	}
}

func TestImportDirectory(t *testing.T) {
	dir := t.TempDir()
	secret := writeTemp(t, []byte("secret"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "usr/bin/tool"), []byte("tool"), 0o755))
	must(os.Symlink("usr/bin", filepath.Join(dir, "bin")))
	must(os.Symlink(secret, filepath.Join(dir, "leak")))
	must(os.WriteFile(filepath.Join(dir, "\xff"), []byte("not UTF-8"), 0o600))
	must(os.Symlink("/run/shm", filepath.Join(dir, "tmp")))

	tree, meta, err := importPath(t, dir, ImportConfig{})
	must(err)
	want := []string{
		`Lrwxrwxrwx /bin -> usr/bin`,
		`Lrwxrwxrwx /leak -> ` + secret,
		`drwxr-xr-x /usr`,
		`drwxr-xr-x /usr/bin`,
		`-rwxr-xr-x /usr/bin/tool = "tool"`,
		"-rw------- /\xff = \"not UTF-8\"",
	}
	if diff := cmp.Diff(want, contents(t, tree)); diff != "" {
		t.Error(diff)
	}
	if got := "import " + filepath.Base(dir); meta.Source != got {
		t.Errorf("source is %q, want %q", meta.Source, got)
	}

	must(syscall.Mkfifo(filepath.Join(dir, "usr/fifo"), 0o600)) // would block a careless reader for ever
	var refused *RefusedError
	if _, _, err := importPath(t, dir, ImportConfig{}); !errors.Is(err, ErrSpecial) || !errors.As(err, &refused) || refused.Entry != "usr/fifo" {
		t.Errorf("fifo: %v", err)
	}
	for _, bit := range []fs.FileMode{fs.ModeSetuid, fs.ModeSetgid} {
		must(os.Chmod(filepath.Join(dir, "usr/bin/tool"), 0o755|bit))
		if _, _, err := importPath(t, dir, ImportConfig{DropSpecial: true}); !errors.Is(err, ErrSetuid) || !errors.As(err, &refused) || refused.Entry != "usr/bin/tool" {
			t.Errorf("%v: %v", bit, err)
		}
	}
	_, meta, err = importPath(t, dir, ImportConfig{DropSpecial: true, DropSetuid: true})
	must(err)
	if diff := cmp.Diff([]string{"setuid /usr/bin/tool", "special /usr/fifo"}, meta.Dropped); diff != "" {
		t.Error(diff)
	}
}

func TestEnsureMountpointsRefusesAFile(t *testing.T) {
	tree := newTree(t)
	addFile(t, tree, "/proc", "x")
	if err := EnsureMountpoints(tree); !errors.Is(err, ErrNotDirectory) {
		t.Errorf("error is %v", err)
	}
}

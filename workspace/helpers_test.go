package workspace

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// entry is a tar entry with its content.
type entry struct {
	tar.Header
	data string
}

// file, link and the like make entries as a driver would send them.
func file(name, data string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644}, data}
}

func executable(name, data string) entry {
	e := file(name, data)
	e.Mode = 0o755
	return e
}

func dir(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, ""}
}

func special(typ byte, name, target string) entry {
	return entry{tar.Header{Typeflag: typ, Name: name, Linkname: target, Mode: 0o644}, ""}
}

func records(e entry, keysAndValues ...string) entry {
	e.PAXRecords = map[string]string{}
	for i := 0; i < len(keysAndValues); i += 2 {
		e.PAXRecords[keysAndValues[i]] = keysAndValues[i+1]
	}
	return e
}

// pack writes entries as a whole tar stream.
func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	return packWith(t.Fatal, entries)
}

func packWith(fatal func(args ...any), entries []entry) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		e.Format = tar.FormatPAX
		if err := w.WriteHeader(&e.Header); err != nil {
			fatal(e.Name, err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			fatal(e.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		fatal(err)
	}
	return buf.Bytes()
}

// unpack reads a whole tar stream.
func unpack(t testing.TB, stream []byte) []entry {
	t.Helper()
	return unpackWith(t.Fatal, stream)
}

func unpackWith(fatal func(args ...any), stream []byte) []entry {
	var entries []entry
	r := tar.NewReader(bytes.NewReader(stream))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			fatal(err)
		}
		h.PAXRecords = nil // standard ones, which the header's fields hold too
		entries = append(entries, entry{*h, string(data)})
	}
}

// fill runs Fill, which must succeed.
func fill(t testing.TB, src Source) (Manifest, []byte) {
	t.Helper()
	var buf bytes.Buffer
	m, err := Fill(&buf, src, FillLimits{})
	if err != nil {
		t.Fatal(err)
	}
	return m, buf.Bytes()
}

// collect runs Collect, which must succeed.
func collect(t testing.TB, stream []byte, before Manifest, cfg CollectConfig) Collected {
	t.Helper()
	got, err := Collect(bytes.NewReader(stream), before, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// paths of what was collected, each with its type unless it is a file, and an exclamation mark if it was not kept.
func paths(got Collected) string {
	var list []string
	for _, a := range got.Artifacts {
		s := a.Path
		if a.Type != TypeFile {
			s += "(" + string(a.Type) + ")"
		}
		if a.Omitted != "" {
			s += "!"
		}
		list = append(list, s)
	}
	return strings.Join(list, " ")
}

func write(t testing.TB, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(data)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hexSum(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

var someTime = time.Date(2024, 2, 29, 12, 30, 15, 123456789, time.UTC)

// deepRoot makes a chain of directories below dir and returns the last one. Paths are longer than PATH_MAX, so each
// step goes through the directory before.
func deepRoot(t testing.TB, dir string, names []string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	for _, name := range names {
		must(t, root.Mkdir(name, 0o755))
		next, err := root.OpenRoot(name)
		must(t, err)
		must(t, root.Close())
		root = next
	}
	return root
}

// removeDeep removes a chain that os.RemoveAll would need a descriptor per level for: it moves each level's
// directories up to the top.
func removeDeep(t testing.TB, dir string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	for {
		top, err := os.ReadDir(dir)
		must(t, err)
		if len(top) == 0 {
			return
		}
		for _, e := range top {
			name := e.Name()
			if !e.IsDir() {
				must(t, root.Remove(name))
				continue
			}
			below, err := os.ReadDir(filepath.Join(dir, name))
			must(t, err)
			for i, b := range below {
				temp := "up-" + hexSum(name + string(rune(i)) + b.Name())[:20]
				must(t, root.Rename(name+"/"+b.Name(), temp))
			}
			must(t, root.Remove(name))
		}
	}
}

package recipe

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDebData(t *testing.T) {
	data := tarOf(t, entry{name: "./usr/bin/x", data: "hello"})
	xz, err := os.ReadFile(filepath.Join("testdata", "hello.tar.xz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		deb  []byte
		want string // part of the error
	}{
		{"plain", debOf("", data), ""},
		{"gzip", debOf(".gz", gzipped(t, data)), ""},
		{"zstd", debOf(".zst", zstded(t, data)), ""},
		{"xz", debOf(".xz", xz), ""},
		{"lzma", debOf(".lzma", data), "not supported"},
		{"not an archive", []byte("<html>"), "not an ar archive"},
		{"cut before the data", debOf(".gz", nil)[:100], "read ar member"},
		{"no data", bytes.Replace(debOf("", nil), []byte("data.tar"), []byte("else.tar"), 1), "no data member"},
		{"another format", bytes.Replace(debOf("", data), []byte("2.0\n"), []byte("3.0\n"), 1), "package format"},
		{"a size beyond the end", bytes.Replace(debOf("", data), []byte("4         `"), []byte("4000000   `"), 1), "impossible size"},
		{"a negative size", bytes.Replace(debOf("", data), []byte("4         `"), []byte("-4        `"), 1), "impossible size"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := ""
			r, err := debData(bytes.NewReader(tt.deb), int64(len(tt.deb)))
			if err == nil {
				err = eachEntry(r, func(_ *tar.Header, r io.Reader) error {
					all, err := io.ReadAll(r)
					text += string(all)
					return err
				})
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
			switch {
			case tt.want == "" && (err != nil || text != "hello"):
				t.Errorf("content = %q, %v, want hello", text, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func FuzzDebData(f *testing.F) {
	f.Add(debOf("", []byte("x")))
	f.Add(debOf(".gz", []byte("x")))
	f.Add(debOf(".zst", []byte("x")))
	f.Fuzz(func(t *testing.T, deb []byte) {
		r, err := debData(bytes.NewReader(deb), int64(len(deb)))
		if err != nil {
			return
		}
		defer r.Close()
		_ = eachEntry(r, func(_ *tar.Header, r io.Reader) error {
			_, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
			return err
		})
	})
}

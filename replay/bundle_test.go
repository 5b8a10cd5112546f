package replay

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"database/sql"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// exported is the bundle of a run that left an artifact with a name that is no text, and the keys that check it.
func exported(t *testing.T) (text []byte, keys []record.PublicKey) {
	t.Helper()
	return exportedOf(t, nil)
}

// exportedOf is the same of another run.
func exportedOf(t *testing.T, change func(*policy.Request, *Run)) (text []byte, keys []record.PublicKey) {
	t.Helper()
	ring, err := record.OpenKeyring(t.Context(), filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := storetest.Open(t.Context(), filepath.Join(t.TempDir(), store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k, q := kept(t, change)
	if q.Stdin.Present {
		k.Stdin = []byte("in")
	}
	r := k.Record
	r.Run = "01RUN"
	r.Stdout, r.Stderr = record.Channel{Bytes: 3, Kept: 3, SHA256: sum("out")}, record.Channel{SHA256: sum("")}
	r.Artifacts = []record.Artifact{{Path: "a.txt", Type: "file", Size: 1, SHA256: sum("a")}, {Path: "\ufffd", PathB64: "/w==", Type: "file", Size: 1, SHA256: sum("b")}}
	sealed, err := record.Seal(record.Entry{Record: r}, ring)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), func(tx *sql.Tx) error { return record.Finish(t.Context(), tx, sealed) }); err != nil {
		t.Fatal(err)
	}
	envelope, err := record.Envelope(t.Context(), db, r.Run)
	if err != nil {
		t.Fatal(err)
	}
	k.Record = r
	b := Bundle{
		Envelope: envelope, Kept: k, Stdout: []byte("out"), Stderr: []byte{}, Artifacts: map[string][]byte{"a.txt": []byte("a"), "\xff": []byte("b")},
		Image: []byte(`{"digest":"` + r.Image + `","packages":[{"name":"dash","version":"1"}]}`),
	}
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := b.Write(&again); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Errorf("it is written in another way each time: %v", err)
	}
	return out.Bytes(), []record.PublicKey{ring.Public()}
}

func TestBundle(t *testing.T) {
	text, keys := exported(t)
	b, err := ReadBundle(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	v, c, err := b.Verify(keys)
	if err != nil || v.Record.Run != "01RUN" {
		t.Fatalf("%v, record of %s", err, v.Record.Run)
	}
	want := Check{Checked: []string{`artifact "\xff"`, `artifact a.txt`, "digest and packages of the image", "request", "stderr", "stdout", "workspace"}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	if _, err := b.Kept.Read(); err != nil {
		t.Error(err)
	}
	if !IsBundle(text) || IsBundle([]byte("{")) || IsBundle(nil) {
		t.Error("it is not known when it is seen")
	}
}

// parts takes a bundle apart, and puts it together again with one of them changed.
func parts(t *testing.T, text []byte, change func(name string, data []byte) []byte) (names []string, _ []byte) {
	t.Helper()
	unzip, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	in, to := tar.NewReader(unzip), tar.NewWriter(zip)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		data = change(h.Name, data)
		h.Size = int64(len(data))
		if err := to.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return names, out.Bytes()
}

// TestVerifyNamesWhatWasChanged changes one byte of each part in turn: verification says which.
func TestVerifyNamesWhatWasChanged(t *testing.T) {
	text, keys := exported(t)
	names, _ := parts(t, text, func(_ string, data []byte) []byte { return data })
	if len(names) != 8 {
		t.Errorf("parts %v", names)
	}
	said := map[string]string{
		"record.json": "", "request.json": "request was changed", "workspace.tar": "workspace was changed", "stdout.bin": "stdout was changed", "image.json": "digest and packages of the image were changed",
		"artifacts/a.txt": `artifact a.txt was changed`, "artifacts;base64//w==": `artifact "\xff" was changed`,
	}
	for _, name := range names {
		want, ok := said[name]
		if !ok {
			continue // it is empty
		}
		_, changed := parts(t, text, func(is string, data []byte) []byte {
			if is == name {
				data[len(data)/2] ^= 1
			}
			return data
		})
		b, err := ReadBundle(bytes.NewReader(changed))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, c, err := b.Verify(keys)
		faults := c.Faults
		switch {
		case name == "record.json":
			if err == nil {
				t.Error("a record that was changed is verified")
			}
		case err != nil || len(faults) != 1 || !strings.HasPrefix(faults[0], want):
			t.Errorf("%s: %v %q, want %q", name, err, faults, want)
		}
	}
}

// TestVerifyIsNotFooled: what is put into a bundle, or taken out of it, shows, whatever else is not there to hold it against.
func TestVerifyIsNotFooled(t *testing.T) {
	for name, test := range map[string]struct {
		run    func(*policy.Request, *Run)
		change func(*Bundle)
		want   Check // besides what is checked
	}{
		"an input of a run that had none": {change: func(b *Bundle) { b.Kept.Stdin = []byte("x") }, want: Check{Faults: []string{"stdin was put there: the run had none that was kept"}}},
		"another workspace of a run that cannot be replayed": {
			run: func(r *policy.Request, _ *Run) {
				r.Mounts = []policy.Mount{{Source: "/store/x", Target: "/workspace/x"}}
			},
			change: func(b *Bundle) { b.Kept.Workspace = []byte("another") },
			want:   Check{Faults: []string{"workspace was changed: its SHA-256 is " + hashOf([]byte("another")) + ", in the record it is " + hashOf(tarA)}},
		},
		"another input, and no workspace": {
			run: func(r *policy.Request, run *Run) {
				r.HasStdin, run.Stdin = true, Part{Present: true, SHA256: sum("in"), Bytes: 2}
			},
			change: func(b *Bundle) { b.Kept.Workspace, b.Kept.Stdin = nil, []byte("IN") },
			want: Check{
				Missing: []string{"workspace"}, Faults: []string{"stdin was changed: its SHA-256 is " + sum("IN") + ", in the record it is " + sum("in")},
			},
		},
		"no request": {
			change: func(b *Bundle) { b.Kept.Request = nil },
			want:   Check{Missing: []string{"request"}, Unchecked: []string{"workspace: the request that names it is missing or another"}},
		},
		"nothing but the record": {
			change: func(b *Bundle) { *b = Bundle{Envelope: b.Envelope} },
			want:   Check{Missing: []string{`artifact "\xff"`, `artifact a.txt`, "digest and packages of the image", "request", "stdout"}},
		},
		"an artifact that there was not": {
			change: func(b *Bundle) { b.Artifacts["b.txt"] = nil }, want: Check{Faults: []string{`artifact b.txt is not one of the record's`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, keys := exportedOf(t, test.run)
			b, err := ReadBundle(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			test.change(&b)
			_, c, err := b.Verify(keys)
			if err != nil {
				t.Fatal(err)
			}
			c.Checked = nil
			if diff := cmp.Diff(test.want, c); diff != "" {
				t.Error(diff)
			}
		})
	}
	var c Check
	c.output("stdout", []byte("evil"), record.Channel{Bytes: 9, Kept: 4, Truncated: true, SHA256: sum("not evil!")})
	if len(c.Checked) > 0 || len(c.Unchecked) != 1 {
		t.Errorf("the beginning of an output: %+v", c)
	}
}

// TestReadBundleReadsAll: what is not read is not checked, and what is read is bounded.
func TestReadBundleReadsAll(t *testing.T) {
	text, _ := exported(t)
	archive := func(names ...string) []byte {
		var b bytes.Buffer
		zip := gzip.NewWriter(&b)
		out := tar.NewWriter(zip)
		for _, name := range names {
			if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1, Format: tar.FormatPAX}); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(out.Close(), zip.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	var after bytes.Buffer
	zip := gzip.NewWriter(&after)
	unzip, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(zip, unzip); err != nil {
		t.Fatal(err)
	}
	if _, err := zip.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text []byte
		want string
	}{
		"a second archive":          {append(bytes.Clone(text), text...), "something comes after its end"},
		"bytes behind":              {append(bytes.Clone(text), 'x'), "something comes after its end"},
		"bytes within":              {after.Bytes(), "something comes after its end"},
		"a name without an end":     {archive("record.json", "artifacts/"+strings.Repeat("a", 9000)), "a name has 9010 bytes"},
		"two names of one artifact": {archive("record.json", "artifacts/a.txt", "artifacts;base64/YS50eHQ="), "has a name of its own"},
	} {
		if _, err := ReadBundle(bytes.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestReadBundleRefuses(t *testing.T) {
	archive := func(headers ...tar.Header) []byte {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		w := tar.NewWriter(zip)
		for _, h := range headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		_ = zip.Close() // a size that is not there keeps w from closing
		return out.Bytes()
	}
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size}
	}
	for name, test := range map[string]struct {
		text []byte
		want string
	}{
		"no archive":   {[]byte("nothing"), "read a bundle"},
		"nothing":      {archive(), "it has no record"},
		"another part": {archive(file("passwd", 0)), `"passwd" is no part of a bundle`},
		"a link":       {archive(tar.Header{Typeflag: tar.TypeSymlink, Name: "stdin.bin", Linkname: "/etc/passwd"}), "is no file"},
		"twice":        {archive(file("stdin.bin", 0), file("stdin.bin", 0)), "is there twice"},
		"a large part": {archive(file("stdin.bin", 1<<30)), "more than a bundle may have"},
	} {
		if _, err := ReadBundle(bytes.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

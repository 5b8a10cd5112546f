package replay

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/record"
)

// Names of a bundle's parts, in their order. Artifacts lie below artifactsDir, as the statement about the record names them.
const (
	partRecord    = "record.json" // the signed record
	partRequest   = "request.json"
	partWorkspace = "workspace.tar"
	partStdin     = "stdin.bin"
	partStdout    = "stdout.bin"
	partStderr    = "stderr.bin"
	partImage     = "image.json" // what the image is made of
	artifactsDir  = "artifacts/"
	artifactsB64  = "artifacts;base64/"
)

// Bounds of a bundle that is read: it comes from others.
const (
	maxParts      = 20_000
	maxPartBytes  = 256 << 20
	maxTotalBytes = 1 << 30
)

// Bundle is a run in one file: a gzipped tar archive. Equal runs make equal bytes.
type Bundle struct {
	Envelope []byte // the signed record
	Kept     Kept   // without its record, until it is verified
	Image    []byte // image.Meta, JSON
	Stdout   []byte // as far as it was kept
	Stderr   []byte

	Artifacts map[string][]byte // by their paths, which are any bytes
}

// Write writes b. Artifacts are written in the order of the record in b.Kept.
func (b Bundle) Write(w io.Writer) error {
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	put := func(name string, data []byte) error {
		if data == nil {
			return nil
		}
		err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX})
		if err == nil {
			_, err = out.Write(data)
		}
		return err
	}
	var errs []error
	for _, p := range []struct {
		name string
		data []byte
	}{
		{partRecord, b.Envelope},
		{partRequest, b.Kept.Request},
		{partWorkspace, b.Kept.Workspace},
		{partStdin, b.Kept.Stdin},
		{partStdout, b.Stdout},
		{partStderr, b.Stderr},
		{partImage, b.Image},
	} {
		errs = append(errs, put(p.name, p.data))
	}
	for _, a := range b.Kept.Record.Artifacts {
		name, part := pathOf(a), artifactsDir+a.Path
		if a.PathB64 != "" {
			part = artifactsB64 + a.PathB64
		}
		errs = append(errs, put(part, b.Artifacts[name]))
	}
	if err := errors.Join(append(errs, out.Close(), zip.Close())...); err != nil {
		return fmt.Errorf("write a bundle: %w", err)
	}
	return nil
}

// pathOf is the path of an artifact, which may be any bytes.
func pathOf(a record.Artifact) string {
	if raw, err := base64.StdEncoding.DecodeString(a.PathB64); err == nil && a.PathB64 != "" {
		return string(raw)
	}
	return a.Path
}

// IsBundle says whether a file that begins with head may be a bundle: two bytes are enough.
func IsBundle(head []byte) bool { return len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b }

// ReadBundle reads a bundle as far as its form goes: nothing in it is verified. Parts that it does not know are errors.
func ReadBundle(r io.Reader) (b Bundle, err error) {
	fail := func(err error) (Bundle, error) { return Bundle{}, fmt.Errorf("read a bundle: %w", err) }
	zip, err := gzip.NewReader(r)
	if err != nil {
		return fail(err)
	}
	b.Artifacts = map[string][]byte{}
	in, total := tar.NewReader(zip), int64(0)
	seen := map[string]bool{}
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fail(err)
		}
		total += h.Size
		switch {
		case h.Typeflag != tar.TypeReg || seen[h.Name]:
			return fail(fmt.Errorf("%q is no file, or is there twice", h.Name))
		case h.Size > maxPartBytes || total > maxTotalBytes || len(seen) >= maxParts:
			return fail(fmt.Errorf("%q is more than a bundle may have: %d MiB in one part, %d in all, %d parts", h.Name, maxPartBytes>>20, maxTotalBytes>>20, maxParts))
		}
		seen[h.Name] = true
		data, err := io.ReadAll(in)
		if err != nil {
			return fail(err)
		}
		if err := b.take(h.Name, data); err != nil {
			return fail(err)
		}
	}
	if b.Envelope == nil {
		return fail(errors.New("it has no record"))
	}
	return b, nil
}

func (b *Bundle) take(name string, data []byte) error {
	parts := map[string]*[]byte{
		partRecord: &b.Envelope, partRequest: &b.Kept.Request, partWorkspace: &b.Kept.Workspace, partStdin: &b.Kept.Stdin,
		partStdout: &b.Stdout, partStderr: &b.Stderr, partImage: &b.Image,
	}
	if to := parts[name]; to != nil {
		*to = data
		return nil
	}
	if path, ok := strings.CutPrefix(name, artifactsDir); ok {
		b.Artifacts[path] = data
		return nil
	}
	if text, ok := strings.CutPrefix(name, artifactsB64); ok {
		raw, err := base64.StdEncoding.DecodeString(text)
		b.Artifacts[string(raw)] = data
		return err
	}
	return fmt.Errorf("%q is no part of a bundle", path.Clean(name))
}

// Verify holds all of b against its record, which one of the keys must have signed, and says what is another. faults is empty if
// nothing is; then the record is in b.Kept. An artifact, or output, that is not in the bundle is no fault. An error is one of
// [record.Verify].
func (b *Bundle) Verify(keys []record.PublicKey) (v record.Verified, faults []string, err error) {
	if v, err = record.Verify(b.Envelope, keys); err != nil {
		return v, nil, err
	}
	b.Kept.Record = v.Record
	check := func(what string, data []byte, want string) {
		if data == nil {
			return
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want {
			faults = append(faults, (&ChangedError{what, got, want}).Error())
		}
	}
	if r := v.Record.Replay; r != nil {
		_, err := b.Kept.Read()
		var changed *ChangedError
		if errors.As(err, &changed) {
			faults = append(faults, changed.Error())
		}
	} else if b.Kept.Request != nil {
		faults = append(faults, "there is a request, of which the record says nothing")
	}
	if !v.Record.Stdout.Truncated {
		check("stdout", b.Stdout, v.Record.Stdout.SHA256)
	}
	if !v.Record.Stderr.Truncated {
		check("stderr", b.Stderr, v.Record.Stderr.SHA256)
	}
	known := map[string]string{}
	for _, a := range v.Record.Artifacts {
		known[pathOf(a)] = a.SHA256
	}
	for path, data := range b.Artifacts {
		if sum, ok := known[path]; ok && sum != "" {
			check(fmt.Sprintf("artifact %q", path), data, sum)
		} else {
			faults = append(faults, fmt.Sprintf("artifact %q is not one of the record's", path))
		}
	}
	if b.Image != nil && !madeOf(b.Image, v.Record) {
		faults = append(faults, "what the image is made of was changed: it is not the image, or are not the tools, of the record")
	}
	slices.Sort(faults)
	return v, faults, nil
}

// madeOf says whether the description of an image is that of a record's.
func madeOf(text []byte, r record.Record) bool {
	var meta struct {
		Digest   string        `json:"digest"`
		Packages []record.Tool `json:"packages"`
	}
	return json.Unmarshal(text, &meta) == nil && meta.Digest == r.Image && slices.Equal(meta.Packages, r.Tools)
}

package replay

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
	maxNameBytes  = 8 << 10 // a path has 4 KiB at most, as base64 a third more
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
	buffered := bufio.NewReader(r)
	zip, err := gzip.NewReader(buffered)
	if err != nil {
		return fail(err)
	}
	zip.Multistream(false)
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
		total += h.Size + int64(len(h.Name))
		switch {
		case len(h.Name) > maxNameBytes:
			return fail(fmt.Errorf("a name has %d bytes, more than %d", len(h.Name), maxNameBytes))
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
	if err := ended(zip, buffered); err != nil {
		return fail(err)
	}
	return b, nil
}

// ended says whether nothing but the archive's padding is left: what nobody has read, nobody has checked.
func ended(zip *gzip.Reader, under *bufio.Reader) error {
	const most = 1 << 20 // tar pads to a record of 10 KiB
	rest, err := io.ReadAll(io.LimitReader(zip, most))
	if err != nil {
		return err
	}
	if _, err := under.ReadByte(); len(bytes.Trim(rest, "\x00")) > 0 || len(rest) == most || !errors.Is(err, io.EOF) {
		return errors.New("something comes after its end")
	}
	return nil
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
		raw, err := base64.StdEncoding.Strict().DecodeString(text)
		if _, twice := b.Artifacts[string(raw)]; err == nil && (twice || utf8.Valid(raw)) {
			err = fmt.Errorf("%q has a name of its own", name)
		}
		b.Artifacts[string(raw)] = data
		return err
	}
	return fmt.Errorf("%q is no part of a bundle", path.Clean(name))
}

// Check is what came of holding a bundle against its record.
type Check struct {
	Checked   []string // is as it was
	Missing   []string // is not in the bundle, which is no fault
	Unchecked []string // could be anything, and why
	Faults    []string // is another, or was put there
}

// Verify holds all of b against its record, which one of the keys must have signed; then the record is in b.Kept. An error is one of
// [record.Verify].
func (b *Bundle) Verify(keys []record.PublicKey) (v record.Verified, c Check, err error) {
	if v, err = record.Verify(b.Envelope, keys); err != nil {
		return v, c, err
	}
	b.Kept.Record = v.Record
	c.input(b.Kept)
	c.output("stdout", b.Stdout, v.Record.Stdout)
	c.output("stderr", b.Stderr, v.Record.Stderr)
	known := map[string]bool{}
	for _, a := range v.Record.Artifacts {
		path := pathOf(a)
		if data, ok := b.Artifacts[path]; a.SHA256 != "" {
			known[path] = true
			c.hold(nameOf(path), data, ok, a.SHA256)
		}
	}
	for path := range b.Artifacts {
		if !known[path] {
			c.Faults = append(c.Faults, nameOf(path)+" is not one of the record's")
		}
	}
	const what = "digest and packages of the image" // the rest of its description is for people
	switch {
	case b.Image == nil && v.Record.Image != "":
		c.Missing = append(c.Missing, what)
	case b.Image != nil && !madeOf(b.Image, v.Record):
		c.Faults = append(c.Faults, what+" were changed: they are not those of the record")
	case b.Image != nil:
		c.Checked = append(c.Checked, what)
	}
	for _, list := range [][]string{c.Checked, c.Missing, c.Unchecked, c.Faults} {
		slices.Sort(list)
	}
	return v, c, nil
}

// nameOf is what an artifact is called, whose path a program chose.
func nameOf(path string) string {
	if quoted := strconv.Quote(path); quoted != `"`+path+`"` {
		return "artifact " + quoted
	}
	return "artifact " + path
}

// hold holds one part against the hash that the record has of it.
func (c *Check) hold(what string, data []byte, there bool, want string) {
	switch {
	case !there:
		c.Missing = append(c.Missing, what)
	case hashOf(data) != want:
		c.Faults = append(c.Faults, (&ChangedError{what, hashOf(data), want}).Error())
	default:
		c.Checked = append(c.Checked, what)
	}
}

// output is hold for what a program has printed. Of what was longer than is kept, the record has the hash of all.
func (c *Check) output(what string, data []byte, is record.Channel) {
	switch {
	case is.Truncated && data != nil:
		c.Unchecked = append(c.Unchecked, what+": it is the beginning only, and the record has the hash of all")
	case data == nil && is.Bytes == 0:
	default:
		c.hold(what, data, data != nil, is.SHA256)
	}
}

// input is what a replay needs.
func (c *Check) input(k Kept) {
	replayed := k.Record.Replay
	if replayed == nil {
		for name, data := range map[string][]byte{"request": k.Request, "workspace": k.Workspace, "stdin": k.Stdin} {
			if data != nil {
				c.Faults = append(c.Faults, (&ChangedError{What: name}).Error())
			}
		}
		return
	}
	c.hold("request", k.Request, k.Request != nil, replayed.RequestSHA256)
	var r Request
	if hashOf(k.Request) != replayed.RequestSHA256 || json.Unmarshal(k.Request, &r) != nil {
		for name, data := range map[string][]byte{"workspace": k.Workspace, "stdin": k.Stdin} {
			if data != nil {
				c.Unchecked = append(c.Unchecked, name+": the request that names it is missing or another")
			}
		}
		return
	}
	changed, missing := k.against(r)
	c.Missing = append(c.Missing, missing...)
	other := map[string]bool{}
	for _, e := range changed {
		c.Faults, other[e.What] = append(c.Faults, e.Error()), true
	}
	for name, part := range k.parts(r) {
		if part.is.Present && part.text != nil && !other[name] {
			c.Checked = append(c.Checked, name)
		}
	}
}

// madeOf says whether the description of an image is that of a record's.
func madeOf(text []byte, r record.Record) bool {
	var meta struct {
		Digest   string        `json:"digest"`
		Packages []record.Tool `json:"packages"`
	}
	return json.Unmarshal(text, &meta) == nil && meta.Digest == r.Image && slices.Equal(meta.Packages, r.Tools)
}

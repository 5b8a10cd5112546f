package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// decompress returns r as it is, or what gzip (RFC 1952) or zstd (RFC 8878) packed into it, by its first bytes.
func decompress(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 256<<10)
	magic, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		unpacked, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		return unpacked, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// One goroutine-free decoder, whose window (level 19 --long=27 at most) bounds its memory.
		unpacked, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		return unpacked, nil
	case bytes.Equal(magic, []byte{0xfd, '7', 'z', 'X'}), bytes.HasPrefix(magic, []byte("BZh")):
		return nil, fmt.Errorf("compressed with xz or bzip2, unpack it first (gzip and zstd are read as they are): %w", errors.ErrUnsupported)
	}
	return buffered, nil
}

// fromFile imports a tar archive, after a first pass that finds out what is in it.
func (i *importer) fromFile(ctx context.Context, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("neither a directory nor a regular file: %w", fs.ErrInvalid)
	}
	kind := i.config.Kind
	if kind == KindAuto {
		if kind, err = i.detect(ctx, file); err != nil {
			return err
		}
	}
	if kind == KindTar {
		r, err := decompress(i.watched(file, info.Size(), "read "+filepath.Base(name)))
		if err != nil {
			return err
		}
		tree := layer{importer: i, dropSetuid: i.config.DropSetuid}
		return tree.apply(ctx, i.bounded(r))
	}
	plain, err := i.plain(ctx, file, info.Size())
	if err != nil {
		return err
	}
	defer plain.Close() // possibly file, whose second close does no harm
	blobs, err := indexTar(ctx, plain)
	if err != nil {
		return err
	}
	switch kind {
	case KindOCI:
		return i.fromLayout(ctx, blobs)
	case KindDockerArchive:
		return i.fromDockerArchive(ctx, blobs)
	default:
		return fmt.Errorf("a file cannot be imported as %q", kind)
	}
}

// detect looks at the names in an archive and rewinds it.
func (i *importer) detect(ctx context.Context, file *os.File) (Kind, error) {
	r, err := decompress(file)
	if err != nil {
		return "", err
	}
	archive := tar.NewReader(&archiveReader{ctx: ctx, r: i.bounded(r)})
	kind := KindTar
	last := ""
	for {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", truncated(last, err)
		}
		last = header.Name
		name := strings.TrimPrefix(header.Name, "./")
		if top, _, _ := strings.Cut(name, "/"); top == "usr" || top == "bin" || top == "etc" { // a root filesystem
			kind = KindTar
			break
		}
		switch {
		case name == "oci-layout":
			kind = KindOCI
		case name == "manifest.json" && kind == KindTar:
			kind = KindDockerArchive
		}
	}
	_, err = file.Seek(0, io.SeekStart)
	return kind, err
}

// bounded ends a decompressed stream that is larger than any archive of an allowed tree: headers of three blocks and
// padding for each entry, the contents, and a tenth for what later layers replace.
func (i *importer) bounded(r io.Reader) io.Reader {
	c := i.tree.config
	return &boundedReader{r, c.MaxBytes + c.MaxBytes/10 + int64(c.MaxEntries)*2048 + drainMax}
}

type boundedReader struct {
	r    io.Reader
	room int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.room -= int64(n); b.room < 0 {
		return 0, fmt.Errorf("the archive unpacks to too many bytes: %w", ErrTooLarge)
	}
	return n, err
}

// watched reports how far r has been read.
func (i *importer) watched(r io.Reader, total int64, what string) io.Reader {
	if i.config.Progress == nil {
		return r
	}
	return &watchedReader{r: r, total: total, what: what, progress: i.config.Progress}
}

type watchedReader struct {
	r           io.Reader
	done, total int64
	what        string
	progress    Progress
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.done += int64(n)
	w.progress.report(w.done, w.total, w.what)
	return n, err
}

// plain returns an archive whose entries can be reached by offset: a copy in a temporary file if it is compressed.
func (i *importer) plain(ctx context.Context, file *os.File, size int64) (*os.File, error) {
	r, err := decompress(i.watched(file, size, "unpack archive"))
	if err != nil {
		return nil, err
	}
	if _, ok := r.(*bufio.Reader); ok { // not compressed
		return file, nil
	}
	spool, err := os.CreateTemp(i.config.Tree.SpoolDir, ".silk-spool-*")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(spool, &archiveReader{ctx: ctx, r: i.bounded(r)})
	if err := errors.Join(err, os.Remove(spool.Name())); err != nil {
		return nil, errors.Join(err, spool.Close())
	}
	return spool, nil
}

// files reaches the files of an OCI layout or docker archive by name.
type files interface {
	open(name string) (io.ReadCloser, error)
}

// tarFiles are the files in an uncompressed archive.
type tarFiles struct {
	archive *os.File
	entries map[string]tarFile
}

type tarFile struct {
	offset, size int64
	link         string // another name; then there is no content
}

// indexTar finds the files in an archive. Old docker versions write a layer that occurs twice as a symbolic link.
func indexTar(ctx context.Context, file *os.File) (*tarFiles, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	index := &tarFiles{file, map[string]tarFile{}}
	archive := tar.NewReader(file)
	last := ""
	for ctx.Err() == nil {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return index, nil
		}
		if err != nil {
			return nil, truncated(last, err)
		}
		last = header.Name
		name, err := archivePath(header.Name)
		if err != nil {
			return nil, &RefusedError{header.Name, err}
		}
		if len(index.entries) >= maxLayoutFiles {
			return nil, &RefusedError{header.Name, ErrTooLarge}
		}
		switch header.Typeflag {
		case tar.TypeReg:
			offset, err := file.Seek(0, io.SeekCurrent) // package tar reads no further than the header
			if err != nil {
				return nil, err
			}
			index.entries[name] = tarFile{offset: offset, size: header.Size}
		case tar.TypeSymlink:
			index.entries[name] = tarFile{link: path.Join(path.Dir(name), header.Linkname)}
		}
	}
	return nil, context.Cause(ctx)
}

// maxLayoutFiles is far more than the blobs of any image.
const maxLayoutFiles = 100_000

func (f *tarFiles) open(name string) (io.ReadCloser, error) {
	at := cleaned(name)
	for range maxLinks {
		entry, ok := f.entries[at]
		if !ok {
			break
		}
		if entry.link == "" {
			return io.NopCloser(io.NewSectionReader(f.archive, entry.offset, entry.size)), nil
		}
		at = entry.link
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// rootFiles are the files in a directory.
type rootFiles struct{ root *os.Root }

func (f rootFiles) open(name string) (io.ReadCloser, error) { return openRegular(f.root, name) }

// readJSON decodes a small file. If digest is given, the file must have it.
func readJSON(r io.Reader, name string, digest Digest, into any) error {
	const limit = 8 << 20 // far above the 4 MiB that registries accept for a manifest
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > limit {
		return &RefusedError{name, ErrTooLarge}
	}
	if !digest.IsZero() && sumOf(data) != digest {
		return &RefusedError{name, ErrDigest}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &RefusedError{name, err}
	}
	return nil
}

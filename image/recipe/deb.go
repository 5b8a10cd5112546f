package recipe

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"

	"github.com/silk-sandbox/silk/image"
)

// xzDictBytes bounds the memory of an xz reader. dpkg-deb writes with up to -9, whose dictionary is 64 MiB, see xz(1).
const xzDictBytes = 64 << 20

// debData returns the file system of a Debian package: the tar stream in its data member, see deb(5). The caller
// closes it.
func debData(r io.ReaderAt, size int64) (io.ReadCloser, error) {
	const magic = "!<arch>\n"
	head := make([]byte, len(magic))
	if _, err := r.ReadAt(head, 0); err != nil || string(head) != magic {
		return nil, errors.New("not an ar archive")
	}
	for offset := int64(len(magic)); offset < size; {
		// ar(5): name 16, mtime 12, owner 6, group 6, mode 8, size 10, end 2
		member := make([]byte, 60)
		if _, err := r.ReadAt(member, offset); err != nil {
			return nil, fmt.Errorf("read ar member: %w", err)
		}
		if !bytes.HasSuffix(member, []byte("`\n")) {
			return nil, errors.New("damaged ar member")
		}
		length, err := strconv.ParseInt(strings.TrimSpace(string(member[48:58])), 10, 64)
		if err != nil || length < 0 || length > size-offset-60 {
			return nil, errors.New("ar member with an impossible size")
		}
		name := strings.TrimRight(string(member[:16]), " /")
		data := io.NewSectionReader(r, offset+60, length)
		switch {
		case name == "debian-binary":
			if version, err := io.ReadAll(io.LimitReader(data, 16)); err != nil || !strings.HasPrefix(string(version), "2.") {
				return nil, fmt.Errorf("package format %q, want 2.x", version)
			}
		case strings.HasPrefix(name, "data.tar"):
			return decompress(data, strings.TrimPrefix(name, "data.tar"))
		}
		offset += 60 + length + length%2
	}
	return nil, errors.New("no data member")
}

// readDeb calls read with the file system of the Debian package at path.
func readDeb(path string, read func(data io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	data, err := debData(f, info.Size())
	if err != nil {
		return err
	}
	defer data.Close()
	return read(data)
}

func decompress(r io.Reader, extension string) (io.ReadCloser, error) {
	switch extension {
	case "":
		return io.NopCloser(r), nil
	case ".gz":
		return gzip.NewReader(r)
	case ".xz":
		d, err := xz.NewReader(r, xzDictBytes)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(d), nil
	case ".zst":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	default:
		return nil, fmt.Errorf("compression %q is not supported", extension)
	}
}

// eachEntry calls visit for every entry of a tar stream.
func eachEntry(r io.Reader, visit func(h *tar.Header, r io.Reader) error) error {
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := named(h.Name, visit(h, archive)); err != nil {
			return err
		}
	}
}

// named adds the entry's name to err, unless err is a refusal and has it.
func named(entry string, err error) error {
	if err == nil || errors.As(err, new(*image.RefusedError)) {
		return err
	}
	return fmt.Errorf("entry %q: %w", entry, err)
}

package workspace

import (
	"archive/tar"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// trailerBytes of zeros end a tar stream. archive/tar also takes a stream for whole that just stops between two entries.
const trailerBytes = 1024

// zeroTail counts the zero bytes at the end of what has been read.
type zeroTail struct {
	r     io.Reader
	zeros int64
}

func (z *zeroTail) Read(p []byte) (int, error) {
	n, err := z.r.Read(p)
	run := 0
	for run < n && p[n-1-run] == 0 {
		run++
	}
	if run == n {
		z.zeros += int64(n)
	} else {
		z.zeros = int64(run)
	}
	return n, err
}

// errWriter remembers its writer's error, so that it can be told from a reader's after io.Copy, and hides every other
// method, so that io.CopyBuffer uses its buffer.
type errWriter struct {
	w   io.Writer
	err error
}

func (w *errWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// printable makes text that came from a sandbox or the system fit for one line of a list.
func printable(s string) string {
	const most = 300
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func megabytes(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

func discard(content io.Reader) error {
	_, err := io.Copy(io.Discard, content)
	return err
}

// isSparse reports whether an entry is in one of GNU tar's sparse formats.
func isSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// entryType is the type of an entry; what tar has no letter for stands in a record.
func entryType(h *tar.Header) (Type, error) {
	if t, ok := h.PAXRecords[RecordType]; ok {
		switch Type(t) {
		case TypeSocket, TypeDevice:
			return Type(t), nil
		}
		return "", fmt.Errorf("type %q is not known", t)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return TypeFile, nil
	case tar.TypeDir:
		return TypeDir, nil
	case tar.TypeSymlink, tar.TypeLink:
		return TypeLink, nil
	case tar.TypeFifo:
		return TypeFIFO, nil
	case tar.TypeChar, tar.TypeBlock:
		return TypeDevice, nil
	}
	return TypeUnknown, nil
}

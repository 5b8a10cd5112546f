package confine

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// PAX records that say what tar cannot; package workspace reads them.
const (
	paxOmitted = "SILK.omitted" // why the content is not here
	paxSize    = "SILK.size"    // the size that the file has
	paxType    = "SILK.type"    // "socket", "device"
)

// Bounds of a walk over what a program made: how deep, and how much is looked at.
const (
	maxDepth   = 4096
	maxVisited = 200_000
)

// drainer writes what the program made as a tar stream. It runs when the last process has ended, so that nothing changes any more; but
// every name, link and size in there is hostile. Directories are not sent, nor files that are still what fill wrote.
type drainer struct {
	*Workspace
	device  uint64 // the workspace's own: what is mounted in it is not of the run's making
	out     *tar.Writer
	fileCap int64
	left    int64 // bytes of content that may still be sent
	total   int64
	entries int // that may still be sent
	most    int
	visited int
}

// errEnough ends the walk after as many entries as were asked for.
var errEnough = errors.New("more entries than are wanted")

// Bounds bound what is drained from a workspace.
type Bounds struct {
	FileBytes, TotalBytes int64
	Entries               int
}

// Drain writes the workspace as a tar stream.
func (w *Workspace) Drain(to io.Writer, most Bounds) error {
	top, err := w.root.Open(".")
	if err != nil {
		return fmt.Errorf("drain workspace: %w", err)
	}
	defer top.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(top.Fd()), &s); err != nil {
		return fmt.Errorf("drain workspace: %w", err)
	}
	buffered := bufio.NewWriterSize(to, 256<<10)
	d := drainer{
		Workspace: w, device: s.Dev, out: tar.NewWriter(buffered),
		fileCap: most.FileBytes, left: most.TotalBytes, total: most.TotalBytes, entries: most.Entries, most: most.Entries,
	}
	if err := d.dir(top, "", 0); err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("drain workspace: %w", err)
	}
	if err := errors.Join(d.out.Close(), buffered.Flush()); err != nil {
		return fmt.Errorf("drain workspace: %w", err)
	}
	return nil
}

func (d *drainer) dir(at *os.File, name string, depth int) error {
	for {
		list, err := at.Readdirnames(256)
		for _, base := range list {
			if err := d.entry(at, base, path.Join(name, base), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func (d *drainer) entry(at *os.File, base, full string, depth int) error {
	if d.visited++; d.visited > maxVisited {
		d.entries = 0
		return d.send(nil)
	}
	var s unix.Stat_t
	if err := unix.Fstatat(int(at.Fd()), base, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("%s: %w", full, err)
	}
	h := &tar.Header{Name: full, Mode: int64(s.Mode & 0o777), ModTime: time.Unix(s.Mtim.Unix()), Format: tar.FormatPAX}
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return d.below(at, base, h, &s, depth)
	case unix.S_IFREG:
		return d.file(at, base, h, &s)
	case unix.S_IFLNK:
		b := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(at.Fd()), base, b)
		if err != nil {
			return fmt.Errorf("%s: %w", full, err)
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(b[:n])
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFSOCK:
		h.Typeflag, h.PAXRecords = tar.TypeReg, map[string]string{paxType: "socket"}
	default:
		h.Typeflag, h.PAXRecords = tar.TypeReg, map[string]string{paxType: "device"}
	}
	return d.send(h)
}

// below goes into a directory, which is open for as long.
func (d *drainer) below(at *os.File, base string, h *tar.Header, s *unix.Stat_t, depth int) error {
	if s.Dev != d.device {
		return nil
	}
	if depth == maxDepth {
		h.Typeflag = tar.TypeReg
		return d.omit(h, s, fmt.Sprintf("more than %d directories deep", maxDepth))
	}
	f, err := openAt(at, base, unix.O_DIRECTORY)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		h.Typeflag = tar.TypeReg
		return d.omit(h, s, fmt.Sprintf("too many directories deep: %d", depth))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	defer f.Close()
	return d.dir(f, h.Name, depth+1)
}

func openAt(at *os.File, base string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(at.Fd()), base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	return os.NewFile(uintptr(fd), base), nil
}

// send writes a header, or instead of one too many that there are more, and errEnough.
func (d *drainer) send(h *tar.Header) error {
	if d.entries--; d.entries >= 0 {
		return d.out.WriteHeader(h)
	}
	return errors.Join(errEnough, d.out.WriteHeader(&tar.Header{Name: ".", Typeflag: tar.TypeReg, Format: tar.FormatPAX, PAXRecords: map[string]string{
		paxOmitted: fmt.Sprintf("more than %d entries", d.most),
	}}))
}

func (d *drainer) omit(h *tar.Header, s *unix.Stat_t, why string) error {
	h.Size = 0
	h.PAXRecords = map[string]string{paxOmitted: why, paxSize: strconv.FormatInt(s.Size, 10)}
	return d.send(h)
}

func (d *drainer) file(at *os.File, base string, h *tar.Header, s *unix.Stat_t) error {
	if d.untouched(h.Name, s) {
		return nil
	}
	h.Typeflag, h.Size = tar.TypeReg, s.Size
	switch {
	case s.Size > d.fileCap:
		return d.omit(h, s, fmt.Sprintf("larger than %d bytes", d.fileCap))
	case s.Size > d.left:
		return d.omit(h, s, fmt.Sprintf("all artifacts together are larger than %d bytes", d.total))
	case d.entries <= 0:
		return d.send(h) // errEnough
	}
	d.left -= h.Size
	f, err := openAt(at, base, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	defer f.Close()
	if err := d.send(h); err != nil {
		return err
	}
	for buf := make([]byte, 256<<10); h.Size > 0; {
		n, err := f.Read(buf[:min(int64(len(buf)), h.Size)])
		if n == 0 {
			return fmt.Errorf("%s: read: %w", h.Name, errors.Join(err, io.ErrUnexpectedEOF))
		}
		if _, err := d.out.Write(buf[:n]); err != nil {
			return err
		}
		h.Size -= int64(n)
	}
	return nil
}

package sentry

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/usermem"
)

// PAX records that say what tar cannot.
const (
	paxOmitted = "SILK.omitted" // why the content is not here
	paxSize    = "SILK.size"    // the size that the file has
	paxType    = "SILK.type"    // "socket", "device"
)

// maxDepth bounds the walk: each level holds one dentry. Deeper files are reported as omitted, not read.
const maxDepth = 4096

// maxVisited bounds the walk as well: directories and unchanged files are not sent, and a look at one takes 5 us.
const maxVisited = 200_000

// drainer writes what the program made as a tar stream. It runs when no task exists any more. Directories are not
// sent, nor files that are still what fill wrote.
type drainer struct {
	*workspace
	out     *tar.Writer
	left    int64 // bytes of content that may still be sent
	entries int   // that may still be sent
	visited int
	buf     []byte
}

func (w *workspace) drain() error {
	if w.out < 0 {
		return nil
	}
	defer unix.Close(w.out)
	bw := bufio.NewWriterSize(fdWriter(w.out), 256<<10)
	d := drainer{workspace: w, out: tar.NewWriter(bw), left: w.box.req.TotalCapBytes, entries: w.box.req.MaxEntries, buf: make([]byte, 256<<10)}
	if err := d.dir(w.root, "", 0); err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("drain workspace: %w", err)
	}
	if err := d.out.Close(); err != nil {
		return fmt.Errorf("drain workspace: %w", err)
	}
	return bw.Flush()
}

func (d *drainer) dir(at vfs.VirtualDentry, name string, depth int) error {
	f, err := d.vfs().OpenAt(d.ctx, d.creds, d.at(at, ""), &vfs.OpenOptions{Flags: linux.O_RDONLY | linux.O_DIRECTORY})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var names []string
	err = f.IterDirents(d.ctx, vfs.IterDirentsCallbackFunc(func(e vfs.Dirent) error {
		if e.Name != "." && e.Name != ".." {
			names = append(names, e.Name)
		}
		return nil
	}))
	f.DecRef(d.ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, base := range names {
		full := base
		if name != "" {
			full = name + "/" + base
		}
		if err := d.entry(at, base, full, depth); err != nil {
			return err
		}
	}
	return nil
}

func (d *drainer) entry(at vfs.VirtualDentry, base, full string, depth int) error {
	if d.visited++; d.visited > maxVisited {
		d.entries = 0
		return d.send(nil)
	}
	p := d.at(at, base)
	st, err := d.vfs().StatAt(d.ctx, d.creds, p, &vfs.StatOptions{Mask: linux.STATX_BASIC_STATS})
	if err != nil {
		return fmt.Errorf("%s: %w", full, err)
	}
	h := &tar.Header{Name: full, Mode: int64(st.Mode & 0o777), ModTime: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)), Format: tar.FormatPAX}
	switch st.Mode & linux.S_IFMT {
	case linux.S_IFDIR:
		if depth == maxDepth {
			h.Typeflag = tar.TypeReg
			return d.omit(h, st, fmt.Sprintf("more than %d directories deep", maxDepth))
		}
		vd, err := d.vfs().GetDentryAt(d.ctx, d.creds, p, &vfs.GetDentryOptions{})
		if err != nil {
			return fmt.Errorf("%s: %w", full, err)
		}
		defer vd.DecRef(d.ctx)
		if vd.Mount() != d.root.Mount() { // a read-only mount: not of this run's making
			return nil
		}
		return d.dir(vd, full, depth+1)
	case linux.S_IFREG:
		return d.file(p, h, st)
	case linux.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = d.vfs().ReadlinkAt(d.ctx, d.creds, p); err != nil {
			return fmt.Errorf("%s: %w", full, err)
		}
	case linux.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case linux.S_IFSOCK:
		h.Typeflag, h.PAXRecords = tar.TypeReg, map[string]string{paxType: "socket"}
	default:
		h.Typeflag, h.PAXRecords = tar.TypeReg, map[string]string{paxType: "device"}
	}
	return d.send(h)
}

// errEnough ends the walk after as many entries as were asked for.
var errEnough = errors.New("more entries than are wanted")

// send writes a header, or instead of one too many that there are more, and errEnough.
func (d *drainer) send(h *tar.Header) error {
	if d.entries--; d.entries >= 0 {
		return d.out.WriteHeader(h)
	}
	return errors.Join(errEnough, d.out.WriteHeader(&tar.Header{Name: ".", Typeflag: tar.TypeReg, Format: tar.FormatPAX, PAXRecords: map[string]string{
		paxOmitted: fmt.Sprintf("more than %d entries", d.box.req.MaxEntries),
	}}))
}

func (d *drainer) omit(h *tar.Header, st linux.Statx, why string) error {
	h.Size = 0
	h.PAXRecords = map[string]string{paxOmitted: why, paxSize: strconv.FormatUint(st.Size, 10)}
	return d.send(h)
}

func (d *drainer) file(p *vfs.PathOperation, h *tar.Header, st linux.Statx) error {
	if was, ok := d.before[h.Name]; ok && was == stampOf(st) {
		return nil
	}
	h.Typeflag, h.Size = tar.TypeReg, int64(st.Size)
	switch {
	case int64(st.Size) > d.box.req.FileCapBytes:
		return d.omit(h, st, fmt.Sprintf("larger than %d bytes", d.box.req.FileCapBytes))
	case int64(st.Size) > d.left:
		return d.omit(h, st, fmt.Sprintf("all artifacts together are larger than %d bytes", d.box.req.TotalCapBytes))
	case d.entries <= 0:
		return d.send(h) // errEnough
	}
	d.left -= h.Size
	f, err := d.vfs().OpenAt(d.ctx, d.creds, p, &vfs.OpenOptions{Flags: linux.O_RDONLY | linux.O_NOFOLLOW | linux.O_NONBLOCK})
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	defer f.DecRef(d.ctx)
	if err := d.send(h); err != nil {
		return err
	}
	for offset := int64(0); offset < h.Size; {
		n, err := f.PRead(d.ctx, usermem.BytesIOSequence(d.buf[:min(int64(len(d.buf)), h.Size-offset)]), offset, vfs.ReadOptions{})
		if n == 0 {
			return fmt.Errorf("%s: read at %d of %d: %w", h.Name, offset, h.Size, err)
		}
		if _, err := d.out.Write(d.buf[:n]); err != nil {
			return err
		}
		offset += n
	}
	return nil
}

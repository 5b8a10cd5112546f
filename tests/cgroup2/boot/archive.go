package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// archive writes an initial file system for Linux: a cpio archive in the form "newc", all of it owned by root.
// Documentation/driver-api/early-userspace/buffer-format.rst.
type archive struct {
	w     *bufio.Writer
	inode uint32
	size  int64
	seen  map[string]bool // directories
	err   error           // the first one; nothing is written after it
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriterSize(w, 1<<20), seen: map[string]bool{".": true}}
}

// File modes of cpio: those of stat(2).
const (
	modeDir  = 0o040000
	modeFile = 0o100000
	modeChar = 0o020000
)

// file adds the content of src as name, below directories that it adds, too.
func (a *archive) file(name, src string, perm fs.FileMode) {
	f, err := os.Open(src)
	if err != nil {
		a.fail(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.fail(err)
		return
	}
	a.parents(name)
	a.header(name, modeFile|uint32(perm.Perm()), info.Size(), 0, 0)
	if a.err != nil {
		return
	}
	n, err := io.Copy(a.w, io.LimitReader(f, info.Size()))
	if err == nil && n != info.Size() {
		err = fmt.Errorf("%s shrank while it was read", src)
	}
	a.size += n
	a.fail(err)
	a.pad()
}

// device adds a character device.
func (a *archive) device(name string, major, minor uint32) {
	a.parents(name)
	a.header(name, modeChar|0o600, 0, major, minor)
}

func (a *archive) parents(name string) {
	dir := path.Dir(name)
	if a.seen[dir] {
		return
	}
	a.parents(dir)
	a.seen[dir] = true
	a.header(dir, modeDir|0o755, 0, 0, 0)
}

func (a *archive) header(name string, mode uint32, size int64, major, minor uint32) {
	if size > 1<<32-1 {
		a.fail(fmt.Errorf("%s is too large for a cpio archive", name))
	}
	if a.err != nil {
		return
	}
	a.inode++
	// magic, ino, mode, uid, gid, nlink, mtime, filesize, maj, min, rmaj, rmin, namesize with its zero byte, check
	n, err := fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0, name)
	a.size += int64(n)
	a.fail(err)
	a.pad()
}

// pad fills up to a multiple of four bytes.
func (a *archive) pad() {
	for ; a.err == nil && a.size%4 != 0; a.size++ {
		a.fail(a.w.WriteByte(0))
	}
}

func (a *archive) fail(err error) {
	if a.err == nil && err != nil {
		a.err = fmt.Errorf("write initial file system: %w", err)
	}
}

// finish writes the end of the archive and returns the first error of all.
func (a *archive) finish() error {
	a.header("TRAILER!!!", 0, 0, 0, 0)
	if a.err == nil {
		a.fail(a.w.Flush())
	}
	return a.err
}

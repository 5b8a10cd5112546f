package firecracker

import (
	"bytes"
	"fmt"
	"path"
)

// entry is a file of an initial file system, or a character device.
type entry struct {
	name         string
	mode         uint32 // with its type, stat(2)
	content      []byte
	major, minor uint32
}

// File modes of cpio: those of stat(2).
const (
	modeDir  = 0o040000
	modeFile = 0o100000
	modeChar = 0o020000
)

// initialFS is an initial file system for Linux: a cpio archive in the form "newc", all of it owned by root, without times.
// Documentation/driver-api/early-userspace/buffer-format.rst.
func initialFS(entries []entry) []byte {
	var b bytes.Buffer
	seen := map[string]bool{".": true}
	number := 0
	pad := func() {
		for b.Len()%4 != 0 {
			b.WriteByte(0)
		}
	}
	add := func(e entry) {
		number++
		// magic, ino, mode, uid, gid, nlink, mtime, filesize, maj, min, rmaj, rmin, namesize with its zero byte, check
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
			number, e.mode, 0, 0, 1, 0, len(e.content), 0, 0, e.major, e.minor, len(e.name)+1, 0, e.name)
		pad()
		b.Write(e.content)
		pad()
	}
	var parents func(name string)
	parents = func(name string) {
		if dir := path.Dir(name); !seen[dir] {
			parents(dir)
			seen[dir] = true
			add(entry{name: dir, mode: modeDir | 0o755})
		}
	}
	for _, e := range entries {
		parents(e.name)
		add(e)
	}
	add(entry{name: "TRAILER!!!"})
	return b.Bytes()
}

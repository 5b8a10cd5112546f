package sentry

import (
	"bytes"
	"encoding/binary"
	"strings"

	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"

	"github.com/silk-sandbox/silk/driver/rules"
)

// listingCalls leave what FileSys forbids out of listings of /sys, which gVisor makes whether a program wants it or not:
// find, du and the like walk through all that they see, and looking around is no attack. To name such a file is.
func (g *guard) listingCalls() map[string]rule {
	return map[string]rule{
		"getdents":   func(c *call) (uintptr, *kernel.SyscallControl, error) { return g.list(c, 18) },
		"getdents64": func(c *call) (uintptr, *kernel.SyscallControl, error) { return g.list(c, 19) },
	}
}

// list removes entries from what getdents wrote. name is where the name of an entry begins: struct linux_dirent has its
// length at 16 and its type at its end, struct linux_dirent64 its length at 16 and its type at 18 (getdents(2)).
func (g *guard) list(c *call, name int) (uintptr, *kernel.SyscallControl, error) {
	for {
		n, ctrl, err := c.proceed()
		if err != nil || n == 0 || ctrl != nil {
			return n, ctrl, err
		}
		dir, ok := g.sysDirectory(c)
		if !ok {
			return n, ctrl, err
		}
		b := make([]byte, n)
		addr := c.args[1].Pointer()
		if _, err := c.task.CopyInBytes(addr, b); err != nil {
			return 0, nil, err
		}
		b = visibleEntries(b, name, dir)
		if len(b) == 0 {
			continue // or it would look like the end
		}
		if _, err := c.task.CopyOutBytes(hostarch.Addr(addr), b); err != nil {
			return 0, nil, err
		}
		return uintptr(len(b)), nil, nil
	}
}

// sysDirectory is the name of the directory that the call lists, if it lies in /sys.
func (g *guard) sysDirectory(c *call) (string, bool) {
	file := c.task.GetFile(c.args[0].Int())
	if file == nil {
		return "", false
	}
	defer file.DecRef(c.task)
	if file.VirtualDentry().Mount().Filesystem().FilesystemType().Name() != "sysfs" {
		return "", false
	}
	dir, err := g.nameOf(c.task, file.VirtualDentry())
	return dir, err == nil && rules.Covers("/sys", dir)
}

// visibleEntries are the entries of dir that lead to the start-up list.
func visibleEntries(b []byte, name int, dir string) (visible []byte) {
	for len(b) > name {
		size := int(binary.LittleEndian.Uint16(b[16:]))
		if size <= name || size > len(b) {
			return nil
		}
		base, _, _ := bytes.Cut(b[name:size], []byte{0})
		at := strings.TrimSuffix(dir, "/") + "/" + string(base)
		if _, listed := startupEntry(at); listed || onTheWay(at) || string(base) == "." || string(base) == ".." {
			visible = append(visible, b[:size]...)
		}
		b = b[size:]
	}
	return visible
}

package sentry

import (
	"fmt"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/usermem"

	"github.com/silk-sandbox/silk/driver/rules"
)

// linuxWrite is the body of write(2): it blocks where the file's flags say so.
//
//go:linkname linuxWrite gvisor.dev/gvisor/pkg/sentry/syscalls/linux.write
func linuxWrite(t *kernel.Task, file *vfs.FileDescription, src usermem.IOSequence, opts vfs.WriteOptions) (int64, error)

// outputCalls make writes whole, count the ones that found no room, and refuse what would make the Sentry itself grow.
func (g *guard) outputCalls() map[string]rule {
	return map[string]rule{
		"write": func(c *call) (uintptr, *kernel.SyscallControl, error) {
			n, ctrl, err := c.proceed()
			if err == nil && n > 0 && n < uintptr(c.args[2].SizeT()) {
				if src, serr := c.task.SingleIOSequence(c.args[1].Pointer(), int(c.args[2].SizeT()), usermem.IOOpts{}); serr == nil {
					n = finish(c, n, src)
				}
			}
			return n, ctrl, g.noRoom(c, err)
		},
		"writev": func(c *call) (uintptr, *kernel.SyscallControl, error) {
			n, ctrl, err := c.proceed()
			if err == nil && n > 0 {
				if src, serr := c.task.IovecsIOSequence(c.args[1].Pointer(), int(c.args[2].Int()), usermem.IOOpts{}); serr == nil && int64(n) < src.NumBytes() {
					n = finish(c, n, src)
				}
			}
			return n, ctrl, g.noRoom(c, err)
		},
		"pwrite64":  g.mayBeFull,
		"pwritev":   g.mayBeFull,
		"pwritev2":  g.mayBeFull,
		"fallocate": g.fallocate,
		"mincore":   g.mincore,
	}
}

// finish writes what a first, partial write has left. A blocking write to a pipe is all or nothing on Linux (pipe(7));
// the Sentry's is not when the pipe is the host's and full, and programs that ignore write's result would lose output.
func finish(c *call, n uintptr, src usermem.IOSequence) uintptr {
	file := c.task.GetFile(c.args[0].Int())
	if file == nil {
		return n
	}
	defer file.DecRef(c.task)
	if file.StatusFlags()&linux.O_NONBLOCK != 0 {
		return n
	}
	for int64(n) < src.NumBytes() {
		m, err := linuxWrite(c.task, file, src.DropFirst64(int64(n)), vfs.WriteOptions{})
		n += uintptr(m)
		if err != nil || m == 0 { // interrupted: the caller sees the part, as with any write
			break
		}
	}
	return n
}

func (g *guard) mayBeFull(c *call) (uintptr, *kernel.SyscallControl, error) {
	n, ctrl, err := c.proceed()
	return n, ctrl, g.noRoom(c, err)
}

// fallocate refuses at once what cannot fit: the Sentry commits up to 4 GiB before it looks up, and a memfd has no size
// of its own. A mode that does not reserve (a hole, say) is none the Sentry has, and it says so.
func (g *guard) fallocate(c *call) (uintptr, *kernel.SyscallControl, error) {
	mode, offset, length := c.args[1].Uint64(), c.args[2].Int64(), c.args[3].Int64()
	if most := max(g.box.req.MemoryBytes, g.box.req.WorkspaceBytes); mode == 0 && offset >= 0 && length > 0 && (length > most || offset > most-length) && g.on(rules.ResourceFallocate) {
		return 0, nil, g.refuse(c, rules.ResourceFallocate, fmt.Sprintf("%d bytes", length))
	}
	return g.mayBeFull(c)
}

// maxMincoreBytes bounds the address range of one mincore(2): the Sentry answers with a byte a page from its own heap.
const maxMincoreBytes = 16 << 30

func (g *guard) mincore(c *call) (uintptr, *kernel.SyscallControl, error) {
	if c.args[1].SizeT() > maxMincoreBytes && g.on(rules.ResourceMincore) {
		return 0, nil, g.refuse(c, rules.ResourceMincore, "")
	}
	return c.proceed()
}

// noRoom counts a write that a size limit refused, and returns err as it is.
func (g *guard) noRoom(c *call, err error) error {
	if err == nil || !linuxerr.Equals(linuxerr.ENOSPC, err) {
		return err
	}
	if file := c.task.GetFile(c.args[0].Int()); file != nil {
		defer file.DecRef(c.task)
		if where, nerr := g.nameOf(c.task, file.VirtualDentry()); nerr == nil {
			g.full(where)
		}
	}
	return err
}

// full counts a refusal for want of room at the file named where.
func (g *guard) full(where string) {
	if rules.Covers(workspaceDir, where) {
		g.diskFull.Add(1)
		return
	}
	g.tmpFull.Add(1)
}

package sentry

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// fileRules replace the calls that open files. The file is opened inside the Sentry, the opened object is looked at,
// and only then does it get a descriptor: a check of the path before, or of the descriptor after, loses races (a second
// thread swaps a link, or uses the descriptor before it is closed).
//
// openat2, handles and mount trees are refused with ENOSYS or EPERM; every libc falls back.
func (g *guard) fileRules() map[uintptr]rule {
	return map[uintptr]rule{
		unix.SYS_OPEN: func(c *call) (uintptr, *kernel.SyscallControl, error) {
			return g.open(c, linux.AT_FDCWD, c.args[0].Pointer(), c.args[1].Uint(), c.args[2].ModeT())
		},
		unix.SYS_OPENAT: func(c *call) (uintptr, *kernel.SyscallControl, error) {
			return g.open(c, c.args[0].Int(), c.args[1].Pointer(), c.args[2].Uint(), c.args[3].ModeT())
		},
		unix.SYS_CREAT: func(c *call) (uintptr, *kernel.SyscallControl, error) {
			return g.open(c, linux.AT_FDCWD, c.args[0].Pointer(), linux.O_WRONLY|linux.O_CREAT|linux.O_TRUNC, c.args[1].ModeT())
		},
		unix.SYS_OPENAT2:           refuse(linuxerr.ENOSYS),
		unix.SYS_NAME_TO_HANDLE_AT: refuse(linuxerr.EPERM),
		unix.SYS_OPEN_BY_HANDLE_AT: refuse(linuxerr.EPERM),
	}
}

// maxWalks bounds how often an open starts again because a name became a link under it.
const maxWalks = 100

func (g *guard) open(c *call, dirfd int32, addr hostarch.Addr, flags uint32, mode uint) (uintptr, *kernel.SyscallControl, error) {
	t := c.task
	name, err := t.CopyInString(addr, linux.PATH_MAX)
	if err != nil {
		return 0, nil, err
	}
	if name == "" {
		return 0, nil, linuxerr.ENOENT
	}
	root, start, err := startOf(t, dirfd, name)
	if err != nil {
		return 0, nil, err
	}
	defer root.DecRef(t)
	defer start.DecRef(t)
	follow := flags&linux.O_NOFOLLOW == 0 && flags&(linux.O_CREAT|linux.O_EXCL) != linux.O_CREAT|linux.O_EXCL
	for range maxWalks {
		start.IncRef()
		fd, verdict, where, err := g.openOnce(t, root, start, name, follow, flags, mode)
		switch {
		case verdict == killFile:
			return g.violate(c, ruleFile, where)
		case errors.Is(err, errBecameLink):
			continue
		case err != nil && linuxerr.Equals(linuxerr.ENOSPC, err):
			g.full(where)
		}
		return uintptr(fd), nil, err
	}
	return 0, nil, linuxerr.ELOOP
}

var errBecameLink = errors.New("a name has become a symbolic link")

// openOnce walks, judges, opens, and judges what it has opened; only then is there a descriptor.
func (g *guard) openOnce(t *kernel.Task, root, start vfs.VirtualDentry, name string, follow bool, flags uint32, mode uint) (fd int32, v fileVerdict, where string, err error) {
	w, d, err := g.walk(t, root, start, name, follow)
	defer w.release()
	where = d.path
	if v := g.judge(t, where); v != allowFile && !d.magic {
		return 0, v, where, v.errno()
	}
	if err != nil {
		return 0, allowFile, where, err
	}
	if d.magic && leadsToLink(t, where) {
		return 0, allowFile, where, linuxerr.ELOOP
	}
	file, err := t.Kernel().VFS().OpenAt(t, t.Credentials(), &vfs.PathOperation{Root: root, Start: d.dir, Path: fspath.Parse(d.name), FollowFinalSymlink: d.magic}, &vfs.OpenOptions{
		Flags: flags | linux.O_LARGEFILE,
		Mode:  linux.FileMode(mode & (0o777 | linux.S_ISUID | linux.S_ISGID | linux.S_ISVTX) &^ t.FSContext().Umask()),
	})
	if err != nil {
		if follow && linuxerr.Equals(linuxerr.ELOOP, err) {
			return 0, allowFile, where, errBecameLink
		}
		return 0, allowFile, where, err
	}
	defer file.DecRef(t)
	if where, err = g.nameOf(t, file.VirtualDentry()); err != nil {
		return 0, allowFile, where, err
	}
	switch v := g.judge(t, where); v {
	case allowFile:
	case denyFile:
		g.filesRefused.Add(1)
		fallthrough
	default:
		return 0, v, where, v.errno()
	}
	fd, err = t.NewFDFrom(0, file, kernel.FDFlags{CloseOnExec: flags&linux.O_CLOEXEC != 0})
	return fd, allowFile, where, err
}

// leadsToLink says whether a magic link is that of a descriptor which is a symbolic link itself (O_PATH and O_NOFOLLOW).
// Linux does not follow that one, and the Sentry would: to a name that no walk of ours has seen.
func leadsToLink(t *kernel.Task, name string) bool {
	parts := strings.Split(name, "/") // /proc/PID/fd/N, /proc/PID/task/TID/fd/N
	if len(parts) < 5 || parts[len(parts)-2] != "fd" {
		return false
	}
	tid, err1 := strconv.ParseInt(parts[len(parts)-3], 10, 32)
	fd, err2 := strconv.ParseInt(parts[len(parts)-1], 10, 32)
	task := t.PIDNamespace().TaskWithID(kernel.ThreadID(tid))
	if err1 != nil || err2 != nil || task == nil {
		return false
	}
	var file *vfs.FileDescription
	task.WithMuLocked(func(task *kernel.Task) {
		if table := task.FDTable(); table != nil { // it is not ending
			file, _ = table.Get(int32(fd))
		}
	})
	if file == nil {
		return false
	}
	defer file.DecRef(t)
	st, err := file.Stat(t, vfs.StatOptions{Mask: linux.STATX_TYPE})
	return err == nil && st.Mode&linux.S_IFMT == linux.S_IFLNK
}

// nameOf is the absolute path of an object in the sandbox's own mount namespace, however it was reached.
func (g *guard) nameOf(t *kernel.Task, vd vfs.VirtualDentry) (string, error) {
	root := g.box.ws.mounts.Root(t)
	defer root.DecRef(t)
	return t.Kernel().VFS().PathnameWithDeleted(t, root, vd)
}

package sentry

import (
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

func (g *guard) open(c *call, dirfd int32, addr hostarch.Addr, flags uint32, mode uint) (uintptr, *kernel.SyscallControl, error) {
	t := c.task
	name, err := t.CopyInString(addr, linux.PATH_MAX)
	if err != nil {
		return 0, nil, err
	}
	if name == "" {
		return 0, nil, linuxerr.ENOENT
	}
	p, release, err := pathOperation(t, dirfd, name)
	if err != nil {
		return 0, nil, err
	}
	defer release()
	p.FollowFinalSymlink = flags&linux.O_NOFOLLOW == 0
	file, err := t.Kernel().VFS().OpenAt(t, t.Credentials(), p, &vfs.OpenOptions{
		Flags: flags | linux.O_LARGEFILE,
		Mode:  linux.FileMode(mode & (0o777 | linux.S_ISUID | linux.S_ISGID | linux.S_ISVTX) &^ t.FSContext().Umask()),
	})
	if err != nil {
		switch where := g.resolveAbsent(t, *p, name); g.judge(t, where) {
		case killFile:
			return g.violate(c, ruleFile, where)
		case hideFile:
			return 0, nil, linuxerr.ENOENT
		}
		if linuxerr.Equals(linuxerr.ENOSPC, err) {
			g.full(g.resolveAbsent(t, *p, name))
		}
		return 0, nil, err
	}
	defer file.DecRef(t)
	where, err := g.nameOf(t, file.VirtualDentry())
	if err != nil {
		return 0, nil, err
	}
	switch g.judge(t, where) {
	case killFile:
		return g.violate(c, ruleFile, where)
	case hideFile:
		return 0, nil, linuxerr.ENOENT
	case denyFile:
		g.filesRefused.Add(1)
		return 0, nil, linuxerr.EACCES
	}
	fd, err := t.NewFDFrom(0, file, kernel.FDFlags{CloseOnExec: flags&linux.O_CLOEXEC != 0})
	return uintptr(fd), nil, err
}

// pathOperation resolves name as openat(2) does. release must be called when p is no longer used.
func pathOperation(t *kernel.Task, dirfd int32, name string) (p *vfs.PathOperation, release func(), err error) {
	path := fspath.Parse(name)
	root := t.FSContext().RootDirectory()
	if path.Absolute {
		return &vfs.PathOperation{Root: root, Start: root, Path: path}, func() { root.DecRef(t) }, nil
	}
	var start vfs.VirtualDentry
	if dirfd == linux.AT_FDCWD {
		start = t.FSContext().WorkingDirectory()
	} else {
		dir := t.GetFile(dirfd)
		if dir == nil {
			root.DecRef(t)
			return nil, nil, linuxerr.EBADF
		}
		start = dir.VirtualDentry()
		start.IncRef()
		dir.DecRef(t)
	}
	return &vfs.PathOperation{Root: root, Start: start, Path: path}, func() { start.DecRef(t); root.DecRef(t) }, nil
}

// nameOf is the absolute path of an object in the sandbox's own mount namespace, however it was reached.
func (g *guard) nameOf(t *kernel.Task, vd vfs.VirtualDentry) (string, error) {
	root := g.box.ws.mounts.Root(t)
	defer root.DecRef(t)
	return t.Kernel().VFS().PathnameWithDeleted(t, root, vd)
}

// maxLinks is how many symbolic links resolveAbsent follows by hand; path_resolution(7).
const maxLinks = 40

// resolveAbsent names what an open that failed was about: the deepest part of the path that exists, resolved, and the
// remaining names. It follows dangling links, so that a link to a forbidden file that the image does not have is still
// an attempt to open it. It returns "" if it cannot tell.
func (g *guard) resolveAbsent(t *kernel.Task, p vfs.PathOperation, name string) string {
	rest := ""
	for links := 0; ; {
		p.Path, p.FollowFinalSymlink = fspath.Parse(name), true
		if vd, err := t.Kernel().VFS().GetDentryAt(t, t.Credentials(), &p, &vfs.GetDentryOptions{}); err == nil {
			where, err := g.nameOf(t, vd)
			vd.DecRef(t)
			if err != nil {
				return ""
			}
			return cleanJoin(where, rest)
		}
		p.FollowFinalSymlink = false
		if target, err := t.Kernel().VFS().ReadlinkAt(t, t.Credentials(), &p); err == nil {
			if links++; links > maxLinks {
				return ""
			}
			if dir, _ := splitLast(name); target != "" && target[0] != '/' {
				target = dir + target
			}
			name = target
			continue
		}
		dir, base := splitLast(name)
		if base == "" && dir == name { // nothing left to take away
			return ""
		}
		rest = base + "/" + rest
		if name = dir; name == "" {
			name = "."
		}
		if name == "." && base == "" {
			return ""
		}
	}
}

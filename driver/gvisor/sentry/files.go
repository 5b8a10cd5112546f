package sentry

import (
	"errors"
	"strconv"
	"strings"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"

	"github.com/silk-sandbox/silk/driver/rules"
)

// fileCalls replace the calls that open files. The file is opened inside the Sentry, the opened object is looked at,
// and only then does it get a descriptor: a check of the path before, or of the descriptor after, loses races (a second
// thread swaps a link, or uses the descriptor before it is closed).
func (g *guard) fileCalls() map[string]rule {
	return map[string]rule{
		"open": func(c *call) (uintptr, *kernel.SyscallControl, error) {
			return g.open(c, linux.AT_FDCWD, c.args[0].Pointer(), c.args[1].Uint(), c.args[2].ModeT())
		},
		"openat": func(c *call) (uintptr, *kernel.SyscallControl, error) {
			return g.open(c, c.args[0].Int(), c.args[1].Pointer(), c.args[2].Uint(), c.args[3].ModeT())
		},
		"creat": func(c *call) (uintptr, *kernel.SyscallControl, error) {
			return g.open(c, linux.AT_FDCWD, c.args[0].Pointer(), linux.O_WRONLY|linux.O_CREAT|linux.O_TRUNC, c.args[1].ModeT())
		},
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
	if flags&linux.O_PATH != 0 {
		flags &= linux.ValidOPathFlags | linux.O_CLOEXEC // the others mean nothing then: O_CREAT and O_EXCL do not keep it from following
	}
	root, start, err := startOf(t, dirfd, name)
	if err != nil {
		return 0, nil, err
	}
	defer root.DecRef(t)
	defer start.DecRef(t)
	how := opening{flags: flags, mode: linux.FileMode(mode & (0o777 | linux.S_ISUID | linux.S_ISGID | linux.S_ISVTX) &^ t.FSContext().Umask())}
	fd, v, where, err := g.openAtOnce(t, root, start, name, how)
	if err != nil && !isInterrupt(err) && v.allows() {
		fd, v, where, err = g.openStepwise(t, root, start, name, how)
	}
	if !v.allows() {
		return g.settle(c, v, where)
	}
	if err != nil && linuxerr.Equals(linuxerr.ENOSPC, err) {
		g.full(where)
	}
	g.seen(c, where, err)
	return uintptr(fd), nil, err
}

// opening is how a file is to be opened.
type opening struct {
	flags uint32
	mode  linux.FileMode
}

func (h opening) options() *vfs.OpenOptions {
	return &vfs.OpenOptions{Flags: h.flags | linux.O_LARGEFILE, Mode: h.mode}
}

// openAtOnce opens as the Sentry itself would and judges what was opened: what that is cannot change any more, and there is
// no descriptor yet. An open as such has an effect only where files may be made or cut, and there all is allowed.
//
// Its error says nothing about policy: what could not be opened may be forbidden, and openStepwise has the answer.
func (g *guard) openAtOnce(t *kernel.Task, root, start vfs.VirtualDentry, name string, how opening) (fd int32, v verdict, where string, err error) {
	file, err := t.Kernel().VFS().OpenAt(t, t.Credentials(), &vfs.PathOperation{
		Root: root, Start: start, Path: fspath.Parse(name), FollowFinalSymlink: how.flags&linux.O_NOFOLLOW == 0,
	}, how.options())
	if err != nil {
		return 0, v, "", err
	}
	return g.admit(t, file, how)
}

// admit judges what has been opened, which it takes over, and makes the descriptor.
func (g *guard) admit(t *kernel.Task, file *vfs.FileDescription, how opening) (fd int32, v verdict, where string, err error) {
	defer file.DecRef(t)
	o, err := g.objectOf(t, file)
	if err != nil {
		return 0, v, "", err
	}
	if v = g.judge(t, o); !v.allows() {
		return 0, v, o.path, nil
	}
	fd, err = t.NewFDFrom(0, file, kernel.FDFlags{CloseOnExec: how.flags&linux.O_CLOEXEC != 0})
	return fd, v, o.path, err
}

// isInterrupt says whether an open waited, for the other end of a fifo say, and was called away.
func isInterrupt(err error) bool {
	return linuxerr.IsRestartError(err) || linuxerr.Equals(linuxerr.EINTR, err)
}

// openStepwise walks to the file itself, so that what is judged and what is opened is one thing also if it does not exist.
func (g *guard) openStepwise(t *kernel.Task, root, start vfs.VirtualDentry, name string, how opening) (fd int32, v verdict, where string, err error) {
	follow := how.flags&linux.O_NOFOLLOW == 0 && how.flags&(linux.O_CREAT|linux.O_EXCL) != linux.O_CREAT|linux.O_EXCL
	for range maxWalks {
		start.IncRef()
		fd, v, where, err = g.openOnce(t, root, start, name, follow, how)
		if !errors.Is(err, errBecameLink) {
			return fd, v, where, err
		}
	}
	return 0, v, where, linuxerr.ELOOP
}

// settle does what a verdict that does not allow demands.
func (g *guard) settle(c *call, v verdict, where string) (uintptr, *kernel.SyscallControl, error) {
	if v.action == rules.Kill {
		return g.violate(c, v.rule, where)
	}
	return 0, nil, g.refuse(c, v.rule, where)
}

var errBecameLink = errors.New("a name has become a symbolic link")

// openOnce walks, judges, opens, and judges what it has opened; only then is there a descriptor. An error of its own
// stands beside a verdict that allows.
func (g *guard) openOnce(t *kernel.Task, root, start vfs.VirtualDentry, name string, follow bool, how opening) (fd int32, v verdict, where string, err error) {
	w, d, err := g.walk(t, root, start, name, follow)
	defer w.release()
	where = d.path
	if !d.magic {
		if v := g.judge(t, object{path: where, directory: func() bool { return w.isDirectory(d) }}); !v.allows() {
			return 0, v, where, nil
		}
	}
	if err != nil {
		return 0, v, where, err
	}
	if d.magic && leadsToLink(t, where) {
		return 0, v, where, linuxerr.ELOOP
	}
	file, err := t.Kernel().VFS().OpenAt(t, t.Credentials(), &vfs.PathOperation{Root: root, Start: d.dir, Path: fspath.Parse(d.name), FollowFinalSymlink: d.magic}, how.options())
	if err != nil {
		if follow && linuxerr.Equals(linuxerr.ELOOP, err) {
			return 0, v, where, errBecameLink
		}
		return 0, v, where, err
	}
	return g.admit(t, file, how)
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

// nameOf is the absolute path of an object in the sandbox's own mount namespace, however it was reached, or "" if it has
// none there.
func (g *guard) nameOf(ctx context.Context, vd vfs.VirtualDentry) (string, error) {
	root := g.box.ws.mounts.Root(ctx)
	defer root.DecRef(ctx)
	return g.box.kernel().VFS().PathnameReachable(ctx, root, vd)
}

// objectOf is what has been opened.
func (g *guard) objectOf(ctx context.Context, file *vfs.FileDescription) (object, error) {
	vd := file.VirtualDentry()
	name, err := g.nameOf(ctx, vd)
	if err != nil {
		return object{}, err
	}
	o := object{path: name, directory: func() bool {
		st, err := file.Stat(ctx, vfs.StatOptions{Mask: linux.STATX_TYPE})
		return err == nil && st.Mode&linux.S_IFMT == linux.S_IFDIR
	}}
	if name != "" {
		return o, nil
	}
	// Deleted, or of a file system that is mounted nowhere. A process that has ended takes the names of its files in
	// /proc with it: those are no one's to read.
	root := g.box.ws.mounts.Root(ctx)
	defer root.DecRef(ctx)
	if o.path, err = g.box.kernel().VFS().PathnameWithDeleted(ctx, root, vd); err != nil {
		return object{}, err
	}
	switch vd.Mount().Filesystem().FilesystemType().Name() {
	case "proc", "sysfs", "erofs":
	default:
		o.anonymous = true
	}
	return o, nil
}

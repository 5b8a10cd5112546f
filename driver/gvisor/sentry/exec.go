package sentry

import (
	"fmt"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/driver/rules"
)

// judgeExecutable is asked about every file that the loader opens to execute it. patches/0002 adds it: in a Sentry that is
// built without, nobody reads this variable, which createProgram notices.
//
//go:linkname judgeExecutable gvisor.dev/gvisor/pkg/sentry/loader.judgeExecutable
var judgeExecutable func(context.Context, *vfs.FileDescription) error

// judgeExecutableName is asked before, about the name: what does not exist may be forbidden as well.
//
//go:linkname judgeExecutableName gvisor.dev/gvisor/pkg/sentry/loader.judgeExecutableName
var judgeExecutableName func(ctx context.Context, root, start vfs.VirtualDentry, name string, follow bool) error

// execCalls are about starting programs. What the call itself names is judged as the name in an open is; so are, when the
// loader comes to them, the interpreter of a script and the dynamic loader, and in the end whatever is really opened.
func (g *guard) execCalls() map[string]rule {
	return map[string]rule{
		"execve": func(c *call) (uintptr, *kernel.SyscallControl, error) {
			return g.exec(c, linux.AT_FDCWD, c.args[0].Pointer(), 0)
		},
		"execveat": func(c *call) (uintptr, *kernel.SyscallControl, error) {
			return g.exec(c, c.args[0].Int(), c.args[1].Pointer(), c.args[4].Int())
		},
	}
}

func (g *guard) exec(c *call, dirfd int32, addr hostarch.Addr, flags int32) (uintptr, *kernel.SyscallControl, error) {
	if g.noSpawn && g.on(rules.ProcessSpawn) {
		return 0, nil, g.refuse(c, rules.ProcessSpawn, "")
	}
	t := c.task
	name, err := t.CopyInString(addr, linux.PATH_MAX)
	if err != nil {
		return 0, nil, err
	}
	if name == "" { // a descriptor with AT_EMPTY_PATH: judged when it is loaded
		g.seen(c, fmt.Sprintf("descriptor %d", dirfd), nil)
		return c.proceed()
	}
	root, start, err := startOf(t, dirfd, name)
	if err != nil {
		return 0, nil, err
	}
	defer root.DecRef(t)
	v, where, err := g.judgeName(t, root, start, name, flags&linux.AT_SYMLINK_NOFOLLOW == 0)
	if !v.allows() {
		return g.settle(c, v, where)
	}
	g.seen(c, where, err)
	if err != nil {
		return 0, nil, err
	}
	return c.proceed()
}

// judgeName walks to a name from start, which it takes over. The error is why the walk came to no end.
func (g *guard) judgeName(t *kernel.Task, root, start vfs.VirtualDentry, name string, follow bool) (v verdict, where string, err error) {
	w, d, err := g.walk(t, root, start, name, follow)
	defer w.release()
	if !d.magic {
		v = g.judge(t, object{path: d.path, directory: func() bool { return w.isDirectory(d) }})
	}
	return v, d.path, err
}

// execCall is the call that a judgement of the loader is about.
func execCall(t *kernel.Task) *call {
	return &call{task: t, name: "execve", kind: eventExec, place: wire.CallOf("execve")}
}

// watchExecutables makes the loader ask before it uses a file that it has opened.
func (g *guard) watchExecutables() {
	judgeExecutable = func(ctx context.Context, file *vfs.FileDescription) error {
		if g.box.ws.mounts == nil { // process 1, which is ours
			return nil
		}
		g.judgesExecutables.Store(true)
		o, err := g.objectOf(ctx, file)
		if err != nil {
			return err
		}
		t := kernel.TaskFromContext(ctx)
		v := g.judge(t, o)
		switch {
		case v.allows():
			return nil
		case t == nil: // the run's own command: it has not started, and will not
			return g.errnoOf(rules.FileUnlisted)
		}
		_, _, err = g.settle(execCall(t), v, o.path)
		return err
	}
	judgeExecutableName = func(ctx context.Context, root, start vfs.VirtualDentry, name string, follow bool) error {
		t := kernel.TaskFromContext(ctx)
		if t == nil { // the run's own command, or process 1
			return nil
		}
		start.IncRef()
		v, where, _ := g.judgeName(t, root, start, name, follow) // the loader finds out what is wrong with the walk
		if v.allows() {
			return nil
		}
		_, _, err := g.settle(execCall(t), v, where)
		return err
	}
}

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

// execCalls are about starting programs. The names that the call itself gives are judged as those of an open are; what
// is really opened - the program, a script's interpreter, the dynamic loader - is judged by judgeExecutable.
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
	w, d, err := g.walk(t, root, start, name, flags&linux.AT_SYMLINK_NOFOLLOW == 0)
	defer w.release()
	if !d.magic {
		if v := g.judge(t, object{path: d.path, directory: func() bool { return w.isDirectory(d) }}); !v.allows() {
			return g.settle(c, v, d.path)
		}
	}
	g.seen(c, d.path, err)
	if err != nil {
		return 0, nil, err
	}
	return c.proceed()
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
		_, _, err = g.settle(&call{task: t, name: "execve", kind: eventExec, place: wire.CallOf("execve")}, v, o.path)
		return err
	}
}

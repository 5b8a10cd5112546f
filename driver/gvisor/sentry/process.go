package sentry

import (
	"fmt"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/kernel"

	"github.com/silk-sandbox/silk/driver/rules"
)

// namespaceFlags are the clone flags that make new namespaces (clone(2), unshare(2)).
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// processCalls are about new processes and threads: no-spawn, the limit on their number, and no new namespaces.
func (g *guard) processCalls() map[string]rule {
	return map[string]rule{
		"fork":    g.spawn,
		"vfork":   g.spawn,
		"clone":   g.clone,
		"unshare": g.unshare,
	}
}

func (g *guard) spawn(c *call) (uintptr, *kernel.SyscallControl, error) {
	if g.noSpawn && g.on(rules.ProcessSpawn) {
		return 0, nil, g.refuse(c, rules.ProcessSpawn, "")
	}
	return g.counted(c, "process")
}

func (g *guard) clone(c *call) (uintptr, *kernel.SyscallControl, error) {
	flags := c.args[0].Uint64()
	if flags&namespaceFlags&^unix.CLONE_NEWTIME != 0 && g.on(rules.PrivilegeNamespace) { // CLONE_NEWTIME shares its bit with the exit signal here
		return g.violate(c, rules.PrivilegeNamespace, "new namespace")
	}
	if flags&linux.CLONE_THREAD == 0 {
		return g.spawn(c)
	}
	return g.counted(c, "thread")
}

// counted lets a process or thread be made and counts it, or the refusal by RLIMIT_NPROC.
func (g *guard) counted(c *call, what string) (uintptr, *kernel.SyscallControl, error) {
	n, ctrl, err := c.proceed()
	switch {
	case err == nil:
		g.processes.Add(1)
		g.seen(c, fmt.Sprintf("%s %d", what, n), nil)
	case linuxerr.Equals(linuxerr.EAGAIN, err):
		g.pidsLimit.Add(1)
	}
	return n, ctrl, err
}

func (g *guard) unshare(c *call) (uintptr, *kernel.SyscallControl, error) {
	if c.args[0].Uint64()&namespaceFlags != 0 && g.on(rules.PrivilegeNamespace) {
		return g.violate(c, rules.PrivilegeNamespace, "new namespace")
	}
	return c.proceed()
}

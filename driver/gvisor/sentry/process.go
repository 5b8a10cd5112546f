package sentry

import (
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// namespaceFlags are the clone flags that make new namespaces (clone(2), unshare(2)).
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// processRules are about new processes and threads: no-spawn, the limit on their number, and no new namespaces.
func (g *guard) processRules() map[uintptr]rule {
	return map[uintptr]rule{
		unix.SYS_FORK:     g.spawn,
		unix.SYS_VFORK:    g.spawn,
		unix.SYS_CLONE:    g.clone,
		unix.SYS_CLONE3:   refuse(linuxerr.ENOSYS), // libc falls back to clone, whose flags are in a register
		unix.SYS_EXECVE:   g.exec,
		unix.SYS_EXECVEAT: g.exec,
		unix.SYS_UNSHARE:  g.unshare,
		unix.SYS_SETNS:    g.fatal(rulePrivilege),
	}
}

func (g *guard) spawn(c *call) (uintptr, *kernel.SyscallControl, error) {
	if g.noSpawn {
		g.spawnsRefused.Add(1)
		return 0, nil, linuxerr.EPERM
	}
	return g.counted(c)
}

func (g *guard) clone(c *call) (uintptr, *kernel.SyscallControl, error) {
	flags := c.args[0].Uint64()
	if flags&namespaceFlags&^unix.CLONE_NEWTIME != 0 { // CLONE_NEWTIME shares its bit with the exit signal here
		return g.violate(c, rulePrivilege, "new namespace")
	}
	if flags&linux.CLONE_THREAD == 0 {
		return g.spawn(c)
	}
	return g.counted(c)
}

// counted lets a process or thread be made and counts it, or the refusal by RLIMIT_NPROC.
func (g *guard) counted(c *call) (uintptr, *kernel.SyscallControl, error) {
	n, ctrl, err := c.proceed()
	switch {
	case err == nil:
		g.processes.Add(1)
	case linuxerr.Equals(linuxerr.EAGAIN, err):
		g.pidsLimit.Add(1)
	}
	return n, ctrl, err
}

func (g *guard) exec(c *call) (uintptr, *kernel.SyscallControl, error) {
	if g.noSpawn {
		g.spawnsRefused.Add(1)
		return 0, nil, linuxerr.EPERM
	}
	return c.proceed()
}

func (g *guard) unshare(c *call) (uintptr, *kernel.SyscallControl, error) {
	if c.args[0].Uint64()&namespaceFlags != 0 {
		return g.violate(c, rulePrivilege, "new namespace")
	}
	return c.proceed()
}

package sentry

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/kernel"

	"github.com/silk-sandbox/silk/driver/rules"
)

// privilegeCalls end the sandbox for what only somebody who wants out does, and refuse politely what ordinary programs
// probe. The kernel underneath would refuse nearly all of it anyway: the program has no capability.
func (g *guard) privilegeCalls() map[string]rule {
	return map[string]rule{
		"setuid": g.identity(1), "setgid": g.identity(1), "setfsuid": g.identity(1), "setfsgid": g.identity(1),
		"setreuid": g.identity(2), "setregid": g.identity(2), "setresuid": g.identity(3), "setresgid": g.identity(3),
		"setgroups":          g.setgroups,
		"capset":             g.capset,
		"ptrace":             g.ptrace,
		"process_vm_readv":   g.otherProcess,
		"process_vm_writev":  g.otherProcess,
		"mknod":              g.mknod(1),
		"mknodat":            g.mknod(2),
		"adjtimex":           g.clock(0),
		"clock_adjtime":      g.clock(1),
		"sched_setscheduler": g.scheduler,
		"sched_setattr":      g.schedulerAttributes,
		"setpriority":        g.priority,
	}
}

// identity ends the sandbox when one of the first n arguments is an id that is not the program's own. -1 means "leave".
func (g *guard) identity(n int) rule {
	return func(c *call) (uintptr, *kernel.SyscallControl, error) {
		for i := range n {
			if id := c.args[i].Uint(); id != userID && id != ^uint32(0) && g.on(rules.PrivilegeIdentity) {
				return g.violate(c, rules.PrivilegeIdentity, fmt.Sprintf("id %d", id))
			}
		}
		r, ctrl, err := c.proceed()
		g.seen(c, idsText(c, n), err)
		return r, ctrl, err
	}
}

// idsText are the first n arguments; -1 means "leave".
func idsText(c *call, n int) string {
	var text []string
	for i := range n {
		text = append(text, strconv.Itoa(int(c.args[i].Int())))
	}
	return strings.Join(text, " ")
}

// maxGroups is NGROUPS_MAX, include/uapi/linux/limits.h.
const maxGroups = 65536

func (g *guard) setgroups(c *call) (uintptr, *kernel.SyscallControl, error) {
	n := c.args[0].Int()
	if n <= 0 || n > maxGroups || !g.on(rules.PrivilegeGroups) {
		return c.proceed() // EPERM: that takes a capability
	}
	b := make([]byte, 4*n)
	if _, err := c.task.CopyInBytes(c.args[1].Pointer(), b); err != nil {
		return 0, nil, err
	}
	for ; len(b) > 0; b = b[4:] {
		if id := binary.LittleEndian.Uint32(b); id != userID {
			return g.violate(c, rules.PrivilegeGroups, fmt.Sprintf("group %d", id))
		}
	}
	return c.proceed()
}

// capset ends the sandbox when any capability is asked for: the program has none. Giving up none is fine.
func (g *guard) capset(c *call) (uintptr, *kernel.SyscallControl, error) {
	var header, data [24]byte
	if _, err := c.task.CopyInBytes(c.args[0].Pointer(), header[:4]); err != nil {
		return 0, nil, err
	}
	size := 24 // two struct user_cap_data_struct; version 1 has one (capset(2))
	if binary.LittleEndian.Uint32(header[:4]) == 0x19980330 {
		size = 12
	}
	if _, err := c.task.CopyInBytes(c.args[1].Pointer(), data[:size]); err != nil {
		return 0, nil, err
	}
	if data != [24]byte{} && g.on(rules.PrivilegeCapset) {
		return g.violate(c, rules.PrivilegeCapset, fmt.Sprintf("capabilities %x", data[:size]))
	}
	n, ctrl, err := c.proceed()
	g.seen(c, "", err)
	return n, ctrl, err
}

// ptrace lets a process be traced by its parent and by whoever shares its memory, which is how leak checkers stop their own
// threads, and nobody by anybody else.
func (g *guard) ptrace(c *call) (uintptr, *kernel.SyscallControl, error) {
	switch c.args[0].Int() {
	case unix.PTRACE_ATTACH, unix.PTRACE_SEIZE:
		pid := kernel.ThreadID(c.args[1].Int())
		target := c.task.PIDNamespace().TaskWithID(pid)
		if target == nil {
			return 0, nil, linuxerr.ESRCH
		}
		if parent := target.Parent(); (parent == nil || parent.ThreadGroup() != c.task.ThreadGroup()) && !sharesMemory(c.task, target) && g.on(rules.PrivilegePtrace) {
			return g.violate(c, rules.PrivilegePtrace, fmt.Sprintf("process %d is not a child", pid))
		}
	}
	return c.proceed()
}

// sharesMemory says whether two tasks have one address space. Either may do to it what a tracer could.
func sharesMemory(a, b *kernel.Task) (shares bool) {
	b.WithMuLocked(func(b *kernel.Task) { shares = b.MemoryManager() != nil && b.MemoryManager() == a.MemoryManager() })
	return shares
}

// otherProcess lets a process name itself, by the id of any of its threads, and what it traces.
func (g *guard) otherProcess(c *call) (uintptr, *kernel.SyscallControl, error) {
	pid := kernel.ThreadID(c.args[0].Int())
	if target := c.task.PIDNamespace().TaskWithID(pid); (target == nil || !mayEnter(c.task, target)) && g.on(rules.PrivilegeProcessVM) {
		return g.violate(c, rules.PrivilegeProcessVM, fmt.Sprintf("process %d", pid))
	}
	return c.proceed()
}

// mknod refuses devices; fifos, sockets and files are ordinary. mode is the index of the argument.
func (g *guard) mknod(mode int) rule {
	return func(c *call) (uintptr, *kernel.SyscallControl, error) {
		switch c.args[mode].ModeT() & linux.S_IFMT {
		case linux.S_IFCHR, linux.S_IFBLK:
			if g.on(rules.SystemNode) {
				return 0, nil, g.refuse(c, rules.SystemNode, "")
			}
		}
		return c.proceed()
	}
}

// clock lets the clock be read and not set. timex is the index of the argument; its first field is modes (adjtimex(2)).
func (g *guard) clock(timex int) rule {
	return func(c *call) (uintptr, *kernel.SyscallControl, error) {
		var modes [4]byte
		if _, err := c.task.CopyInBytes(c.args[timex].Pointer(), modes[:]); err != nil {
			return 0, nil, err
		}
		if modes != [4]byte{} && g.on(rules.SystemClock) {
			return 0, nil, g.refuse(c, rules.SystemClock, "")
		}
		return c.proceed()
	}
}

// scheduler refuses real-time policies.
func (g *guard) scheduler(c *call) (uintptr, *kernel.SyscallControl, error) {
	return g.realtime(c, c.args[1].Uint())
}

// schedulerAttributes is scheduler for sched_setattr(2): the policy is the second word of struct sched_attr.
func (g *guard) schedulerAttributes(c *call) (uintptr, *kernel.SyscallControl, error) {
	var attr [8]byte
	if _, err := c.task.CopyInBytes(c.args[1].Pointer(), attr[:]); err != nil {
		return 0, nil, err
	}
	return g.realtime(c, binary.LittleEndian.Uint32(attr[4:]))
}

func (g *guard) realtime(c *call, policy uint32) (uintptr, *kernel.SyscallControl, error) {
	const resetOnFork = 0x40000000 // SCHED_RESET_ON_FORK, include/uapi/linux/sched.h
	switch policy &^ resetOnFork {
	case unix.SCHED_FIFO, unix.SCHED_RR, unix.SCHED_DEADLINE:
		if g.on(rules.SystemRealtime) {
			return 0, nil, g.refuse(c, rules.SystemRealtime, fmt.Sprintf("policy %d", policy))
		}
	}
	return c.proceed()
}

// priority refuses what would take more than a fair share: a nice value below one's own.
func (g *guard) priority(c *call) (uintptr, *kernel.SyscallControl, error) {
	if nice := int(c.args[2].Int()); nice < c.task.Niceness() && g.on(rules.SystemRealtime) {
		return 0, nil, g.refuse(c, rules.SystemRealtime, fmt.Sprintf("nice %d", nice))
	}
	return c.proceed()
}

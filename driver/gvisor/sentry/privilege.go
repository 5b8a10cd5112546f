package sentry

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// privilegeRules end the sandbox for what only somebody who wants out does, and refuse politely what ordinary programs
// probe. The kernel underneath would refuse nearly all of it anyway: the program has no capability.
func (g *guard) privilegeRules() map[uintptr]rule {
	rules := map[uintptr]rule{
		unix.SYS_SETUID: g.identity(1), unix.SYS_SETGID: g.identity(1),
		unix.SYS_SETFSUID: g.identity(1), unix.SYS_SETFSGID: g.identity(1),
		unix.SYS_SETREUID: g.identity(2), unix.SYS_SETREGID: g.identity(2),
		unix.SYS_SETRESUID: g.identity(3), unix.SYS_SETRESGID: g.identity(3),
		unix.SYS_SETGROUPS:         g.setgroups,
		unix.SYS_CAPSET:            g.capset,
		unix.SYS_PTRACE:            g.ptrace,
		unix.SYS_PROCESS_VM_READV:  g.otherProcess,
		unix.SYS_PROCESS_VM_WRITEV: g.otherProcess,
		unix.SYS_MKNOD:             g.mknod(1),
		unix.SYS_MKNODAT:           g.mknod(2),
		unix.SYS_ADJTIMEX:          g.clock(0),
		unix.SYS_CLOCK_ADJTIME:     g.clock(1),
		unix.SYS_SCHED_SETSCHEDULER: func(c *call) (uintptr, *kernel.SyscallControl, error) {
			if policy := c.args[1].Int() &^ 0x40000000; policy == unix.SCHED_FIFO || policy == unix.SCHED_RR || policy == unix.SCHED_DEADLINE { // SCHED_RESET_ON_FORK
				return 0, nil, linuxerr.EPERM
			}
			return c.proceed()
		},
	}
	for _, nr := range []uintptr{
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
		unix.SYS_BPF, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	} {
		rules[nr] = g.fatal(rulePrivilege)
	}
	for _, nr := range []uintptr{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_USERFAULTFD} {
		rules[nr] = refuse(linuxerr.ENOSYS)
	}
	for _, nr := range []uintptr{
		unix.SYS_PERF_EVENT_OPEN, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETTIMEOFDAY,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_CHROOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_IOPL, unix.SYS_IOPERM,
		unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	} {
		rules[nr] = refuse(linuxerr.EPERM)
	}
	return rules
}

// identity ends the sandbox when one of the first n arguments is an id that is not the program's own. -1 means "leave".
func (g *guard) identity(n int) rule {
	return func(c *call) (uintptr, *kernel.SyscallControl, error) {
		for i := range n {
			if id := c.args[i].Uint(); id != userID && id != ^uint32(0) {
				return g.violate(c, rulePrivilege, fmt.Sprintf("id %d", id))
			}
		}
		return c.proceed()
	}
}

// maxGroups is NGROUPS_MAX, include/uapi/linux/limits.h.
const maxGroups = 65536

func (g *guard) setgroups(c *call) (uintptr, *kernel.SyscallControl, error) {
	n := c.args[0].Int()
	if n <= 0 || n > maxGroups {
		return 0, nil, linuxerr.EPERM
	}
	b := make([]byte, 4*n)
	if _, err := c.task.CopyInBytes(c.args[1].Pointer(), b); err != nil {
		return 0, nil, err
	}
	for ; len(b) > 0; b = b[4:] {
		if id := binary.LittleEndian.Uint32(b); id != userID {
			return g.violate(c, rulePrivilege, fmt.Sprintf("group %d", id))
		}
	}
	return 0, nil, linuxerr.EPERM
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
	if data != [24]byte{} {
		return g.violate(c, rulePrivilege, fmt.Sprintf("capabilities %x", data[:size]))
	}
	return c.proceed()
}

// ptrace lets a process be traced by its parent, and nobody by anybody else.
func (g *guard) ptrace(c *call) (uintptr, *kernel.SyscallControl, error) {
	switch c.args[0].Int() {
	case unix.PTRACE_ATTACH, unix.PTRACE_SEIZE:
		pid := kernel.ThreadID(c.args[1].Int())
		target := c.task.PIDNamespace().TaskWithID(pid)
		if target == nil {
			return 0, nil, linuxerr.ESRCH
		}
		if parent := target.Parent(); parent == nil || parent.ThreadGroup() != c.task.ThreadGroup() {
			return g.violate(c, rulePrivilege, fmt.Sprintf("process %d is not a child", pid))
		}
	}
	return c.proceed()
}

// otherProcess lets a process name itself, by the id of any of its threads.
func (g *guard) otherProcess(c *call) (uintptr, *kernel.SyscallControl, error) {
	pid := kernel.ThreadID(c.args[0].Int())
	if target := c.task.PIDNamespace().TaskWithID(pid); target == nil || target.ThreadGroup() != c.task.ThreadGroup() {
		return g.violate(c, rulePrivilege, fmt.Sprintf("process %d", pid))
	}
	return c.proceed()
}

// mknod refuses devices; fifos, sockets and files are ordinary. mode is the index of the argument.
func (g *guard) mknod(mode int) rule {
	return func(c *call) (uintptr, *kernel.SyscallControl, error) {
		switch c.args[mode].ModeT() & linux.S_IFMT {
		case linux.S_IFCHR, linux.S_IFBLK:
			return 0, nil, linuxerr.EPERM
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
		if modes != [4]byte{} {
			return 0, nil, linuxerr.EPERM
		}
		return c.proceed()
	}
}

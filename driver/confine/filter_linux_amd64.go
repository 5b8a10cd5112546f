package confine

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
)

// Offsets in struct seccomp_data, include/uapi/linux/seccomp.h.
const (
	offsetNumber = 0
	offsetArch   = 4
)

const (
	auditX8664 = 0xc000003e // AUDIT_ARCH_X86_64, include/uapi/linux/audit.h
	x32        = 0x40000000 // __X32_SYSCALL_BIT
	newest     = unix.SYS_MSEAL
)

// Filter is the seccomp filter of a program: it asks about every call that a rule may be about, and lets the others go on. Calls by another
// convention than that of x86-64 end the process, and those that are younger than the rules, or make a file that has no name, do not exist.
func (p Policy) Filter() []unix.SockFilter {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		above = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		give  = unix.BPF_RET | unix.BPF_K
	)
	absent := uint32(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
	program := []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: equal, Jt: 1, K: auditX8664},
		{Code: give, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: load, K: offsetNumber},
		{Code: least, Jf: 1, K: x32},
		{Code: give, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: above, Jf: 1, K: newest},
		{Code: give, K: absent},
		{Code: equal, Jf: 1, K: unix.SYS_MEMFD_CREATE},
		{Code: give, K: absent},
	}
	for _, number := range p.asked() {
		program = append(program, unix.SockFilter{Code: equal, Jf: 1, K: uint32(number)}, unix.SockFilter{Code: give, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	return append(program, unix.SockFilter{Code: give, K: unix.SECCOMP_RET_ALLOW})
}

// asked are the numbers of the calls that the filter asks about.
func (p Policy) asked() (list []int) {
	for name, number := range calls {
		free := p.Network == driver.NetworkDeny && slices.Contains([]string{"connect", "sendto", "sendmsg", "sendmmsg"}, name) || // there are no sockets but of AF_UNIX
			slices.Contains([]string{"fallocate", "mincore"}, name)
		if !free {
			list = append(list, number)
		}
	}
	slices.Sort(list)
	return list
}

// Kept are the rules that the filter and its answers hold, by name: all of the table but those about a kernel in user space.
func Kept() (list []string) {
	for _, r := range rules.All() {
		if r.Name != rules.ResourceFallocate && r.Name != rules.ResourceMincore {
			list = append(list, r.Name)
		}
	}
	return list
}

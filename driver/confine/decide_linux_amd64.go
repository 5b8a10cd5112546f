package docker

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch/bpf"
)

// Answers of the filter.
var (
	forbidden = answer(bpf.Forbidden) // the kernel's programs end the sandbox when they see it: the call has had no effect
	ask       = uint32(unix.SECCOMP_RET_USER_NOTIF)
	permitted = uint32(unix.SECCOMP_RET_ALLOW)
)

func answer(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// secrets are addresses that nobody but the launcher knows, and it only once.
type secrets struct {
	path, argv, envp uint64 // of the one execve
	message          uint64 // of the message with the listener
}

// filter decides on every system call of a program, by the table of driver/rules: what is allowed, refused with an errno,
// forbidden, or asked about because it depends on what an argument points to. It is the same for the same arguments.
//
// It comes on top of the engine's own profile (seccompProfile), of which it is a narrower one; of two refusals the kernel
// takes the one of the filter that came last, which is this one.
func filter(network driver.Network, noSpawn bool, s secrets) ([]instruction, error) {
	var calls []call
	seen := map[string]int{}
	add := func(name string, clauses ...clause) error {
		number, ok := bpf.CallNumber(name)
		if !ok {
			return fmt.Errorf("filter: there is no system call %q", name)
		}
		if at, ok := seen[name]; ok { // several rules are about it: the first one that has an answer counts
			calls[at].clauses = append(calls[at].clauses, clauses...)
			return nil
		}
		seen[name] = len(calls)
		calls = append(calls, call{number, clauses})
		return nil
	}
	for _, name := range []string{"open", "openat", "creat"} {
		if err := add(name, clause{answer: ask}); err != nil {
			return nil, err
		}
	}
	for _, r := range rules.All() {
		if r.Name == rules.ProcessSpawn && !noSpawn {
			continue
		}
		for _, name := range r.Calls {
			if err := add(name, clauses(r, name, network, s)...); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range []string{"prlimit64", "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"} { // nobody touches process 1
		if err := add(name, clause{[]cond{{arg: 0, op: is32, value: 1}}, answer(unix.EPERM)}); err != nil {
			return nil, err
		}
	}
	// Input for a terminal that is read by somebody else.
	err := add("ioctl", clause{[]cond{{arg: 1, op: is32, value: unix.TIOCSTI}}, answer(unix.EPERM)}, clause{[]cond{{arg: 1, op: is32, value: unix.TIOCLINUX}}, answer(unix.EPERM)})
	if err != nil {
		return nil, err
	}
	if !noSpawn { // what is executed is a file that is opened; the first one is the run's own command
		own := clause{[]cond{{arg: 0, op: is, value: s.path}, {arg: 1, op: is, value: s.argv}, {arg: 2, op: is, value: s.envp}}, permitted}
		if err := errors.Join(add("execve", own, clause{answer: ask}), add("execveat", clause{answer: ask})); err != nil {
			return nil, err
		}
	}
	known := map[string]bool{}
	for name := range strings.FieldsSeq(ordinary) {
		known[name] = true
	}
	for number := range callNumbers {
		if name := bpf.CallName(number); !known[name] {
			if _, ok := seen[name]; !ok || name == "" {
				calls = append(calls, call{number, []clause{{answer: answer(unix.ENOSYS)}}})
			}
		}
	}
	return assemble(calls, answer(unix.ENOSYS))
}

// callNumbers is above every system call that there is: what has a higher number, or another convention, is not there.
const callNumbers = 512

// New namespaces, clone(2) and unshare(2).
const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	socketTypes   = 0xf // SOCK_TYPE_MASK, include/linux/net.h
)

// clauses are what a rule says about one of its calls.
func clauses(r rules.Rule, name string, network driver.Network, s secrets) []clause {
	all := clause{answer: refusal(r)}
	arg := func(n int, op op, value uint64) cond { return cond{arg: n, op: op, value: value} }
	switch r.Name {
	case rules.NetworkInet, rules.NetworkRaw, rules.NetworkPacket, rules.NetworkVsock, rules.NetworkFamily:
		return socketClauses(r, network)
	case rules.NetworkOutside:
		switch {
		case network == driver.NetworkDeny: // there are no sockets but of AF_UNIX
			return nil
		case name == "sendto":
			return []clause{{[]cond{arg(4, is, 0)}, permitted}, {answer: ask}}
		case name == "sendmsg": // of the launcher, once
			return []clause{{[]cond{arg(1, is, s.message)}, permitted}, {answer: ask}}
		}
		return []clause{{answer: ask}}
	case rules.PrivilegeNamespace:
		switch name {
		case "clone":
			return []clause{{[]cond{arg(0, any32, newNamespaces)}, all.answer}}
		case "unshare":
			return []clause{{[]cond{arg(0, any32, newNamespaces|unix.CLONE_NEWTIME)}, all.answer}}
		}
	case rules.ProcessSpawn:
		switch name {
		case "clone":
			return []clause{{[]cond{arg(0, any32, unix.CLONE_THREAD)}, permitted}, all}
		case "execve":
			return []clause{{[]cond{arg(0, is, s.path), arg(1, is, s.argv), arg(2, is, s.envp)}, permitted}, all}
		}
	case rules.PrivilegeIdentity:
		return identityClauses(name, all.answer)
	case rules.PrivilegeGroups:
		return []clause{{[]cond{arg(0, is32, 0)}, answer(unix.EPERM)}, all}
	case rules.PrivilegeCapset, rules.PrivilegeProcessVM:
		return []clause{{answer: ask}}
	case rules.PrivilegePtrace: // a tracee of one's own cannot be had here: the engine loses containers whose processes are traced
		return []clause{{[]cond{arg(0, is, unix.PTRACE_ATTACH)}, all.answer}, {[]cond{arg(0, is, unix.PTRACE_SEIZE)}, all.answer}, {answer: answer(unix.EPERM)}}
	case rules.SystemClock:
		if name == "adjtimex" || name == "clock_adjtime" { // reading is free; the kernel refuses the rest
			return nil
		}
	case rules.SystemNode:
		mode := 1
		if name == "mknodat" {
			mode = 2
		}
		return []clause{
			{[]cond{{mode, masked, unix.S_IFCHR, unix.S_IFMT}}, all.answer},
			{[]cond{{mode, masked, unix.S_IFBLK, unix.S_IFMT}}, all.answer},
		}
	case rules.SystemRealtime:
		switch name {
		case "setpriority": // below that of the beginning, which is 0
			return []clause{{[]cond{arg(2, any32, 1<<31)}, all.answer}}
		case "sched_setattr": // the kernel looks at what the argument points to
			return nil
		}
		var list []clause
		for _, class := range []uint64{unix.SCHED_FIFO, unix.SCHED_RR, unix.SCHED_DEADLINE} {
			list = append(list, clause{[]cond{{1, masked, class, ^uint32(unix.SCHED_RESET_ON_FORK)}}, all.answer})
		}
		return list
	case rules.ResourceFallocate, rules.ResourceMincore: // about a kernel in user space; this one has its own limits
		return nil
	}
	return []clause{all}
}

// refusal is the answer to what a rule refuses.
func refusal(r rules.Rule) uint32 {
	if r.Action == rules.Kill {
		return forbidden
	}
	errno, ok := errnos[r.Errno]
	if !ok { // an unknown one denies
		errno = unix.EPERM
	}
	return answer(errno)
}

// errnos are those of the table.
var errnos = map[string]unix.Errno{"EPERM": unix.EPERM, "EACCES": unix.EACCES, "ENOENT": unix.ENOENT, "ENOSYS": unix.ENOSYS, "EAFNOSUPPORT": unix.EAFNOSUPPORT, "ENOSPC": unix.ENOSPC, "ENOMEM": unix.ENOMEM}

// socketClauses are about the family, the first argument, and the type, the second.
func socketClauses(r rules.Rule, network driver.Network) (list []clause) {
	family := func(n uint64) cond { return cond{arg: 0, op: is32, value: n} }
	raw := cond{1, masked, unix.SOCK_RAW, socketTypes}
	switch r.Name {
	case rules.NetworkInet: // raw ones have a rule of their own
		for _, n := range []uint64{unix.AF_INET, unix.AF_INET6} {
			list = append(list, clause{[]cond{family(n), raw}, forbidden})
			if network == driver.NetworkDeny {
				list = append(list, clause{[]cond{family(n)}, forbidden})
			} else {
				list = append(list, clause{[]cond{family(n)}, permitted})
			}
		}
	case rules.NetworkPacket:
		list = append(list, clause{[]cond{family(unix.AF_PACKET)}, forbidden})
	case rules.NetworkVsock:
		list = append(list, clause{[]cond{family(unix.AF_VSOCK)}, forbidden})
	case rules.NetworkFamily: // what is left of them, which comes last in the table
		list = append(list, clause{[]cond{family(unix.AF_UNIX)}, permitted}, clause{answer: refusal(r)})
	}
	return list
}

// identityClauses let a program become what it is.
func identityClauses(name string, refused uint32) (list []clause) {
	args := map[string]int{"setreuid": 2, "setregid": 2, "setresuid": 3, "setresgid": 3}[name]
	for n := range max(args, 1) {
		list = append(list, clause{[]cond{{arg: n, op: isNot32, value: user}, {arg: n, op: isNot32, value: 0xffffffff}}, refused})
	}
	return list
}

package confine

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
)

// Secrets are addresses that nobody knows but who becomes the program, and it only once.
type Secrets struct {
	Path, Argv, Envp uint64 // of the one execve
	Message          uint64 // of the message that hands over the listener
}

// decider is a policy in the filter's own words.
type decider struct {
	Policy
	Secrets
	forbidden uint32
}

// Deciding is a filter that decides by itself, by the table of driver/rules: what is allowed, refused with an errno, or forbidden, which is
// an errno as well, at whose sight somebody else ends the program before the call has had an effect. It asks about what depends on what an argument
// points to. It is the same for the same arguments.
//
// Of two refusals the kernel takes the one of the filter that came last: this one, on top of a container engine's own.
func (p Policy) Deciding(s Secrets, forbidden unix.Errno) ([]unix.SockFilter, error) {
	d := decider{p, s, answer(forbidden)}
	t := newTable()
	for _, name := range opening {
		if err := t.add(name, clause{answer: ask}); err != nil {
			return nil, err
		}
	}
	for _, r := range rules.All() {
		if r.Name == rules.ProcessSpawn && !p.NoSpawn {
			continue
		}
		for _, name := range r.Calls {
			if err := t.add(name, d.clauses(r, name)...); err != nil {
				return nil, err
			}
		}
	}
	if !p.NoSpawn { // what is executed is a file that is opened; the first one is the run's own command
		own := clause{[]cond{{arg: 0, op: is, value: s.Path}, {arg: 1, op: is, value: s.Argv}, {arg: 2, op: is, value: s.Envp}}, permitted}
		if err := errors.Join(t.add("execve", own, clause{answer: ask}), t.add("execveat", clause{answer: ask})); err != nil {
			return nil, err
		}
	}
	return t.program()
}

// clauses are what a rule says about one of its calls.
func (d decider) clauses(r rules.Rule, name string) []clause {
	all := clause{answer: d.refusal(r)}
	arg := func(n int, op op, value uint64) cond { return cond{arg: n, op: op, value: value} }
	switch r.Name {
	case rules.NetworkInet, rules.NetworkRaw, rules.NetworkPacket, rules.NetworkVsock, rules.NetworkFamily:
		return d.socketClauses(r)
	case rules.NetworkOutside:
		switch {
		case d.Network == driver.NetworkDeny, d.Network == driver.NetworkLink: // there are no sockets but of AF_UNIX; or whoever has the link decides
			return nil
		case name == "sendto":
			return []clause{{[]cond{arg(4, is, 0)}, permitted}, {answer: ask}}
		case name == "sendmsg": // of who becomes the program, once
			return []clause{{[]cond{arg(1, is, d.Message)}, permitted}, {answer: ask}}
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
			return []clause{{[]cond{arg(0, is, d.Path), arg(1, is, d.Argv), arg(2, is, d.Envp)}, permitted}, all}
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
func (d decider) refusal(r rules.Rule) uint32 {
	if r.Action == rules.Kill {
		return d.forbidden
	}
	return answer(Errno(r))
}

// socketClauses are about the family, the first argument, and the type, the second.
func (d decider) socketClauses(r rules.Rule) (list []clause) {
	family := func(n uint64) cond { return cond{arg: 0, op: is32, value: n} }
	raw := cond{1, masked, unix.SOCK_RAW, socketTypes}
	switch r.Name {
	case rules.NetworkInet: // raw ones have a rule of their own
		for _, n := range []uint64{unix.AF_INET, unix.AF_INET6} {
			list = append(list, clause{[]cond{family(n), raw}, d.forbidden})
			if d.Network == driver.NetworkDeny {
				list = append(list, clause{[]cond{family(n)}, d.forbidden})
				continue
			}
			for _, p := range protocols {
				list = append(list, clause{[]cond{family(n), {1, masked, p.kind, socketTypes}, {arg: 2, op: is32, value: p.number}}, permitted})
			}
			list = append(list, clause{[]cond{family(n)}, answer(unix.EPROTONOSUPPORT)})
		}
	case rules.NetworkPacket:
		list = append(list, clause{[]cond{family(unix.AF_PACKET)}, d.forbidden})
	case rules.NetworkVsock:
		list = append(list, clause{[]cond{family(unix.AF_VSOCK)}, d.forbidden})
	case rules.NetworkFamily: // what is left of them, which comes last in the table
		list = append(list, clause{[]cond{family(unix.AF_UNIX)}, permitted}, clause{answer: d.refusal(r)})
	}
	return list
}

// protocols are what INET sockets speak: what a kernel in user space has. For others the host's would load modules.
var protocols = []struct{ kind, number uint64 }{
	{unix.SOCK_STREAM, 0},
	{unix.SOCK_STREAM, unix.IPPROTO_TCP},
	{unix.SOCK_DGRAM, 0},
	{unix.SOCK_DGRAM, unix.IPPROTO_UDP},
	{unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
	{unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, // an echo
}

// identityClauses let a program become what it is.
func identityClauses(name string, refused uint32) (list []clause) {
	args := map[string]int{"setreuid": 2, "setregid": 2, "setresuid": 3, "setresgid": 3}[name]
	for n := range max(args, 1) {
		list = append(list, clause{[]cond{{arg: n, op: isNot32, value: User}, {arg: n, op: isNot32, value: 0xffffffff}}, refused})
	}
	return list
}

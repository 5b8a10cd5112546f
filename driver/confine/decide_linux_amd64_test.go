package confine

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/internal/calltable"
)

// sight is what a forbidden call fails with here.
const sight = unix.Errno(4090)

// answers runs a filter, for calls by name.
func answers(t *testing.T, program []unix.SockFilter) func(name string, args ...uint64) uint32 {
	t.Helper()
	run := execute(t, program)
	return func(name string, args ...uint64) uint32 {
		t.Helper()
		number, ok := calltable.Number(name)
		if !ok {
			t.Fatalf("there is no call %q", name)
		}
		return run(auditX8664, uint32(number), args...)
	}
}

// execute runs a filter as the kernel does.
func execute(t *testing.T, program []unix.SockFilter) func(arch, number uint32, args ...uint64) uint32 {
	t.Helper()
	var raw []bpf.RawInstruction
	for _, i := range program {
		raw = append(raw, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	code, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter has instructions that nobody knows")
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	return func(arch, number uint32, args ...uint64) uint32 {
		t.Helper()
		words := []uint32{number, arch, 0, 0}
		for i := range 6 {
			var a uint64
			if i < len(args) {
				a = args[i]
			}
			words = append(words, uint32(a), uint32(a>>32))
		}
		var data []byte
		for _, w := range words {
			data = binary.BigEndian.AppendUint32(data, w) // as that machine loads; the kernel's loads what is native
		}
		answer, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(answer)
	}
}

func TestDeciding(t *testing.T) {
	s := Secrets{Path: 0x123456789000, Argv: 0x223456789008, Envp: 0x323456789010, Message: 0x423456789018}
	forbidden := answer(sight)
	const (
		minus1  = 1<<64 - 1
		process = unix.CLONE_CHILD_SETTID | uint64(unix.SIGCHLD)
		thread  = unix.CLONE_VM | unix.CLONE_THREAD
	)
	for _, test := range []struct {
		name    string
		network driver.Network
		noSpawn bool
		call    string
		args    []uint64
		want    uint32
	}{
		{"an ordinary call", "deny", false, "read", nil, permitted},
		{"opening is asked about", "deny", false, "openat", nil, ask},
		{"opening with a struct", "deny", false, "openat2", nil, answer(unix.ENOSYS)},
		{"a socket of this machine", "deny", false, "socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, permitted},
		{"a socket that is forbidden", "deny", false, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, forbidden},
		{"the same, with rubbish in the upper half", "deny", false, "socket", []uint64{unix.AF_INET6 | 7<<32, unix.SOCK_DGRAM}, forbidden},
		{"a socket that is not", "loopback", false, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM}, permitted},
		{"the same where there is a link", "link", false, "socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, unix.IPPROTO_UDP}, permitted},
		{"a socket for echoes", "link", false, "socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, permitted},
		{"a protocol that would load a module", "link", false, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, answer(unix.EPROTONOSUPPORT)},
		{"a kind that would", "loopback", false, "socket", []uint64{unix.AF_INET6, unix.SOCK_SEQPACKET}, answer(unix.EPROTONOSUPPORT)},
		{"a raw socket where there is a link", "link", false, "socket", []uint64{unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_TCP}, forbidden},
		{"frames where there is a link", "link", false, "socket", []uint64{unix.AF_PACKET, unix.SOCK_DGRAM}, forbidden},
		{"the kernel's tables where there is a link", "link", false, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW}, answer(unix.EAFNOSUPPORT)},
		{"connect where there is a link", "link", false, "connect", nil, permitted},
		{"sending where there is a link", "link", false, "sendto", []uint64{3, 1, 1, 0, 1 << 40}, permitted},
		{"a raw socket", "loopback", false, "socket", []uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_NONBLOCK}, forbidden},
		{"frames", "loopback", false, "socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, forbidden},
		{"the way to a hypervisor", "loopback", false, "socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, forbidden},
		{"a family that nobody needs", "loopback", false, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW}, answer(unix.EAFNOSUPPORT)},
		{"connect without a network", "deny", false, "connect", nil, permitted},
		{"connect is asked about", "loopback", false, "connect", nil, ask},
		{"sending to nobody new", "loopback", false, "sendto", []uint64{3, 1, 1, 0, 0}, permitted},
		{"sending to somebody", "loopback", false, "sendto", []uint64{3, 1, 1, 0, 1 << 40}, ask},
		{"the launcher's own message", "loopback", false, "sendmsg", []uint64{3, s.Message}, permitted},
		{"a message that is nearly that", "loopback", false, "sendmsg", []uint64{3, s.Message ^ 1<<40}, ask},
		{"a process", "deny", false, "clone", []uint64{process}, permitted},
		{"a process in a namespace of its own", "deny", false, "clone", []uint64{process | unix.CLONE_NEWUSER}, forbidden},
		{"a new kind of clone", "deny", false, "clone3", nil, answer(unix.ENOSYS)},
		{"a thread without spawn", "deny", true, "clone", []uint64{thread}, permitted},
		{"a process without spawn", "deny", true, "clone", []uint64{process}, answer(unix.EPERM)},
		{"a namespace without spawn", "deny", true, "clone", []uint64{thread | unix.CLONE_NEWNET}, forbidden},
		{"fork without spawn", "deny", true, "fork", nil, answer(unix.EPERM)},
		{"fork", "deny", false, "fork", nil, permitted},
		{"the one exec", "deny", true, "execve", []uint64{s.Path, s.Argv, s.Envp}, permitted},
		{"another program", "deny", true, "execve", []uint64{s.Path + 1, s.Argv, s.Envp}, answer(unix.EPERM)},
		{"other arguments", "deny", true, "execve", []uint64{s.Path, s.Argv ^ 1<<33, s.Envp}, answer(unix.EPERM)},
		{"another environment", "deny", true, "execve", []uint64{s.Path, s.Argv, 0}, answer(unix.EPERM)},
		{"an exec by descriptor", "deny", true, "execveat", nil, answer(unix.EPERM)},
		{"exec is asked about", "deny", false, "execve", nil, ask},
		{"the run's own command", "deny", false, "execve", []uint64{s.Path, s.Argv, s.Envp}, permitted},
		{"ending process 1", "deny", false, "kill", []uint64{1, 9}, answer(unix.EPERM)},
		{"ending another", "deny", false, "kill", []uint64{2, 9}, permitted},
		{"a call that nobody needs", "deny", false, "uselib", nil, answer(unix.ENOSYS)},
		{"a better nice value", "deny", false, "setpriority", []uint64{0, 0, 1<<64 - 5}, answer(unix.EPERM)},
		{"a worse one", "deny", false, "setpriority", []uint64{0, 0, 5}, permitted},
		{"unshare of what is no namespace", "deny", false, "unshare", []uint64{unix.CLONE_FILES}, permitted},
		{"unshare", "deny", false, "unshare", []uint64{unix.CLONE_NEWTIME}, forbidden},
		{"joining a namespace", "deny", true, "setns", nil, forbidden},
		{"staying who one is", "deny", false, "setuid", []uint64{User}, permitted},
		{"becoming somebody", "deny", false, "setuid", []uint64{0}, forbidden},
		{"staying, in three parts", "deny", false, "setresuid", []uint64{User, minus1, User}, permitted},
		{"becoming somebody in one of them", "deny", false, "setresuid", []uint64{User, minus1, 0}, forbidden},
		{"dropping groups", "deny", false, "setgroups", []uint64{0}, answer(unix.EPERM)},
		{"joining one", "deny", false, "setgroups", []uint64{1}, forbidden},
		{"capabilities are asked about", "deny", false, "capset", nil, ask},
		{"tracing a process", "deny", false, "ptrace", []uint64{unix.PTRACE_ATTACH, 5}, forbidden},
		{"being traced", "deny", false, "ptrace", []uint64{unix.PTRACE_TRACEME}, answer(unix.EPERM)},
		{"mount", "deny", false, "mount", nil, forbidden},
		{"bpf", "deny", false, "bpf", nil, forbidden},
		{"io_uring", "deny", false, "io_uring_setup", nil, answer(unix.ENOSYS)},
		{"a file in memory", "deny", false, "memfd_create", nil, answer(unix.ENOSYS)},
		{"a fifo", "deny", false, "mknodat", []uint64{0, 0, unix.S_IFIFO | 0o644}, permitted},
		{"a device", "deny", false, "mknodat", []uint64{0, 0, unix.S_IFCHR | 0o644}, answer(unix.EPERM)},
		{"a real-time policy", "deny", false, "sched_setscheduler", []uint64{0, unix.SCHED_FIFO | unix.SCHED_RESET_ON_FORK}, answer(unix.EPERM)},
		{"an ordinary policy", "deny", false, "sched_setscheduler", []uint64{0, unix.SCHED_BATCH}, permitted},
		{"limits of process 1", "deny", false, "prlimit64", []uint64{1}, answer(unix.EPERM)},
		{"one's own limits", "deny", false, "prlimit64", []uint64{0}, permitted},
		{"typing into a terminal", "deny", false, "ioctl", []uint64{0, unix.TIOCSTI}, answer(unix.EPERM)},
		{"reading the clock's state", "deny", false, "adjtimex", nil, permitted},
		{"setting the clock", "deny", false, "clock_settime", nil, answer(unix.EPERM)},
	} {
		t.Run(test.name, func(t *testing.T) {
			program, err := Policy{Network: test.network, NoSpawn: test.noSpawn}.Deciding(s, sight)
			if err != nil {
				t.Fatal(err)
			}
			if got := answers(t, program)(test.call, test.args...); got != test.want {
				t.Errorf("%s%v: %#x, want %#x", test.call, test.args, got, test.want)
			}
		})
	}
}

// TestEveryRuleIsHeld: no rule about calls is forgotten by a filter that decides.
func TestEveryRuleIsHeld(t *testing.T) {
	program, err := Policy{Network: driver.NetworkLoopback, NoSpawn: true}.Deciding(Secrets{}, sight)
	if err != nil {
		t.Fatal(err)
	}
	run := answers(t, program)
	// What no argument here makes the filter answer: the kernel refuses it, or has no need to.
	kernels := []string{"adjtimex", "clock_adjtime", "sched_setattr", "fallocate", "mincore"}
	for _, r := range rules.All() {
		for _, name := range r.Calls {
			held := run(name) != permitted
			for _, args := range [][]uint64{{unix.CLONE_NEWUSER}, {unix.AF_PACKET}, {5, 1, 1, 1, 1}, {0, unix.SCHED_FIFO}, {0, unix.S_IFCHR, unix.S_IFCHR}, {0, 0, 1<<32 - 5}} {
				held = held || run(name, args...) != permitted
			}
			isKernels := false
			for _, k := range kernels {
				isKernels = isKernels || k == name
			}
			if held == isKernels {
				t.Errorf("rule %s, %s: held by the filter: %t", r.Name, name, held)
			}
		}
	}
}

// TestFiltersAgree: what one filter decides is what the other's question is answered with, for every call of a rule.
func TestFiltersAgree(t *testing.T) {
	for _, p := range []Policy{
		{Network: driver.NetworkDeny}, {Network: driver.NetworkLoopback}, {Network: driver.NetworkLink}, {Network: driver.NetworkDeny, NoSpawn: true},
	} {
		program, err := p.Deciding(Secrets{Path: 1 << 40}, sight)
		if err != nil {
			t.Fatal(err)
		}
		deciding := answers(t, program)
		if program, err = p.Asking(); err != nil {
			t.Fatal(err)
		}
		asking := answers(t, program)
		for _, r := range rules.All() {
			for _, name := range r.Calls {
				for _, args := range [][6]uint64{
					{},
					{unix.AF_INET, unix.SOCK_STREAM},
					{unix.AF_INET6, unix.SOCK_RAW},
					{unix.AF_PACKET},
					{unix.AF_VSOCK},
					{unix.AF_NETLINK},
					{unix.CLONE_NEWUSER},
					{unix.CLONE_VM | unix.CLONE_THREAD},
					{5, 1, 1, 1, 1},
					{0, unix.SCHED_FIFO},
					{0, unix.SCHED_BATCH},
					{0, unix.S_IFCHR, unix.S_IFCHR},
					{0, unix.S_IFIFO, unix.S_IFIFO},
					{User, User, User},
					{User, 1<<64 - 1, 0},
					{0, 0, 1<<32 - 5},
					{unix.PTRACE_ATTACH},
					{1, 1},
				} {
					decided := deciding(name, args[:]...)
					if decided == ask {
						continue
					}
					rule, _ := p.Judge(Call{Name: name, Args: args, Self: 7})
					if asking(name, args[:]...) != ask {
						rule = rules.Rule{}
					}
					kills, goesOn := rule.Action == rules.Kill, rule.Name == ""
					if decided == answer(sight) != kills || decided == permitted && !goesOn {
						t.Errorf("%s %t: %s%v is decided as %#x, and judged by %q", p.Network, p.NoSpawn, name, args, decided, rule.Name)
					}
				}
			}
		}
	}
}

package confine

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
)

func TestJudge(t *testing.T) {
	deny := Policy{Network: driver.NetworkDeny, Trees: []string{"/usr"}}
	loopback := Policy{Network: driver.NetworkLoopback, Trees: []string{"/usr"}}
	still := Policy{Network: driver.NetworkDeny, NoSpawn: true, Trees: []string{"/usr"}}
	const all = 1<<64 - 1
	file := func(path string) Call { return Call{Name: "openat", Self: 5, Object: Object{Path: path}} }
	run := func(path string) Call { return Call{Name: "execve", Self: 5, Object: Object{Path: path}} }
	call := func(name string, args ...uint64) Call {
		c := Call{Name: name, Self: 5}
		copy(c.Args[:], args)
		return c
	}
	outside := call("connect")
	outside.To = netip.MustParseAddrPort("192.0.2.1:80")
	raises := call("capset")
	raises.Raises = true
	first := run("/usr/bin/env")
	first.First = true
	absent := file("/opt/none")
	absent.Object.Absent = true
	absentSecret := file("/etc/shadow")
	absentSecret.Object.Absent = true
	for _, test := range []struct {
		name   string
		policy Policy
		call   Call
		want   string // rule; "" goes on
	}{
		{"a file of the image", deny, file("/usr/bin/env"), ""},
		{"accounts", deny, file("/etc/passwd"), rules.FileAccounts},
		{"accounts that are not there", deny, absentSecret, rules.FileAccounts},
		{"a file in no tree", deny, file("/etc/debian_version"), rules.FileUnlisted},
		{"nothing in no tree", deny, absent, ""},
		{"its own environment", deny, file("/proc/5/environ"), ""},
		{"another's environment", deny, file("/proc/6/environ"), rules.FileEnviron},
		{"a device of a host", deny, file("/dev/vda"), rules.FileDevice},
		{"a probe", deny, file("/sys/fs/cgroup/memory.max"), rules.FileProbe},
		{"hardware", deny, file("/sys/class/net"), rules.FileSys},
		{"a pipe", deny, Call{Name: "openat", Object: Object{Anonymous: true}}, ""},
		{"a program of the image", deny, run("/usr/bin/env"), ""},
		{"a program in no tree", deny, run("/opt/x"), rules.FileUnlisted},
		{"a program of its own", deny, run("/workspace/x"), ""},
		{"accounts, executed", deny, run("/etc/passwd"), rules.FileAccounts},

		{"a local socket", deny, call("socket", unix.AF_UNIX, unix.SOCK_STREAM), ""},
		{"INET, denied", deny, call("socket", unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC), rules.NetworkInet},
		{"INET6, denied", deny, call("socket", unix.AF_INET6, unix.SOCK_DGRAM), rules.NetworkInet},
		{"INET, with garbage above", deny, call("socket", 7<<32|unix.AF_INET, unix.SOCK_STREAM), rules.NetworkInet},
		{"INET, loopback", loopback, call("socket", unix.AF_INET, unix.SOCK_STREAM), ""},
		{"raw", loopback, call("socket", unix.AF_INET, unix.SOCK_RAW|unix.SOCK_NONBLOCK), rules.NetworkRaw},
		{"raw, denied", deny, call("socket", unix.AF_INET, unix.SOCK_RAW), rules.NetworkRaw},
		{"packets", loopback, call("socket", unix.AF_PACKET, unix.SOCK_DGRAM), rules.NetworkPacket},
		{"the way to the host", loopback, call("socket", unix.AF_VSOCK, unix.SOCK_STREAM), rules.NetworkVsock},
		{"netlink", loopback, call("socket", unix.AF_NETLINK, unix.SOCK_RAW), rules.NetworkFamily},
		{"to itself", loopback, call("connect"), ""},
		{"outside", loopback, outside, rules.NetworkOutside},

		{"a process", deny, call("clone", uint64(unix.SIGCHLD)), ""},
		{"a process in a namespace", deny, call("clone", unix.CLONE_NEWUSER|uint64(unix.SIGCHLD)), rules.PrivilegeNamespace},
		{"a namespace", deny, call("unshare", unix.CLONE_NEWTIME), rules.PrivilegeNamespace},
		{"its own files", deny, call("unshare", unix.CLONE_FILES), ""},
		{"another's namespace", deny, call("setns", 3, 0), rules.PrivilegeNamespace},
		{"a mount", deny, call("mount"), "privilege.mount"},
		{"what it is", deny, call("setresuid", 1000, all, 1000), ""},
		{"root", deny, call("setuid", 0), rules.PrivilegeIdentity},
		{"root among others", deny, call("setresgid", 1000, 1000, 0), rules.PrivilegeIdentity},
		{"no groups", deny, call("setgroups", 0, 0), ""},
		{"a group", deny, call("setgroups", 1, 0), rules.PrivilegeGroups},
		{"no capability", deny, call("capset"), ""},
		{"a capability", deny, raises, rules.PrivilegeCapset},
		{"being traced", deny, call("ptrace", unix.PTRACE_TRACEME), ""},
		{"tracing", deny, call("ptrace", unix.PTRACE_ATTACH, 7), rules.PrivilegePtrace},
		{"its own memory", deny, call("process_vm_readv", 5), ""},
		{"another's memory", deny, call("process_vm_readv", 6), rules.PrivilegeProcessVM},
		{"a module", deny, call("finit_module"), "privilege.module"},
		{"a program in the kernel", deny, call("bpf"), "privilege.bpf"},

		{"spawning", still, call("clone", uint64(unix.SIGCHLD)), rules.ProcessSpawn},
		{"a thread", still, call("clone", unix.CLONE_VM|unix.CLONE_THREAD), ""},
		{"forking", still, call("vfork"), rules.ProcessSpawn},
		{"the run's own command", still, first, ""},
		{"a second command", still, run("/usr/bin/env"), rules.ProcessSpawn},

		{"a fifo", deny, call("mknodat", 0, 0, unix.S_IFIFO|0o644), ""},
		{"a device", deny, call("mknodat", 0, 0, unix.S_IFBLK|0o644), rules.SystemNode},
		{"a device, the old way", deny, call("mknod", 0, unix.S_IFCHR|0o644), rules.SystemNode},
		{"reading the clock", deny, call("adjtimex"), ""},
		{"setting the clock", deny, call("clock_settime"), rules.SystemClock},
		{"an ordinary class", deny, call("sched_setscheduler", 0, 0), ""},
		{"real time", deny, call("sched_setscheduler", 0, unix.SCHED_FIFO|unix.SCHED_RESET_ON_FORK), rules.SystemRealtime},
		{"being nice", deny, call("setpriority", 0, 0, 5), ""},
		{"not being nice", deny, call("setpriority", 0, 0, 1<<32-5), rules.SystemRealtime},
		{"clone3", deny, call("clone3"), "process.clone3"},
		{"io_uring", deny, call("io_uring_setup"), "system.io_uring"},
		{"openat2", deny, call("openat2"), "file.openat2"},
		{"a large file", deny, call("fallocate"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, argument := test.policy.Judge(test.call); got.Name != test.want {
				t.Errorf("rule %q about %q, want %q", got.Name, argument, test.want)
			}
		})
	}
}

package selftest

import "github.com/silk-sandbox/silk/driver/rules"

func mounts() []Row {
	const rule = "privilege.mount"
	refused, absent := behind(kernel("EPERM", noCapability)), behind(kernel("ENOSYS", absentCall))
	return class(
		"mounts", rule, refused,
		Row{Name: "a file system of one's own", Attack: do("mount", "tmpfs")},
		Row{Name: "another place for a directory", Attack: do("mount", "bind")},
		Row{Name: "a writable root", Attack: do("mount", "writable")},
		Row{Name: "umount2(2)", Attack: do("mount-other", "umount2")},
		Row{Name: "pivot_root(2)", Attack: do("mount-other", "pivot_root")},
		Row{Name: "fsopen(2)", Attack: do("mount-other", "fsopen")},
		Row{Name: "fsconfig(2)", Attack: do("mount-other", "fsconfig"), Behind: behind(kernel("EBADF", "there is no descriptor to configure"))},
		Row{Name: "fsmount(2)", Attack: do("mount-other", "fsmount")},
		Row{Name: "fspick(2)", Attack: do("mount-other", "fspick"), Behind: absent},
		Row{Name: "open_tree(2)", Attack: do("mount-other", "open_tree")},
		Row{Name: "move_mount(2)", Attack: do("mount-other", "move_mount")},
		Row{Name: "mount_setattr(2)", Attack: do("mount-other", "mount_setattr"), Behind: absent},
	)
}

func newNamespaces() []Row {
	refused, threaded := behind(kernel("EPERM", noCapability)), behind(kernel("EINVAL", manyThreads))
	return class(
		"new namespaces", rules.PrivilegeNamespace, refused,
		Row{Name: "a process with users of its own", Attack: do("new-process", "clone", "user"), Behind: happens},
		Row{Name: "a process with mounts of its own", Attack: do("new-process", "clone", "mount"), Behind: happens},
		Row{Name: "a process with a network of its own", Attack: do("new-process", "clone", "net")},
		Row{Name: "users, by unshare(2)", Attack: do("unshare", "user"), Behind: threaded},
		Row{Name: "users and mounts at once", Attack: do("unshare", "user", "mount"), Behind: threaded},
		Row{Name: "a network, by unshare(2)", Attack: do("unshare", "net")},
		Row{Name: "processes, by unshare(2)", Attack: do("unshare", "pid"), Behind: threaded},
		Row{Name: "a clock, by unshare(2)", Attack: do("unshare", "time"), Behind: behind(kernel("0", "the sandbox's kernel knows no such namespace, and ignores it"))},
		Row{Name: "another map of users", Attack: do("set", "/proc/self/uid_map", "0 1000 1"), Want: Want{Errno: "EPERM|EACCES|EINVAL"}},
		Row{Name: "joining one", Attack: do("setns", "/proc/self/ns/net")},
		Row{Name: "joining that of process 1", Attack: do("setns", "/proc/1/ns/pid")},
		Row{Name: "by clone3(2), whose flags lie in memory", Rule: "process.clone3", Attack: do("new-process", "clone3", "user"), Behind: happens},
	)
}

func identities() []Row {
	refused := behind(kernel("EPERM", noCapability))
	silent := behind(kernel("0", "no capability, of which the call says nothing"))
	return class(
		"other users and groups", rules.PrivilegeIdentity, refused,
		Row{Name: "setuid(2)", Attack: do("become", "setuid", "0")},
		Row{Name: "setgid(2)", Attack: do("become", "setgid", "0")},
		Row{Name: "setreuid(2)", Attack: do("become", "setreuid", "0")},
		Row{Name: "setregid(2)", Attack: do("become", "setregid", "0")},
		Row{Name: "setresuid(2), of the third id alone", Attack: do("become", "setresuid", "0")},
		Row{Name: "setresgid(2), of the third id alone", Attack: do("become", "setresgid", "0")},
		Row{Name: "setfsuid(2)", Attack: do("become", "setfsuid", "0"), Behind: silent},
		Row{Name: "setfsgid(2)", Attack: do("become", "setfsgid", "0"), Behind: silent},
		Row{Name: "the user of process 1, in a thread", Attack: do("in-thread", "become", "setresuid", "65534")},
		Row{Name: "setgroups(2)", Rule: rules.PrivilegeGroups, Attack: do("groups", "0"), Behind: refused},
		Row{Name: "a program that makes its user root", Attack: do("exec-setuid"), Want: Want{Errno: "EPERM"}},
		Row{Name: "the ids that it has, which is ordinary", Attack: do("stay"), Want: Want{Effect: true}},
	)
}

func kernelPrivileges() []Row {
	refused := behind(kernel("EPERM", noCapability))
	return class(
		"capabilities and code in the kernel", "", nil,
		Row{Name: "every capability", Rule: rules.PrivilegeCapset, Attack: do("capset", "0x20080522"), Behind: refused},
		Row{Name: "every capability, in the first version of the call", Rule: rules.PrivilegeCapset, Attack: do("capset", "0x19980330"), Behind: refused},
		Row{Name: "a capability for what it executes", Attack: do("ambient"), Want: Want{Errno: "EPERM|EINVAL"}},
		Row{Name: "privileges of programs that it executes", Attack: do("privileges"), Want: Want{Errno: "EINVAL"}},
		Row{Name: "it has no capability to begin with", Attack: do("bounding"), Want: Want{Errno: "0"}},
		Row{Name: "bpf(2)", Rule: "privilege.bpf", Attack: do("bpf"), Behind: refused},
		Row{Name: "init_module(2)", Rule: "privilege.module", Attack: do("module", "init_module"), Behind: refused},
		Row{Name: "finit_module(2)", Rule: "privilege.module", Attack: do("module", "finit_module"), Behind: refused},
		Row{Name: "delete_module(2)", Rule: "privilege.module", Attack: do("module", "delete_module"), Behind: refused},
		Row{Name: "kexec_load(2)", Rule: "privilege.kexec", Attack: do("kexec", "kexec_load"), Behind: refused},
		Row{Name: "kexec_file_load(2)", Rule: "privilege.kexec", Attack: do("kexec", "kexec_file_load"), Behind: refused},
		Row{Name: "reboot(2)", Rule: "privilege.reboot", Attack: do("reboot"), Behind: refused},
	)
}

func otherProcesses() []Row {
	const init = "1"
	return class(
		"other processes", "", nil,
		Row{Name: "ptrace(2) of the parent", Rule: rules.PrivilegePtrace, Attack: do("in-child", "trace", "attach", "{parent}"), Behind: behind(kernel("EPERM", inward))},
		Row{Name: "tracing a grandchild", Rule: rules.PrivilegePtrace, Attack: do("with-grandchild", "trace", "seize", "{child}"), Behind: happens},
		Row{Name: "tracing process 1", Rule: rules.PrivilegePtrace, Attack: do("trace", "attach", init), Behind: behind(kernel("EPERM", notOwner))},
		Row{Name: "process_vm_readv(2) of the parent", Rule: rules.PrivilegeProcessVM, Attack: do("in-child", "peek", "{parent}"), Behind: behind(kernel("EPERM", inward))},
		Row{Name: "process_vm_writev(2) of a child", Rule: rules.PrivilegeProcessVM, Attack: do("with-child", "poke", "{child}"), Behind: happens},
		Row{Name: "ending process 1", Attack: do("kill", init, "9"), Want: Want{Errno: "EPERM"}},
		Row{Name: "ending everybody", Attack: do("kill", "-1", "9"), Want: Want{Errno: "0|ESRCH"}},
		Row{Name: "ending process 1 through a descriptor", Attack: do("signal-pidfd", init), Want: Want{Errno: "EPERM|ENOSYS"}},
		Row{Name: "pidfd_getfd(2) of a child", Rule: "system.pidfd-getfd", Attack: do("with-child", "steal-fd", "{child}"), Behind: happens},
		Row{Name: "a limit of process 1", Attack: do("limit", init), Want: Want{Errno: "EPERM|ESRCH"}},
		Row{Name: "the order of objects in the kernel", Attack: do("in-child", "compare", "{parent}"), Want: Want{Errno: "ENOSYS|EPERM"}},
		Row{Name: "tracing one's own child, which is ordinary", Attack: do("with-child", "trace", "attach", "{child}"), Want: Want{Effect: true}, Needs: []string{NeedsTracer}},
	)
}

func probes() []Row {
	absent := behind(kernel("ENOSYS", absentCall))
	return class(
		"calls that reach around the policy", "", nil,
		Row{Name: "io_uring_setup(2)", Rule: "system.io_uring", Attack: do("io_uring", "setup"), Behind: absent},
		Row{Name: "io_uring_enter(2)", Rule: "system.io_uring", Attack: do("io_uring", "enter"), Behind: absent},
		Row{Name: "io_uring_register(2)", Rule: "system.io_uring", Attack: do("io_uring", "register"), Behind: absent},
		Row{Name: "userfaultfd(2)", Rule: "system.userfaultfd", Attack: do("fault"), Behind: absent},
		Row{Name: "perf_event_open(2)", Rule: "system.perf", Attack: do("perf"), Behind: behind(kernel("ENODEV", "the sandbox's kernel counts nothing"))},
		Row{Name: "keyctl(2)", Rule: "system.keys", Attack: do("keys", "keyctl"), Behind: behind(kernel("ENOSYS", "the sandbox's kernel does that to keys only which it has"))},
		Row{Name: "add_key(2)", Rule: "system.keys", Attack: do("keys", "add_key"), Behind: behind(kernel("EACCES", "the sandbox's kernel keeps no keys"))},
		Row{Name: "request_key(2)", Rule: "system.keys", Attack: do("keys", "request_key"), Behind: behind(kernel("EACCES", "the sandbox's kernel keeps no keys"))},
		Row{Name: "iopl(2)", Rule: "system.ports", Attack: do("ports", "iopl"), Behind: behind(kernel("EPERM|ENOSYS", noCapability))},
		Row{Name: "ioperm(2)", Rule: "system.ports", Attack: do("ports", "ioperm"), Behind: behind(kernel("EPERM|ENOSYS", noCapability))},
		Row{Name: "memory where the kernel's null pointers lead", Attack: do("null-page"), Want: Want{Errno: "EPERM|EACCES|EINVAL|ENOMEM"}},
		Row{Name: "modify_ldt(2)", Attack: do("segment"), Want: Want{Errno: "EPERM|ENOSYS"}},
	)
}

// otherHands make system calls by other entries, numbers and hands than usual.
func otherHands() []Row {
	return class(
		"other entries and hands", rules.FileAccounts, unlistedThen(Layer{Effect: true}),
		Row{Name: "a 32-bit system call", Attack: do("compat"), Want: Want{Outcome: "ok|failed"}},
		Row{Name: "a system call of the x32 ABI", Attack: do("x32"), Want: Want{Errno: "ENOSYS"}},
		Row{Name: "numbers that no call has", Attack: do("unknown"), Want: Want{Errno: "ENOSYS"}},
		Row{Name: "a call that a tracer turns into another", Rule: rules.NetworkInet, Attack: do("trace-change"), Behind: happens, Needs: []string{NeedsTracer}},
		Row{Name: "a filter of one's own that allows everything", Attack: do("filter", "/etc/passwd")},
		Row{Name: "after tens of thousands of refusals", Attack: do("flood-read", "/etc/passwd")},
	)
}

func hostSettings() []Row {
	refused := behind(kernel("EPERM", noCapability))
	return class(
		"settings of the host", rules.SystemClock, refused,
		Row{Name: "clock_settime(2)", Attack: do("clock", "clock_settime")},
		Row{Name: "settimeofday(2)", Attack: do("clock", "settimeofday")},
		Row{Name: "adjtimex(2)", Attack: do("clock", "adjtimex"), Needs: []string{NeedsCounts}},
		Row{Name: "clock_adjtime(2)", Attack: do("clock", "clock_adjtime"), Needs: []string{NeedsCounts}},
		Row{Name: "sethostname(2)", Rule: "system.hostname", Attack: do("name", "sethostname")},
		Row{Name: "setdomainname(2)", Rule: "system.hostname", Attack: do("name", "setdomainname")},
		Row{Name: "swapon(2)", Rule: "system.swap", Attack: do("swap", "swapon")},
		Row{Name: "swapoff(2)", Rule: "system.swap", Attack: do("swap", "swapoff")},
		Row{Name: "acct(2)", Rule: "system.admin", Attack: do("admin", "acct")},
		Row{Name: "quotactl(2)", Rule: "system.admin", Attack: do("admin", "quotactl")},
		Row{Name: "vhangup(2)", Rule: "system.admin", Attack: do("admin", "vhangup")},
		Row{Name: "syslog(2)", Rule: "system.admin", Attack: do("admin", "syslog"), Behind: happens},
	)
}

func priorities() []Row {
	refused, usual := behind(kernel("EPERM", noCapability)), behind(kernel("EINVAL", oldPolicies))
	return class(
		"roots, priorities and limits", "", refused,
		Row{Name: "chroot(2)", Rule: "system.chroot", Attack: do("chroot")},
		Row{Name: "a real-time priority", Rule: rules.SystemRealtime, Attack: do("realtime", "sched_setscheduler"), Behind: usual},
		Row{Name: "a real-time priority by sched_setattr(2)", Rule: rules.SystemRealtime, Attack: do("realtime", "sched_setattr"), Behind: usual, Needs: []string{NeedsCounts}},
		Row{Name: "a real-time priority by sched_setparam(2)", Attack: do("realtime", "sched_setparam"), Want: Want{Errno: "EPERM|EINVAL"}},
		Row{Name: "more than its share of the processor, by setpriority(2)", Rule: rules.SystemRealtime, Attack: do("nice"), Behind: happens},
		Row{Name: "the disk before everybody else", Attack: do("io-class"), Want: Want{Errno: "EPERM|EACCES|ENOSYS"}},
		Row{Name: "limits beyond the hard ones", Attack: do("raise"), Want: Want{Errno: "EPERM"}},
		Row{Name: "more processors than it was given", Attack: do("processors", "1"), Want: Want{Errno: "0"}},
		Row{Name: "the clock may be read", Attack: do("clock-read"), Want: Want{Effect: true}},
	)
}

// Package rules is the policy that holds inside every sandbox, as data: what a program may not do, what becomes of the
// attempt, and why.
//
// A [Rule] has a name that stands in outcomes, records and audit events, and an [Action]. A driver enforces the rules
// before the call has an effect; how is its own affair. docs/security.md and `silk selftest` are held to this table: a
// rule that no attack of selftest needs fails the build.
package rules

// Action is what becomes of an attempt that a rule is about.
type Action string

const (
	Kill   Action = "kill"   // the sandbox ends, outcome violated
	Deny   Action = "deny"   // the call fails with Errno; counted and audited, the run goes on
	Absent Action = "absent" // as Deny, in words that mean "there is no such thing", which runtimes probe for at their start; counted only
	Allow  Action = "allow"  // the call goes on
)

// Rule is one line of the policy.
type Rule struct {
	Name   string   // class and name, "file.accounts"
	Action Action   //
	Errno  string   // of Deny and Absent, as errno(3) spells it
	Calls  []string // the system calls it is about; empty for files: every call that opens one
	Files  []string // absolute names that it covers, each with everything below it; empty: Reason says which
	Reason string
}

// Names of rules that code refers to.
const (
	FileAccounts  = "file.accounts"
	FileRootHome  = "file.root-home"
	FileBoot      = "file.boot"
	FileKernel    = "file.kernel"
	FileEnviron   = "file.environ"
	FileMemory    = "file.memory"
	FileSys       = "file.sys"
	FileDevice    = "file.device"
	FileWorkspace = "file.workspace"
	FileTemporary = "file.temporary"
	FileImage     = "file.image"
	FileStartup   = "file.startup"
	FileProbe     = "file.probe"
	FileDirectory = "file.directory"
	FileAnonymous = "file.anonymous"
	FileUnlisted  = "file.unlisted"

	NetworkInet    = "network.inet"
	NetworkRaw     = "network.raw"
	NetworkPacket  = "network.packet"
	NetworkVsock   = "network.vsock"
	NetworkOutside = "network.outside"
	NetworkFamily  = "network.family"

	PrivilegeNamespace = "privilege.namespace"
	PrivilegeIdentity  = "privilege.identity"
	PrivilegeGroups    = "privilege.groups"
	PrivilegeCapset    = "privilege.capset"
	PrivilegePtrace    = "privilege.ptrace"
	PrivilegeProcessVM = "privilege.process-vm"

	ProcessSpawn = "process.spawn"

	SystemClock    = "system.clock"
	SystemNode     = "system.device-node"
	SystemRealtime = "system.realtime"

	ResourceFallocate = "resource.fallocate"
	ResourceMincore   = "resource.mincore"
)

// All is the whole policy, in the order in which files are judged. The caller must not change it.
func All() []Rule { return all }

var all = []Rule{
	{Name: FileAccounts, Action: Kill, Files: []string{"/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/sudoers"}, Reason: "names and secrets of accounts; user names resolve through another file, so that no ordinary program opens these"},
	{Name: FileRootHome, Action: Kill, Files: []string{"/root"}, Reason: "root's home"},
	{Name: FileBoot, Action: Kill, Files: []string{"/boot"}, Reason: "kernels and their symbols"},
	{Name: FileKernel, Action: Kill, Files: []string{
		"/proc/kcore", "/proc/kallsyms", "/proc/kmsg", "/proc/keys", "/proc/key-users", "/proc/sched_debug", "/proc/timer_list",
		"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/kpagecount", "/proc/kpageflags",
	}, Reason: "memory, addresses, keys and levers of a kernel"},
	{Name: FileEnviron, Action: Kill, Reason: "/proc/PID/environ of another process: where secrets are handed over"},
	{Name: FileMemory, Action: Kill, Reason: "/proc/PID/mem of a process that is neither one's own nor traced"},
	{Name: FileDevice, Action: Kill, Reason: "devices that belong to a host, by the names in devices.go"},
	{Name: FileProbe, Action: Absent, Errno: "ENOENT", Reason: "what runtimes look for at their start and do without: the entries of startup.go that are hidden"},
	{Name: FileStartup, Action: Allow, Reason: "what runtimes read at their start: the other entries of startup.go, and the directories of processes in /proc"},
	{Name: FileSys, Action: Kill, Files: []string{"/sys"}, Reason: "the host's hardware and drivers"},
	{Name: FileWorkspace, Action: Allow, Files: []string{"/workspace"}, Reason: "the run's own directory"},
	{Name: FileTemporary, Action: Allow, Files: []string{"/tmp", "/dev/shm"}, Reason: "the run's own temporary files"},
	{Name: FileImage, Action: Allow, Reason: "the trees that the image's own recipe or import has put there"},
	{Name: FileDirectory, Action: Allow, Reason: "a directory itself may be opened and listed: its names are no secret"},
	{Name: FileAnonymous, Action: Allow, Reason: "pipes, sockets, memfds and the like have no path; who opens one through /proc/self/fd has it already"},
	{Name: FileUnlisted, Action: Deny, Errno: "EACCES", Reason: "everything else"},
	{Name: "file.openat2", Action: Absent, Errno: "ENOSYS", Calls: []string{"openat2"}, Reason: "its arguments lie in memory that another thread can change; every libc falls back to openat"},
	{Name: "file.handle", Action: Deny, Errno: "EPERM", Calls: []string{"name_to_handle_at", "open_by_handle_at"}, Reason: "a handle names a file without a path"},

	{Name: NetworkInet, Action: Kill, Calls: []string{"socket"}, Reason: "an INET or INET6 socket where the network is denied"},
	{Name: NetworkRaw, Action: Kill, Calls: []string{"socket"}, Reason: "raw packets, in every network mode"},
	{Name: NetworkPacket, Action: Kill, Calls: []string{"socket"}, Reason: "frames of a network device"},
	{Name: NetworkVsock, Action: Kill, Calls: []string{"socket"}, Reason: "the way from a virtual machine to its host"},
	{Name: NetworkOutside, Action: Kill, Calls: []string{"connect", "sendto", "sendmsg", "sendmmsg"}, Reason: "an address outside the sandbox's own loopback"},
	{Name: NetworkFamily, Action: Absent, Errno: "EAFNOSUPPORT", Calls: []string{"socket"}, Reason: "NETLINK and every family that nobody needs; libc falls back"},

	{Name: "privilege.mount", Action: Kill, Calls: []string{
		"mount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "move_mount", "mount_setattr",
	}, Reason: "a file system of one's own hides what is judged"},
	{Name: PrivilegeNamespace, Action: Kill, Calls: []string{"clone", "unshare", "setns"}, Reason: "a new user namespace has every capability in it"},
	{Name: PrivilegeIdentity, Action: Kill, Calls: []string{
		"setuid", "setgid", "setfsuid", "setfsgid", "setreuid", "setregid", "setresuid", "setresgid",
	}, Reason: "becoming another user or group"},
	{Name: PrivilegeGroups, Action: Kill, Calls: []string{"setgroups"}, Reason: "joining another group"},
	{Name: PrivilegeCapset, Action: Kill, Calls: []string{"capset"}, Reason: "raising a capability"},
	{Name: PrivilegePtrace, Action: Kill, Calls: []string{"ptrace"}, Reason: "tracing a process that is not one's own child"},
	{Name: PrivilegeProcessVM, Action: Kill, Calls: []string{"process_vm_readv", "process_vm_writev"}, Reason: "the memory of a process that is neither one's own nor traced"},
	{Name: "privilege.bpf", Action: Kill, Calls: []string{"bpf"}, Reason: "programs in the kernel"},
	{Name: "privilege.module", Action: Kill, Calls: []string{"init_module", "finit_module", "delete_module"}, Reason: "code in the kernel"},
	{Name: "privilege.kexec", Action: Kill, Calls: []string{"kexec_load", "kexec_file_load"}, Reason: "another kernel"},
	{Name: "privilege.reboot", Action: Kill, Calls: []string{"reboot"}, Reason: "the machine's end"},

	{Name: ProcessSpawn, Action: Deny, Errno: "EPERM", Calls: []string{"fork", "vfork", "clone", "execve", "execveat"}, Reason: "a process, or a second program, of a run that may have one (--no-spawn); threads are free"},
	{Name: "process.clone3", Action: Absent, Errno: "ENOSYS", Calls: []string{"clone3"}, Reason: "its flags lie in memory that another thread can change; every libc falls back to clone"},

	{Name: "system.io_uring", Action: Absent, Errno: "ENOSYS", Calls: []string{"io_uring_setup", "io_uring_enter", "io_uring_register"}, Reason: "calls that no table sees"},
	{Name: "system.userfaultfd", Action: Absent, Errno: "ENOSYS", Calls: []string{"userfaultfd"}, Reason: "stops the kernel in the middle of a copy, which is how races are won"},
	{Name: "system.pidfd-getfd", Action: Deny, Errno: "EPERM", Calls: []string{"pidfd_getfd"}, Reason: "a descriptor out of another process"},
	{Name: "system.perf", Action: Deny, Errno: "EPERM", Calls: []string{"perf_event_open"}, Reason: "counters that other programs leave traces in"},
	{Name: "system.keys", Action: Deny, Errno: "EPERM", Calls: []string{"keyctl", "add_key", "request_key"}, Reason: "keyrings outlive the process that filled them"},
	{Name: SystemClock, Action: Deny, Errno: "EPERM", Calls: []string{"clock_settime", "settimeofday", "adjtimex", "clock_adjtime"}, Reason: "the clock is the host's; it may be read"},
	{Name: "system.hostname", Action: Deny, Errno: "EPERM", Calls: []string{"sethostname", "setdomainname"}, Reason: "the name says which run this is"},
	{Name: "system.chroot", Action: Deny, Errno: "EPERM", Calls: []string{"chroot"}, Reason: "another root changes what paths mean"},
	{Name: SystemNode, Action: Deny, Errno: "EPERM", Calls: []string{"mknod", "mknodat"}, Reason: "device nodes; fifos, sockets and files are ordinary"},
	{Name: "system.swap", Action: Deny, Errno: "EPERM", Calls: []string{"swapon", "swapoff"}, Reason: "the host's memory"},
	{Name: SystemRealtime, Action: Deny, Errno: "EPERM", Calls: []string{"sched_setscheduler", "sched_setattr", "setpriority"}, Reason: "real-time policies, and nice values below one's own, starve everybody else"},
	{Name: "system.ports", Action: Deny, Errno: "EPERM", Calls: []string{"iopl", "ioperm"}, Reason: "hardware ports"},
	{Name: "system.admin", Action: Deny, Errno: "EPERM", Calls: []string{"acct", "quotactl", "syslog", "vhangup"}, Reason: "accounting, quotas, kernel messages and terminals of a host"},

	{Name: ResourceFallocate, Action: Deny, Errno: "ENOSPC", Calls: []string{"fallocate"}, Reason: "a reservation beyond every limit, for which the sandbox's kernel would take the memory before it looks"},
	{Name: ResourceMincore, Action: Deny, Errno: "ENOMEM", Calls: []string{"mincore"}, Reason: "an address range so large (16 GiB) that the answer itself would be a load on the sandbox's kernel"},
}

// Named is the rule of that name.
func Named(name string) (Rule, bool) {
	for _, r := range all {
		if r.Name == name {
			return r, true
		}
	}
	return Rule{}, false
}

// Forbidden are the names of files that no program may open, each with everything below it, and that an image therefore
// need not have, with the copies of them that tools for accounts leave (useradd(8), pam_unix(8)). The kernel's own file
// systems are not among them.
func Forbidden() []string {
	names := []string{"/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/etc/security/opasswd", "/etc/sudoers.d"}
	for _, r := range all {
		if r.Action == Kill && r.Name != FileKernel && r.Name != FileSys {
			names = append(names, r.Files...)
		}
	}
	return names
}

// Covers says whether name is dir or lies below it.
func Covers(dir, name string) bool {
	return name == dir || dir == "/" || len(name) > len(dir) && name[:len(dir)] == dir && name[len(dir)] == '/'
}

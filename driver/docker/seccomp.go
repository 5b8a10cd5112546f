package docker

import (
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
)

// profile is a seccomp profile as the engine takes it (moby's seccomp.Seccomp).
type profile struct {
	DefaultAction   string         `json:"defaultAction"`
	DefaultErrnoRet uint           `json:"defaultErrnoRet"` // since version 23; an older engine answers EPERM
	Architectures   []string       `json:"architectures"`
	Syscalls        []syscallGroup `json:"syscalls"`
}

type syscallGroup struct {
	Names    []string     `json:"names"`
	Action   string       `json:"action"`
	ErrnoRet *uint        `json:"errnoRet,omitempty"`
	Args     []syscallArg `json:"args,omitempty"`
}

type syscallArg struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

// Numbers of Linux on amd64, which the profile is for wherever it is written.
const (
	eperm, enosys, eafnosupport = 1, 38, 97
	afUnix, afInet, afInet6     = 1, 2, 10
	newAnything                 = 0x7e020000 // CLONE_NEW*, clone(2)
)

// seccompProfile is the engine's own wall around everything in the container, the launcher included, by the table of driver/rules: what
// is not named is refused, what the table is about is refused in its words, and sockets are limited to what the plan allows.
// The launcher's filter comes on top, and knows more: who may fork, which execve it is, and what has to end the sandbox. What that
// one asks silk about is let through here.
func seccompProfile(network driver.Network) profile {
	refused := map[string]uint{}
	for _, r := range rules.All() {
		if slices.Contains(letThrough, r.Name) {
			continue
		}
		for _, name := range r.Calls {
			if _, known := refused[name]; known {
				continue
			}
			refused[name] = eperm
			if r.Errno == "ENOSYS" {
				refused[name] = enosys
			}
		}
	}
	refused["memfd_create"] = enosys // what is executed lies in the image or in the workspace
	var free []string
	for name := range strings.FieldsSeq(ordinary) {
		if _, no := refused[name]; !no {
			free = append(free, name)
		}
	}
	slices.Sort(free)
	p := profile{
		DefaultAction: "SCMP_ACT_ERRNO", DefaultErrnoRet: enosys, Architectures: []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"}, // the filter refuses the last two
		Syscalls: []syscallGroup{{Names: free, Action: "SCMP_ACT_ALLOW"}},
	}
	for _, errno := range []uint{eperm, enosys} {
		var names []string
		for name, n := range refused {
			if n == errno && !slices.Contains([]string{"clone", "unshare", "socket"}, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		p.Syscalls = append(p.Syscalls, syscallGroup{Names: names, Action: "SCMP_ACT_ERRNO", ErrnoRet: &errno})
	}
	// A process or a thread, in the namespaces that there are.
	p.Syscalls = append(p.Syscalls, allow("clone", syscallArg{0, newAnything, 0, "SCMP_CMP_MASKED_EQ"}), allow("unshare", syscallArg{0, newAnything | 0x80, 0, "SCMP_CMP_MASKED_EQ"}))
	families := []uint64{afUnix}
	if network != driver.NetworkDeny {
		families = append(families, afInet, afInet6)
	}
	for _, family := range families {
		p.Syscalls = append(p.Syscalls, allow("socket", syscallArg{0, family, 0, "SCMP_CMP_EQ"}))
	}
	return p
}

func allow(name string, args ...syscallArg) syscallGroup {
	return syscallGroup{Names: []string{name}, Action: "SCMP_ACT_ALLOW", Args: args}
}

// letThrough are rules that the launcher's filter holds and this profile cannot: it asks silk about the call, or lets the
// launcher itself do what the program may not, or leaves it to the kernel, which refuses it without capabilities.
var letThrough = []string{
	rules.NetworkOutside, rules.PrivilegeIdentity, rules.PrivilegeGroups, rules.PrivilegeCapset, rules.PrivilegeProcessVM, rules.ProcessSpawn,
	rules.SystemClock, rules.SystemNode, rules.SystemRealtime, rules.ResourceFallocate, rules.ResourceMincore,
}

// ordinary are the system calls of programs. What the table of rules is about is taken out of it again.
const ordinary = `
accept accept4 access adjtimex alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_adjtime clock_getres clock_gettime clock_nanosleep
close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait
epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl
fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv
futex_wake futimesat get_mempolicy get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername
getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid
getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit ioctl ioprio_get
ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listxattr llistxattr lremovexattr
lseek lsetxattr lstat madvise map_shadow_stack membarrier mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat open openat
pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_mrelease
process_vm_readv process_vm_writev pselect6 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages
removexattr rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop sendfile
sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority setregid setresgid
setresuid setreuid setrlimit setsid setsockopt setuid setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair splice stat statfs
statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime
timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid
write writev`

package confine

import "golang.org/x/sys/unix"

// calls are the system calls that are asked about, by name: those of driver/rules, and those that open files or make processes.
var calls = map[string]int{
	"acct":               unix.SYS_ACCT,
	"add_key":            unix.SYS_ADD_KEY,
	"adjtimex":           unix.SYS_ADJTIMEX,
	"bpf":                unix.SYS_BPF,
	"capset":             unix.SYS_CAPSET,
	"chroot":             unix.SYS_CHROOT,
	"clock_adjtime":      unix.SYS_CLOCK_ADJTIME,
	"clock_settime":      unix.SYS_CLOCK_SETTIME,
	"clone":              unix.SYS_CLONE,
	"clone3":             unix.SYS_CLONE3,
	"connect":            unix.SYS_CONNECT,
	"creat":              unix.SYS_CREAT,
	"delete_module":      unix.SYS_DELETE_MODULE,
	"execve":             unix.SYS_EXECVE,
	"execveat":           unix.SYS_EXECVEAT,
	"fallocate":          unix.SYS_FALLOCATE,
	"finit_module":       unix.SYS_FINIT_MODULE,
	"fork":               unix.SYS_FORK,
	"fsconfig":           unix.SYS_FSCONFIG,
	"fsmount":            unix.SYS_FSMOUNT,
	"fsopen":             unix.SYS_FSOPEN,
	"fspick":             unix.SYS_FSPICK,
	"init_module":        unix.SYS_INIT_MODULE,
	"io_uring_enter":     unix.SYS_IO_URING_ENTER,
	"io_uring_register":  unix.SYS_IO_URING_REGISTER,
	"io_uring_setup":     unix.SYS_IO_URING_SETUP,
	"ioperm":             unix.SYS_IOPERM,
	"iopl":               unix.SYS_IOPL,
	"kexec_file_load":    unix.SYS_KEXEC_FILE_LOAD,
	"kexec_load":         unix.SYS_KEXEC_LOAD,
	"keyctl":             unix.SYS_KEYCTL,
	"mincore":            unix.SYS_MINCORE,
	"mknod":              unix.SYS_MKNOD,
	"mknodat":            unix.SYS_MKNODAT,
	"mount":              unix.SYS_MOUNT,
	"mount_setattr":      unix.SYS_MOUNT_SETATTR,
	"move_mount":         unix.SYS_MOVE_MOUNT,
	"name_to_handle_at":  unix.SYS_NAME_TO_HANDLE_AT,
	"open":               unix.SYS_OPEN,
	"open_by_handle_at":  unix.SYS_OPEN_BY_HANDLE_AT,
	"open_tree":          unix.SYS_OPEN_TREE,
	"openat":             unix.SYS_OPENAT,
	"openat2":            unix.SYS_OPENAT2,
	"perf_event_open":    unix.SYS_PERF_EVENT_OPEN,
	"pidfd_getfd":        unix.SYS_PIDFD_GETFD,
	"pivot_root":         unix.SYS_PIVOT_ROOT,
	"process_vm_readv":   unix.SYS_PROCESS_VM_READV,
	"process_vm_writev":  unix.SYS_PROCESS_VM_WRITEV,
	"ptrace":             unix.SYS_PTRACE,
	"quotactl":           unix.SYS_QUOTACTL,
	"reboot":             unix.SYS_REBOOT,
	"request_key":        unix.SYS_REQUEST_KEY,
	"sched_setattr":      unix.SYS_SCHED_SETATTR,
	"sched_setscheduler": unix.SYS_SCHED_SETSCHEDULER,
	"sendmmsg":           unix.SYS_SENDMMSG,
	"sendmsg":            unix.SYS_SENDMSG,
	"sendto":             unix.SYS_SENDTO,
	"setdomainname":      unix.SYS_SETDOMAINNAME,
	"setfsgid":           unix.SYS_SETFSGID,
	"setfsuid":           unix.SYS_SETFSUID,
	"setgid":             unix.SYS_SETGID,
	"setgroups":          unix.SYS_SETGROUPS,
	"sethostname":        unix.SYS_SETHOSTNAME,
	"setns":              unix.SYS_SETNS,
	"setpriority":        unix.SYS_SETPRIORITY,
	"setregid":           unix.SYS_SETREGID,
	"setresgid":          unix.SYS_SETRESGID,
	"setresuid":          unix.SYS_SETRESUID,
	"setreuid":           unix.SYS_SETREUID,
	"settimeofday":       unix.SYS_SETTIMEOFDAY,
	"setuid":             unix.SYS_SETUID,
	"socket":             unix.SYS_SOCKET,
	"swapoff":            unix.SYS_SWAPOFF,
	"swapon":             unix.SYS_SWAPON,
	"syslog":             unix.SYS_SYSLOG,
	"umount2":            unix.SYS_UMOUNT2,
	"unshare":            unix.SYS_UNSHARE,
	"userfaultfd":        unix.SYS_USERFAULTFD,
	"vfork":              unix.SYS_VFORK,
	"vhangup":            unix.SYS_VHANGUP,
}

// names is the reverse.
var names = func() map[int]string {
	m := make(map[int]string, len(calls))
	for name, number := range calls {
		m[number] = name
	}
	return m
}()

// CallName is the name of a system call that is asked about, or "".
func CallName(number int) string { return names[number] }

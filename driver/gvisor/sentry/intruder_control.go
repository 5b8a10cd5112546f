//go:build silkcontrol

package sentry

import (
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/driver/rules"
)

// intruder makes this process itself make a system call of the host, as code would that has taken it over. The program's
// environment names it, SILK_TEST_INTRUDER=mount, and the program says when: at its first INET socket. If this process
// survives that it reports what came of it, as an error, and ends.
var intruder sync.Once

func (g *guard) intrude(rule string) {
	if rule != rules.NetworkInet {
		return
	}
	for _, e := range g.box.req.Env {
		if name, ok := strings.CutPrefix(e, "SILK_TEST_INTRUDER="); ok {
			intruder.Do(func() { g.last(wire.Message{Kind: wire.Error, Error: "intruder: " + name + ": " + intrude(name)}) })
		}
	}
}

func intrude(name string) string {
	c, ok := intruderCalls()[name]
	if !ok {
		return "no such call"
	}
	n, _, errno := syscall.RawSyscall6(c[0], c[1], c[2], c[3], c[4], c[5], 0)
	for errno == 0 && n == 0 && (name == "fork" || name == "clone user") { // the child
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	if errno == 0 {
		return "done"
	}
	return errno.Error()
}

// intruderCalls are numbers and five arguments.
func intruderCalls() map[string][6]uintptr {
	str := func(s string) uintptr {
		p, err := unix.BytePtrFromString(s)
		if err != nil {
			panic(err)
		}
		return uintptr(unsafe.Pointer(p))
	}
	buf := make([]uint64, 64)
	at := uintptr(unsafe.Pointer(&buf[0]))
	caps := []uint32{unix.LINUX_CAPABILITY_VERSION_3, 0, ^uint32(0), ^uint32(0), 0, 0, 0, 0} // capset(2): header, data
	handle := []uint32{8, 1, 2, 0}                                                           // open_by_handle_at(2): 8 bytes of type 1, inode 2
	here := ^uintptr(99)                                                                     // AT_FDCWD
	root, tmpfs := str("/"), str("tmpfs")
	const x32 = 0x40000000 // __X32_SYSCALL_BIT, arch/x86/include/uapi/asm/unistd.h
	return map[string][6]uintptr{
		"getpid": {unix.SYS_GETPID}, // is allowed: the filter is no wall without a door

		"socket inet":     {unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM},
		"socket inet6":    {unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM},
		"socket packet":   {unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW},
		"socket netlink":  {unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW},
		"socket unix":     {unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM},
		"socket x32":      {x32 | unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM},
		"connect":         {unix.SYS_CONNECT, engineFD, at, 16},
		"execve":          {unix.SYS_EXECVE, root, 0, 0},
		"execveat":        {unix.SYS_EXECVEAT, engineFD, str(""), 0, 0, unix.AT_EMPTY_PATH},
		"open":            {unix.SYS_OPEN, root, unix.O_RDONLY},
		"openat":          {unix.SYS_OPENAT, here, root, unix.O_RDONLY},
		"openat2":         {unix.SYS_OPENAT2, here, root, at, 24},
		"open by handle":  {unix.SYS_OPEN_BY_HANDLE_AT, here, uintptr(unsafe.Pointer(&handle[0])), 0},
		"mkdir":           {unix.SYS_MKDIRAT, here, str("/x"), 0o700},
		"mknod":           {unix.SYS_MKNODAT, here, str("/x"), unix.S_IFBLK, 0x800},
		"unlink":          {unix.SYS_UNLINKAT, here, str("/proc/cpuinfo"), 0},
		"chdir":           {unix.SYS_CHDIR, root},
		"mount":           {unix.SYS_MOUNT, tmpfs, root, tmpfs, 0, 0},
		"umount":          {unix.SYS_UMOUNT2, root, unix.MNT_DETACH},
		"fsopen":          {unix.SYS_FSOPEN, tmpfs, 0},
		"open_tree":       {unix.SYS_OPEN_TREE, here, root, unix.OPEN_TREE_CLONE},
		"pivot_root":      {unix.SYS_PIVOT_ROOT, root, root},
		"chroot":          {unix.SYS_CHROOT, root},
		"setuid":          {unix.SYS_SETUID, 0},
		"setgid":          {unix.SYS_SETGID, 0},
		"setgroups":       {unix.SYS_SETGROUPS, 0, 0},
		"capset":          {unix.SYS_CAPSET, uintptr(unsafe.Pointer(&caps[0])), uintptr(unsafe.Pointer(&caps[2]))},
		"ambient":         {unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0},
		"unshare user":    {unix.SYS_UNSHARE, unix.CLONE_NEWUSER},
		"unshare mount":   {unix.SYS_UNSHARE, unix.CLONE_NEWNS},
		"setns":           {unix.SYS_SETNS, engineFD, 0},
		"clone user":      {unix.SYS_CLONE, unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD), 0, 0, 0, 0},
		"fork":            {unix.SYS_FORK},
		"ptrace attach":   {unix.SYS_PTRACE, unix.PTRACE_SEIZE, 1, 0, 0},
		"read memory":     {unix.SYS_PROCESS_VM_READV, 1, at, 0, at, 0},
		"pidfd_open":      {unix.SYS_PIDFD_OPEN, 1, 0},
		"kill 1":          {unix.SYS_KILL, 1, 0},
		"kill all":        {unix.SYS_KILL, ^uintptr(0), 0},
		"stay":            {unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0, 0, 0, 0},
		"setsid":          {unix.SYS_SETSID},
		"bpf":             {unix.SYS_BPF, unix.BPF_PROG_LOAD, at, 72},
		"perf":            {unix.SYS_PERF_EVENT_OPEN, at, 0, 0, ^uintptr(0), 0},
		"io_uring":        {unix.SYS_IO_URING_SETUP, 1, at},
		"userfaultfd":     {unix.SYS_USERFAULTFD, 0},
		"keyctl":          {unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 0},
		"add_key":         {unix.SYS_ADD_KEY, str("user"), str("x"), at, 1, ^uintptr(2)},
		"shmget":          {unix.SYS_SHMGET, 1, 4096, unix.IPC_CREAT},
		"mq_open":         {unix.SYS_MQ_OPEN, str("x"), unix.O_CREAT | unix.O_RDWR, 0o600, 0},
		"fanotify":        {unix.SYS_FANOTIFY_INIT, 0, 0},
		"inotify":         {unix.SYS_INOTIFY_INIT1, 0},
		"reboot":          {unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, unix.LINUX_REBOOT_CMD_CAD_OFF, 0},
		"swapon":          {unix.SYS_SWAPON, root, 0},
		"sethostname":     {unix.SYS_SETHOSTNAME, root, 1},
		"syslog":          {unix.SYS_SYSLOG, 3, at, 8},
		"setrlimit":       {unix.SYS_PRLIMIT64, 1, unix.RLIMIT_CORE, at, 0},
		"sched_setparam":  {unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, at},
		"setpriority":     {unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, ^uintptr(19)},
		"personality":     {unix.SYS_PERSONALITY, 0x40000},
		"modify_ldt":      {unix.SYS_MODIFY_LDT, 0, at, 8},
		"acct":            {unix.SYS_ACCT, 0},
		"terminal input":  {unix.SYS_IOCTL, 0, unix.TIOCSTI, at},
		"another filter":  {unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0},
		"copy descriptor": {unix.SYS_PIDFD_GETFD, engineFD, 0, 0},
	}
}

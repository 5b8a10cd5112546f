package main

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func privilegeAttacks() map[string]attack {
	return map[string]attack{
		"mount":       mount,
		"mount-other": mountOther,
		"new-process": newProcess,
		"unshare":     unshare,
		"setns":       setns,
		"become":      become,
		"stay":        stay,
		"groups":      groups,
		"capset":      capset,
		"ambient":     ambient,
		"bounding":    bounding,
		"privileges":  privileges,
		"bpf":         bpf,
		"module":      module,
		"kexec":       kexec,
		"reboot":      reboot,
	}
}

// mount mounts over /workspace. The effect is that the kernel lists one mount more there.
func mount(args []string) {
	before := mountsAt("/workspace")
	var err error
	reached()
	switch args[0] {
	case "tmpfs":
		err = unix.Mount("none", "/workspace", "tmpfs", 0, "")
	case "bind":
		err = unix.Mount("/", "/workspace", "", unix.MS_BIND|unix.MS_REC, "")
	case "writable":
		err = unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	case "proc":
		err = unix.Mount("proc", "/workspace", "proc", 0, "")
	default:
		setup("no way to mount", args[0])
	}
	if err == nil && mountsAt("/workspace") > before {
		effect("mounted", args[0], "on /workspace")
		return
	}
	answer(err)
}

func mountsAt(dir string) (n int) {
	for _, line := range lines("/proc/self/mountinfo") {
		if words := strings.Fields(line); len(words) > 4 && words[4] == dir {
			n++
		}
	}
	return n
}

// mountOther makes one call of the mount family that is not mount itself. What they need of each other is not there: a
// kernel that lets them through answers about that.
func mountOther(args []string) {
	empty, dot, tmpfs := []byte{0}, []byte(".\x00"), []byte("tmpfs\x00")
	p := func(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
	var fd uintptr
	var err error
	reached()
	switch args[0] {
	case "umount2":
		err = unix.Unmount("/tmp", unix.MNT_DETACH)
		if err == nil && mountsAt("/tmp") == 0 {
			effect("/tmp is not mounted any more")
			return
		}
	case "pivot_root":
		_, err = call(unix.SYS_PIVOT_ROOT, p(dot), p(dot))
	case "fsopen":
		fd, err = call(unix.SYS_FSOPEN, p(tmpfs), 0)
	case "fsconfig":
		_, err = call(unix.SYS_FSCONFIG, ^uintptr(0), 6, 0, 0, 0)
	case "fsmount":
		fd, err = call(unix.SYS_FSMOUNT, ^uintptr(0), 0, 0)
	case "fspick":
		fd, err = call(unix.SYS_FSPICK, atCwd, p(dot), 0)
	case "open_tree":
		fd, err = call(unix.SYS_OPEN_TREE, atCwd, p(dot), 1)
	case "move_mount":
		_, err = call(unix.SYS_MOVE_MOUNT, atCwd, p(dot), atCwd, p(dot), 0)
	case "mount_setattr":
		attributes := [4]uint64{}
		_, err = call(unix.SYS_MOUNT_SETATTR, atCwd, p(dot), 0, uintptr(unsafe.Pointer(&attributes)), 32)
	default:
		setup("no call", args[0])
	}
	runtime.KeepAlive(empty)
	if err == nil && fd != 0 {
		have(int(fd))
		return
	}
	answer(err)
}

// namespaces are the flags of clone(2) that make new ones, and the name that /proc/self/ns has for each.
var namespaces = map[string]struct {
	flag uintptr
	name string
}{
	"user": {unix.CLONE_NEWUSER, "user"}, "mount": {unix.CLONE_NEWNS, "mnt"}, "net": {unix.CLONE_NEWNET, "net"}, "pid": {unix.CLONE_NEWPID, "pid_for_children"},
	"ipc": {unix.CLONE_NEWIPC, "ipc"}, "uts": {unix.CLONE_NEWUTS, "uts"}, "cgroup": {unix.CLONE_NEWCGROUP, "cgroup"}, "time": {unix.CLONE_NEWTIME, "time_for_children"},
}

// newProcess makes a process in new namespaces. The child says so.
func newProcess(args []string) {
	line := []byte("EFFECT: a process is in a new namespace: " + args[1] + "\n")
	flags := namespaces[args[1]].flag
	var pid uintptr
	var errno unix.Errno
	reached()
	switch args[0] {
	case "clone":
		pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	case "clone3":
		a := cloneArgs{flags: uint64(flags), exitSignal: uint64(unix.SIGCHLD)}
		pid, _, errno = unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a), 0)
	default:
		setup("no process is made by", args[0])
	}
	if errno != 0 {
		answer(errno)
		return
	}
	if pid == 0 {
		rawSay(line)
		rawExit()
	}
	wait(int(pid))
}

// unshare leaves namespaces. The effect is that the kernel names others.
func unshare(args []string) {
	var flags uintptr
	before := map[string]string{}
	for _, arg := range args {
		ns, ok := namespaces[arg]
		if !ok {
			setup("no namespace is called", arg)
		}
		flags |= ns.flag
		before[ns.name] = linkOf("/proc/thread-self/ns/" + ns.name)
	}
	uid := unix.Geteuid()
	reached()
	if _, err := call(unix.SYS_UNSHARE, flags); err != nil {
		answer(err)
		return
	}
	for name, old := range before {
		if now := linkOf("/proc/thread-self/ns/" + name); now != old {
			effect("the namespace", name, "was", old, "and is", now)
			return
		}
	}
	if now := unix.Geteuid(); now != uid { // a new user namespace has no mapping for anybody
		effect("the uid was", strconv.Itoa(uid), "and is", strconv.Itoa(now))
		return
	}
	answer(nil)
}

// setns joins a namespace of the process that args name.
func setns(args []string) {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil { // what it leads to cannot be opened; the call is refused all the same
		fd = -1
	}
	reached()
	if err := unix.Setns(fd, 0); err != nil {
		answer(err)
		return
	}
	effect("joined", args[0])
}

// become asks for another id with one of the calls that set ids. The effect is that the kernel gives it.
func become(args []string) {
	const same = ^uintptr(0)
	id := uintptr(number(args[1]))
	before := ids()
	var err error
	reached()
	switch args[0] {
	case "setuid":
		_, err = call(unix.SYS_SETUID, id)
	case "setgid":
		_, err = call(unix.SYS_SETGID, id)
	case "setreuid":
		_, err = call(unix.SYS_SETREUID, same, id)
	case "setregid":
		_, err = call(unix.SYS_SETREGID, same, id)
	case "setresuid":
		_, err = call(unix.SYS_SETRESUID, same, same, id)
	case "setresgid":
		_, err = call(unix.SYS_SETRESGID, same, same, id)
	case "setfsuid": // returns the old one whatever comes of it
		_, _ = call(unix.SYS_SETFSUID, id)
	case "setfsgid":
		_, _ = call(unix.SYS_SETFSGID, id)
	default:
		setup("no call", args[0])
	}
	if after := ids(); after != before {
		effect("the ids were", quote([]byte(before)), "and are", quote([]byte(after)))
		return
	}
	answer(err)
}

// ids are real, effective, saved and file system uid and gid of this thread.
func ids() string {
	text := ""
	for _, line := range lines("/proc/thread-self/status") {
		if strings.HasPrefix(line, "Uid:") || strings.HasPrefix(line, "Gid:") || strings.HasPrefix(line, "Groups:") {
			text += strings.Join(strings.Fields(line), " ") + " "
		}
	}
	return text
}

// stay sets the ids that the process has, as su and many daemons do: an ordinary act.
func stay([]string) {
	reached()
	if _, err := call(unix.SYS_SETUID, uintptr(unix.Getuid())); err != nil {
		answer(err)
		return
	}
	if _, err := call(unix.SYS_SETRESGID, ^uintptr(0), uintptr(unix.Getgid()), ^uintptr(0)); err != nil {
		answer(err)
		return
	}
	effect("may set the ids that it has")
}

func groups(args []string) {
	id := uint32(number(args[0]))
	before := ids()
	reached()
	_, err := call(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&id)))
	if after := ids(); after != before {
		effect("the groups were", quote([]byte(before)), "and are", quote([]byte(after)))
		return
	}
	answer(err)
}

// capset asks for every capability, in one of the versions of the call (capget(2)).
func capset(args []string) {
	header := unix.CapUserHeader{Version: uint32(number(args[0]))}
	all := unix.CapUserData{Effective: ^uint32(0), Permitted: ^uint32(0), Inheritable: ^uint32(0)}
	data := [2]unix.CapUserData{all, all}
	reached()
	err := unix.Capset(&header, &data[0])
	have := field("/proc/thread-self/status", "CapEff:")
	if strings.Trim(have, "0") != "" {
		effect("has the capabilities", have)
		return
	}
	answer(err)
}

// ambient asks for a capability that programs started from here would have.
func ambient([]string) {
	reached()
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0)
	if have := field("/proc/thread-self/status", "CapAmb:"); strings.Trim(have, "0") != "" {
		effect("has the ambient capabilities", have)
		return
	}
	answer(err)
}

// bounding reads which capabilities could ever be had.
func bounding([]string) {
	reached()
	for _, key := range []string{"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"} {
		if have := field("/proc/thread-self/status", key); strings.Trim(have, "0") != "" {
			effect(key, have)
		}
	}
	answer(nil)
}

// privileges tries to give new privileges to programs that it executes.
func privileges([]string) {
	reached()
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if now, getErr := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); getErr == nil && now == 0 {
		effect("programs may gain privileges")
		return
	}
	answer(err)
}

// bpf loads a program that does nothing.
func bpf([]string) {
	code := [2]uint64{0xb7, 0x95} // r0 = 0; exit
	license := []byte("GPL\x00")
	attr := [16]uint64{1 | 2<<32, uint64(uintptr(unsafe.Pointer(&code))), uint64(uintptr(unsafe.Pointer(&license[0])))}
	reached()
	fd, err := call(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(&code)
	runtime.KeepAlive(license)
	if err != nil {
		answer(err)
		return
	}
	have(int(fd))
}

func module(args []string) {
	text := []byte("\x7fELF\x00")
	var err error
	reached()
	switch args[0] {
	case "init_module":
		_, err = call(unix.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&text[0])), 4, uintptr(unsafe.Pointer(&text[4])))
	case "finit_module":
		_, err = call(unix.SYS_FINIT_MODULE, 0, uintptr(unsafe.Pointer(&text[4])), 0)
	case "delete_module":
		_, err = call(unix.SYS_DELETE_MODULE, uintptr(unsafe.Pointer(&text[1])), unix.O_NONBLOCK)
	default:
		setup("no call", args[0])
	}
	if err == nil {
		effect("the kernel took a module away or in")
		return
	}
	answer(err)
}

func kexec(args []string) {
	var err error
	reached()
	switch args[0] {
	case "kexec_load":
		_, err = call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)
	case "kexec_file_load":
		_, err = call(unix.SYS_KEXEC_FILE_LOAD, 0, ^uintptr(0), 0, 0, 4) // KEXEC_FILE_NO_INITRAMFS
	default:
		setup("no call", args[0])
	}
	if err == nil {
		effect("the kernel took another kernel in")
		return
	}
	answer(err)
}

// reboot asks for the least that reboot(2) can do: that Ctrl-Alt-Del be a signal.
func reboot([]string) {
	reached()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF); err != nil {
		answer(err)
		return
	}
	effect("reboot(2) obeyed")
}

package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tries are what an intruder would do first. Each returns what came of it.
func tries(all targets, fds []int) map[string]func() string {
	call := func(nr uintptr, args ...uintptr) func() string {
		return func() string {
			a := append(args, 0, 0, 0, 0, 0, 0)
			_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
			if errno == 0 {
				return "done"
			}
			return errno.Error()
		}
	}
	str := func(s string) uintptr {
		p, err := unix.BytePtrFromString(s)
		must(err)
		kept = append(kept, p)
		return uintptr(unsafe.Pointer(p))
	}
	buf := make([]byte, 256)
	at := uintptr(unsafe.Pointer(&buf[0]))
	handle := []uint32{8, 1, 2, 0} // struct file_handle, open_by_handle_at(2): 8 bytes of type 1, inode 2
	kept = append(kept, (*byte)(unsafe.Pointer(&handle[0])))
	iov := []unix.Iovec{{Base: &buf[0], Len: 8}}
	vec := uintptr(unsafe.Pointer(&iov[0]))
	kept = append(kept, &buf[0])
	here := ^uintptr(99) // AT_FDCWD
	tmpfs, root := str("tmpfs"), str("/")

	return map[string]func() string{
		"files: the root has":        func() string { return strings.Join(walk(), " ") },
		"files: of the host":         func() string { return openAll(all.Files) },
		"files: above the root":      aboveRoot,
		"files: create":              call(unix.SYS_OPENAT, here, str("/x"), unix.O_CREAT|unix.O_WRONLY, 0o600),
		"files: by handle":           call(unix.SYS_OPEN_BY_HANDLE_AT, here, uintptr(unsafe.Pointer(&handle[0])), 0),
		"files: into the executable": call(unix.SYS_WRITE, 254, at, 1),
		"files: into the image":      call(unix.SYS_WRITE, uintptr(fds[0]), at, 1),
		"files: descriptors":         func() string { return descriptors(fds) },

		"processes: that exist":    func() string { return fmt.Sprint(processes()) },
		"processes: trace":         call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(all.Pid), 0, 0),
		"processes: memory":        call(unix.SYS_PROCESS_VM_READV, uintptr(all.Pid), vec, 1, vec, 1, 0),
		"processes: a handle":      call(unix.SYS_PIDFD_OPEN, uintptr(all.Pid), 0),
		"processes: signal":        call(unix.SYS_KILL, uintptr(all.Pid), uintptr(unix.SIGKILL)),
		"processes: signal to all": call(unix.SYS_KILL, ^uintptr(0), 0),
		"processes: limits":        call(unix.SYS_PRLIMIT64, uintptr(all.Pid), unix.RLIMIT_CORE, 0, at),
		"processes: parent":        func() string { return fmt.Sprint(os.Getppid()) },

		"ipc: an abstract socket": func() string { return connect(&unix.SockaddrUnix{Name: "@" + all.Abstract}) },
		"ipc: shared memory":      call(unix.SYS_SHMGET, uintptr(all.Shm), 0, 0),
		"ipc: the engine's keys":  call(unix.SYS_KEYCTL, unix.KEYCTL_SEARCH, sessionKeyring, str("user"), str(all.Key), 0),

		"network: devices":  devices,
		"network: to lo":    func() string { return connect(&unix.SockaddrInet4{Port: all.TCP, Addr: [4]byte{127, 0, 0, 1}}) },
		"network: out":      func() string { return connect(&unix.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 1}}) },
		"network: raw":      call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"network: packets":  call(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0),
		"network: raise lo": raiseLo,

		"mounts: tmpfs":        call(unix.SYS_MOUNT, tmpfs, root, tmpfs, 0, 0),
		"mounts: a new tree":   call(unix.SYS_FSOPEN, tmpfs, 0),
		"mounts: a copy":       call(unix.SYS_OPEN_TREE, here, root, unix.OPEN_TREE_CLONE),
		"mounts: writable":     call(unix.SYS_MOUNT, root, root, 0, unix.MS_REMOUNT|unix.MS_BIND, 0),
		"mounts: take away":    call(unix.SYS_UMOUNT2, root, unix.MNT_DETACH),
		"mounts: another":      call(unix.SYS_PIVOT_ROOT, root, root),
		"mounts: chroot":       call(unix.SYS_CHROOT, root),
		"control groups":       call(unix.SYS_OPENAT, here, str("/sys/fs/cgroup/cgroup.procs"), unix.O_WRONLY, 0),
		"settings of the host": call(unix.SYS_OPENAT, here, str("/proc/sys/kernel/core_pattern"), unix.O_WRONLY, 0),

		"privilege: capabilities":    capabilities,
		"privilege: gain them":       call(unix.SYS_CAPSET, capHeader(), capAll()),
		"privilege: ambient":         call(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0),
		"privilege: root":            call(unix.SYS_SETUID, 0),
		"privilege: root's group":    call(unix.SYS_SETGID, 0),
		"privilege: groups":          call(unix.SYS_SETGROUPS, 0, 0),
		"privilege: who it is":       func() string { return fmt.Sprint(os.Getuid(), os.Getgid()) },
		"privilege: new privileges":  call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0),
		"privilege: user namespace":  userNamespace,
		"privilege: other namespace": call(unix.SYS_UNSHARE, unix.CLONE_NEWNET),
		"privilege: host name":       call(unix.SYS_SETHOSTNAME, root, 1),
		"privilege: more files":      raiseFiles,
		"privilege: priority":        call(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, ^uintptr(19)),
		"privilege: BPF":             call(unix.SYS_BPF, unix.BPF_PROG_LOAD, at, 72),
		"privilege: reboot":          call(unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, unix.LINUX_REBOOT_CMD_CAD_OFF, 0),
		"privilege: swap":            call(unix.SYS_SWAPON, root, 0),

		"told: environment": func() string { return fmt.Sprint(os.Environ()) },
		"told: arguments":   func() string { return fmt.Sprintf("%s and %d numbers", os.Args[0], len(os.Args)-1) },
		"told: host name":   func() string { name, err := os.Hostname(); return fmt.Sprintf("%s, %v", name, err) },
	}
}

// sessionKeyring is KEY_SPEC_SESSION_KEYRING, -3.
const sessionKeyring = ^uintptr(2)

// kept is what arguments of calls point to.
var kept []*byte

// walk lists the whole file system.
func walk() (names []string) {
	var list func(dir string)
	list = func(dir string) {
		entries, err := os.ReadDir(dir)
		must(err)
		for _, e := range entries {
			names = append(names, dir+e.Name())
			if e.IsDir() {
				list(dir + e.Name() + "/")
			}
		}
	}
	list("/")
	return names
}

// openAll returns the different answers to opening each path.
func openAll(paths []string) string {
	var answers []string
	for _, path := range paths {
		fd, err := unix.Open(path, unix.O_PATH, 0)
		_ = unix.Close(fd)
		if !slices.Contains(answers, word(err)) {
			answers = append(answers, word(err))
		}
	}
	return strings.Join(answers, ", ")
}

func aboveRoot() string {
	var root, above unix.Stat_t
	must(unix.Stat("/", &root))
	must(unix.Stat("/../../..", &above))
	if root.Dev == above.Dev && root.Ino == above.Ino {
		return "the root"
	}
	return "something"
}

// descriptors lists what is open beside what the request brought and what the Go runtime made.
func descriptors(fds []int) string {
	var list []string
	for fd := range 4096 {
		var st unix.Stat_t
		if slices.Contains(fds, fd) || unix.Fstat(fd, &st) != nil {
			continue
		}
		kind, ok := map[uint32]string{unix.S_IFCHR: "device", unix.S_IFIFO: "pipe", unix.S_IFSOCK: "socket", unix.S_IFREG: "file", unix.S_IFDIR: "directory"}[st.Mode&unix.S_IFMT]
		if !ok { // eventfd and epoll of the Go runtime
			continue
		}
		list = append(list, fmt.Sprint(fd, " ", kind))
	}
	return strings.Join(list, ", ")
}

// processes are those that can be named.
func processes() (pids []int) {
	for pid := 1; pid < 1<<16; pid++ {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil { // kill would take threads, too
			pids = append(pids, pid)
			_ = unix.Close(fd)
		}
	}
	return pids
}

func connect(to unix.Sockaddr) string {
	family := unix.AF_INET
	if _, ok := to.(*unix.SockaddrUnix); ok {
		family = unix.AF_UNIX
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return "socket: " + err.Error()
	}
	defer unix.Close(fd)
	return word(unix.Connect(fd, to))
}

func devices() string {
	list, err := net.Interfaces()
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name+" "+d.Flags.String())
	}
	return strings.Join(names, ", ")
}

func raiseLo() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return "socket: " + err.Error()
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	must(err)
	r.SetUint16(unix.IFF_UP)
	return word(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r))
}

var (
	header = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	wanted = [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
)

func capHeader() uintptr { return uintptr(unsafe.Pointer(&header)) }
func capAll() uintptr    { return uintptr(unsafe.Pointer(&wanted[0])) }

func capabilities() string {
	var data [2]unix.CapUserData
	must(unix.Capget(&header, &data[0]))
	bounding := 0
	for c := uintptr(0); ; c++ {
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			return fmt.Sprint(data == [2]unix.CapUserData{}, bounding)
		}
		bounding += in
	}
}

func raiseFiles() string {
	var r unix.Rlimit
	must(unix.Getrlimit(unix.RLIMIT_NOFILE, &r))
	r.Max++
	return word(unix.Setrlimit(unix.RLIMIT_NOFILE, &r))
}

// userNamespace forks into one.
//
//go:norace
func userNamespace() string {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	for errno == 0 && pid == 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return word(errnoError(errno))
}

func errnoError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

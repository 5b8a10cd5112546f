package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func systemAttacks() map[string]attack {
	return map[string]attack{
		"io_uring":   ioUring,
		"fault":      userfault,
		"perf":       perf,
		"keys":       keys,
		"clock":      setClock,
		"clock-read": readClock,
		"name":       setName,
		"chroot":     chroot,
		"device":     device,
		"swap":       swap,
		"realtime":   realtime,
		"nice":       nice,
		"io-class":   ioClass,
		"raise":      raise,
		"ports":      ports,
		"admin":      admin,
		"segment":    segment,
		"terminal":   terminal,
	}
}

func ioUring(args []string) {
	var params [120]byte // struct io_uring_params, include/uapi/linux/io_uring.h
	var fd uintptr
	var err error
	reached()
	switch args[0] {
	case "setup":
		fd, err = call(unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&params)))
	case "enter":
		_, err = call(unix.SYS_IO_URING_ENTER, 1, 1, 0, 0, 0, 0)
	case "register":
		_, err = call(unix.SYS_IO_URING_REGISTER, 1, 0, uintptr(unsafe.Pointer(&params)), 1)
	default:
		setup("no call", args[0])
	}
	if err == nil && args[0] == "setup" {
		have(int(fd))
		return
	}
	answer(err)
}

func userfault([]string) {
	reached()
	fd, err := call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1) // UFFD_USER_MODE_ONLY
	if err != nil {
		answer(err)
		return
	}
	have(int(fd))
}

// perf asks for the cheapest counter there is, of this process alone.
func perf([]string) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Bits: unix.PerfBitExcludeKernel}
	attr.Size = uint32(unsafe.Sizeof(attr))
	reached()
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		answer(err)
		return
	}
	have(fd)
}

func keys(args []string) {
	var id int
	var err error
	reached()
	switch args[0] {
	case "keyctl":
		id, err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_PROCESS_KEYRING, true)
	case "add_key":
		id, err = unix.AddKey("user", "attack", []byte("kept in the kernel"), unix.KEY_SPEC_PROCESS_KEYRING)
	case "request_key":
		id, err = unix.RequestKey("user", "attack", "", unix.KEY_SPEC_PROCESS_KEYRING)
	default:
		setup("no call", args[0])
	}
	if err != nil {
		answer(err)
		return
	}
	effect("have the key", strconv.Itoa(id))
}

// setClock sets the clock to what it says, so that nothing is harmed where it is obeyed.
func setClock(args []string) {
	var now unix.Timespec
	must("read the clock", unix.ClockGettime(unix.CLOCK_REALTIME, &now))
	value := unix.NsecToTimeval(now.Nano())
	timex := unix.Timex{Modes: unix.ADJ_TICK, Tick: 10000} // the usual length of a tick, adjtimex(2)
	var err error
	reached()
	switch args[0] {
	case "clock_settime":
		err = unix.ClockSettime(unix.CLOCK_REALTIME, &now)
	case "settimeofday":
		err = unix.Settimeofday(&value)
	case "adjtimex":
		_, err = unix.Adjtimex(&timex)
	case "clock_adjtime":
		_, err = unix.ClockAdjtime(unix.CLOCK_REALTIME, &timex)
	default:
		setup("no call", args[0])
	}
	if err != nil {
		answer(err)
		return
	}
	effect("set the clock")
}

// readClock reads the clock, which is ordinary; it is the host's.
func readClock([]string) {
	reached()
	now := time.Now()
	if now.Year() < 2020 {
		answer(unix.EINVAL)
		return
	}
	effect("it is", now.UTC().Format(time.DateTime))
}

func setName(args []string) {
	var uts unix.Utsname
	var err error
	reached()
	switch args[0] {
	case "sethostname":
		err = unix.Sethostname([]byte("attacked"))
	case "setdomainname":
		err = unix.Setdomainname([]byte("attacked"))
	default:
		setup("no call", args[0])
	}
	must("ask for the name", unix.Uname(&uts))
	if unix.ByteSliceToString(uts.Nodename[:]) == "attacked" || unix.ByteSliceToString(uts.Domainname[:]) == "attacked" {
		effect("the machine has another name")
		return
	}
	answer(err)
}

// chroot makes a directory of its own the root, where it has put an /etc/passwd.
func chroot([]string) {
	must("make a directory", unix.Mkdir("jail", 0o755))
	put("jail/mark", []byte("mark"), 0o644)
	reached()
	if err := unix.Chroot("jail"); err != nil {
		answer(err)
		return
	}
	if unix.Access("/mark", unix.F_OK) == nil {
		effect("the root is another directory")
		return
	}
	answer(nil)
}

// device makes a device node: 1,1 is the host's memory (Documentation/admin-guide/devices.txt), 259,0 a disk.
func device(args []string) {
	mode, number := uint32(unix.S_IFCHR|0o666), int(unix.Mkdev(1, 1))
	if args[1] == "block" {
		mode, number = unix.S_IFBLK|0o666, int(unix.Mkdev(259, 0))
	}
	name, err := unix.BytePtrFromString("node")
	must("name", err)
	reached()
	switch args[0] {
	case "mknod":
		_, err = call(unix.SYS_MKNOD, uintptr(unsafe.Pointer(name)), uintptr(mode), uintptr(number))
	case "mknodat":
		_, err = call(unix.SYS_MKNODAT, atCwd, uintptr(unsafe.Pointer(name)), uintptr(mode), uintptr(number))
	default:
		setup("no call", args[0])
	}
	var st unix.Stat_t
	if err == nil && unix.Lstat("node", &st) == nil && st.Mode&unix.S_IFMT == mode&unix.S_IFMT {
		effect("made a device", strconv.FormatUint(st.Rdev, 16))
		return
	}
	answer(err)
}

func swap(args []string) {
	put("swap", make([]byte, 8192), 0o600)
	name, err := unix.BytePtrFromString("swap")
	must("name", err)
	nr := map[string]uintptr{"swapon": unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF}[args[0]]
	reached()
	if _, err := call(nr, uintptr(unsafe.Pointer(name)), 0); err != nil {
		answer(err)
		return
	}
	effect(args[0], "was obeyed")
}

// realtime asks for a priority above everybody else's.
func realtime(args []string) {
	param := struct{ priority int32 }{99}
	attr := unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 99}
	attr.Size = unix.SizeofSchedAttr
	var err error
	reached()
	switch args[0] {
	case "sched_setscheduler":
		_, err = call(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&param)))
	case "sched_setattr":
		err = unix.SchedSetAttr(0, &attr, 0)
	case "sched_setparam":
		_, err = call(unix.SYS_SCHED_SETPARAM, 0, uintptr(unsafe.Pointer(&param)))
	default:
		setup("no call", args[0])
	}
	if policy, getErr := call(unix.SYS_SCHED_GETSCHEDULER, 0); getErr == nil && policy != 0 {
		effect("the scheduling policy is", strconv.Itoa(int(policy)))
		return
	}
	answer(err)
}

// nice asks for more than one's share.
func nice([]string) {
	reached()
	err := unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	if now, getErr := unix.Getpriority(unix.PRIO_PROCESS, 0); getErr == nil && now > 20 { // the raw call says 20-nice
		effect("the priority is", strconv.Itoa(20-now))
		return
	}
	answer(err)
}

// ioClass asks for the disk before everybody else (ioprio_set(2)).
func ioClass([]string) {
	const realtime = 1 << 13
	reached()
	_, err := call(unix.SYS_IOPRIO_SET, 1, 0, realtime)
	if now, getErr := call(unix.SYS_IOPRIO_GET, 1, 0); getErr == nil && now == realtime {
		effect("the class is", strconv.Itoa(int(now>>13)))
		return
	}
	answer(err)
}

// raise asks for a limit beyond the hard one.
func raise([]string) {
	limits := map[string]int{"files": unix.RLIMIT_NOFILE, "processes": unix.RLIMIT_NPROC, "locked memory": unix.RLIMIT_MEMLOCK, "core": unix.RLIMIT_CORE, "real time": unix.RLIMIT_RTPRIO}
	var last error
	reached()
	for name, resource := range limits {
		var before, after unix.Rlimit
		must("read a limit", unix.Getrlimit(resource, &before))
		more := unix.Rlimit{Cur: before.Max + 1000, Max: before.Max + 1000}
		if err := unix.Prlimit(0, resource, &more, nil); err != nil {
			last = err
		}
		if unix.Getrlimit(resource, &after) == nil && after.Max > before.Max {
			effect("the limit of", name, "is", strconv.FormatUint(after.Max, 10))
			return
		}
	}
	answer(last)
}

func ports(args []string) {
	var err error
	reached()
	switch args[0] {
	case "iopl":
		err = unix.Iopl(3)
	case "ioperm":
		err = unix.Ioperm(0x80, 1, 1)
	default:
		setup("no call", args[0])
	}
	if err == nil {
		effect("may use hardware ports")
		return
	}
	answer(err)
}

func admin(args []string) {
	name, err := unix.BytePtrFromString("/workspace/accounts")
	must("name", err)
	put("/workspace/accounts", nil, 0o666)
	var data [256]byte
	reached()
	switch args[0] {
	case "acct":
		_, err = call(unix.SYS_ACCT, uintptr(unsafe.Pointer(name)))
	case "quotactl":
		_, err = call(unix.SYS_QUOTACTL, 0x800001<<8, 0, 0, 0) // Q_SYNC of everything, include/uapi/linux/quota.h
	case "vhangup":
		_, err = call(unix.SYS_VHANGUP)
	case "syslog":
		var n uintptr
		if n, err = call(unix.SYS_SYSLOG, 3, uintptr(unsafe.Pointer(&data)), 200); err == nil && n > 0 { // SYSLOG_ACTION_READ_ALL
			effect("read the kernel's messages:", quote(data[:n]))
			return
		}
	default:
		setup("no call", args[0])
	}
	runtime.KeepAlive(name)
	if err == nil {
		effect(args[0], "was obeyed")
		return
	}
	answer(err)
}

// segment installs a descriptor of a code segment for 16-bit code, which has been a way into kernels (modify_ldt(2)).
func segment([]string) {
	description := [4]uint32{0, 0, 0xfffff, 0}
	reached()
	if _, err := call(unix.SYS_MODIFY_LDT, 1, uintptr(unsafe.Pointer(&description)), 16); err != nil {
		answer(err)
		return
	}
	effect("installed a segment")
}

// terminal types a command into a terminal that it may share with its user (ioctl_tty(2)).
func terminal([]string) {
	letter := byte('#')
	reached()
	for _, name := range []string{"/dev/tty", "/dev/console", "/proc/self/fd/0"} {
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if _, err := call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&letter))); err == nil {
			effect("typed into", name)
			return
		}
	}
	answer(unix.ENOTTY)
}

// lines are those of a file that may be read.
func lines(name string) []string {
	b, err := os.ReadFile(name)
	must("read "+name, err)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

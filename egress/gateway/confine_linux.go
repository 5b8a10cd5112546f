package gateway

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bounds of the process, whatever its sandboxes do. Beyond the last one it ends, and with it every sandbox's network.
const (
	softMemoryBytes = 1 << 30 // the collector works harder from here on (runtime/debug.SetMemoryLimit)
	hardMemoryBytes = 4 << 30 // RLIMIT_DATA, getrlimit(2): private writable memory
	maxFiles        = 1 << 16 // RLIMIT_NOFILE: a connection has one, a sandbox two
)

// Confine takes from this process, all threads of it, what a gateway does not need, for good. It has the host's network and, where
// there are secrets, their values, and reads what strangers write; this is for the day on which one of them has found a fault in it. Package comment:
// "Confinement".
//
// The process must be built without cgo, which has threads that Go does not know of (syscall.AllThreadsSyscall).
func Confine() error {
	// What package net finds out once by doing what is forbidden from now on: whether there is IPv6, with bind(2).
	if c, err := net.ListenPacket("udp6", "[::1]:0"); err == nil { //nolint:noctx // it does not wait
		_ = c.Close()
	}
	debug.SetMemoryLimit(softMemoryBytes)
	for _, l := range []struct {
		what  string
		which int
		limit uint64
	}{
		{"core dumps", unix.RLIMIT_CORE, 0},
		{"files it writes", unix.RLIMIT_FSIZE, 0},
		{"memory", unix.RLIMIT_DATA, hardMemoryBytes},
		{"descriptors", unix.RLIMIT_NOFILE, maxFiles},
		{"locked memory", unix.RLIMIT_MEMLOCK, 0},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0},
	} {
		var old unix.Rlimit
		if err := unix.Getrlimit(l.which, &old); err != nil {
			return fmt.Errorf("read limit of %s: %w", l.what, err)
		}
		limit := min(l.limit, old.Max)
		if err := unix.Setrlimit(l.which, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("limit %s: %w", l.what, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // no ptrace(2), no /proc/PID/mem, for the user's other processes
		return fmt.Errorf("keep memory to itself: %w", err)
	}
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("refuse new privileges (in a process without cgo): %w", errno)
	}
	if err := landlock(readable()); err != nil && !errors.Is(err, errNoLandlock) {
		return err
	}
	return filter()
}

// resolverFiles are what package net reads when a name is looked up, and what crypto/x509 reads for the host's authorities. They are replaced
// while a gateway runs, so that it is their directories that stay readable.
var resolverFiles = []string{
	"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/ssl/certs", "/etc/pki/tls/certs",
	"/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf",
}

// readable are the directories that hold them. The root is none of them.
func readable() (dirs []string) {
	for _, name := range resolverFiles {
		at, err := filepath.EvalSymlinks(name)
		if err != nil {
			continue // not on this host
		}
		if info, err := os.Stat(at); err != nil || !info.IsDir() {
			at = filepath.Dir(at)
		}
		if at != "/" && !slices.Contains(dirs, at) {
			dirs = append(dirs, at)
		}
	}
	return dirs
}

// errNoLandlock is the kernel's word: it is older than Linux 5.13, or its administrator has left Landlock out.
var errNoLandlock = errors.New("this kernel has no Landlock")

// Rights of files by the version of the kernel's Landlock (include/uapi/linux/landlock.h): the first one knows the first 13, later ones
// one more each, and the fifth one ioctl(2) on devices.
const (
	rights1 = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
	rights2 = rights1 | unix.LANDLOCK_ACCESS_FS_REFER
	rights3 = rights2 | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	rights5 = rights3 | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlock lets the process read below dirs, and have nothing else of the file system; where the kernel can, no TCP port of its own, and neither
// signals to others nor their abstract sockets.
func landlock(dirs []string) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno == unix.ENOSYS || errno == unix.EOPNOTSUPP:
		return errNoLandlock
	case errno != 0:
		return fmt.Errorf("ask for Landlock: %w", errno)
	}
	rules := unix.LandlockRulesetAttr{Handled_access_fs: rights1}
	size := unsafe.Sizeof(rules.Handled_access_fs)
	switch {
	case version >= 5:
		rules.Handled_access_fs = rights5
	case version >= 3:
		rules.Handled_access_fs = rights3
	case version == 2:
		rules.Handled_access_fs = rights2
	}
	if version >= 4 {
		rules.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP
		size = unsafe.Offsetof(rules.Scoped)
	}
	if version >= 6 {
		rules.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(rules.Quiet_access_fs)
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make Landlock's rules: %w", errno)
	}
	defer unix.Close(int(set))
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // what it cannot enter it need not be let into
		}
		below := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR, Parent_fd: int32(fd)}
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&below)), 0, 0, 0)
		_ = unix.Close(fd)
		if errno != 0 {
			return fmt.Errorf("let read below %s: %w", dir, errno)
		}
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("confine to Landlock's rules: %w", errno)
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/firecracker/wire"
)

// stageName is the name under which the agent starts itself to become the program.
const stageName = "silk-stage"

// Descriptors of a stage besides those of the program.
const (
	stageOrder  = 3 + iota // the order, JSON until its end
	stageStatus            // what has become of it: messages of eight bytes
	stageGo                // one byte: the agent answers the filter's questions
	stageRules             // Landlock's ruleset
)

// order is what a stage is told.
type order struct {
	Plan    wire.Plan
	Command string // path of the program
}

// What a stage says: this, then a number.
const (
	stageListens = 1 // the descriptor of the filter's listener
	stageFailed  = 2 // an errno, from execve
	stageBroken  = 3 // an errno, from before; the console has more
)

// stage is the process that becomes the program: in its namespaces already, and still root. It gives up everything and executes. It returns
// if that fails.
func stage() int {
	runtime.LockOSThread() // what follows is about this thread, and others end with the execution
	status, errno := int64(stageBroken), unix.Errno(0)
	err := becomeProgram()
	var missing *executeError
	if errors.As(err, &missing) {
		status = stageFailed
	} else {
		fmt.Fprintln(console(), "silk-guest: start the program:", err)
	}
	errors.As(err, &errno)
	_ = tell(status, int64(errno))
	return 125
}

// executeError is of the program itself.
type executeError struct{ errno error }

func (e *executeError) Error() string { return e.errno.Error() }
func (e *executeError) Unwrap() error { return e.errno }

func tell(what, number int64) error {
	var b [16]byte
	*(*int64)(unsafe.Pointer(&b[0])), *(*int64)(unsafe.Pointer(&b[8])) = what, number
	_, err := unix.Write(stageStatus, b[:])
	return err
}

func becomeProgram() error {
	for fd := stageOrder; fd <= stageRules; fd++ {
		unix.CloseOnExec(fd)
	}
	var o order
	if err := wire.Read(os.NewFile(stageOrder, "order"), &o); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	filter, err := confine.PolicyOf(o.Plan.Spec()).Asking()
	if err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"set the host's name", func() error { return unix.Sethostname([]byte(o.Plan.Hostname)) }},
		{"switch the loopback device on", func() error { return loopback(o.Plan.Network) }},
		{"enter the root directory", enterRoot},
		{"enter the working directory", func() error { return unix.Chdir(o.Plan.Dir) }},
		{"begin a session", func() error { return session(o.Plan.Terminal != nil) }},
		{"limit core files", func() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }},
		{"give up capabilities", dropBounding},
		{"become the program's user", becomeUser},
		{"forbid new privileges", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"restrict files", func() error { return sys(unix.SYS_LANDLOCK_RESTRICT_SELF, stageRules, 0, 0) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	listener, err := confine.Listen(filter)
	if err != nil {
		return fmt.Errorf("set the filter: %w", err)
	}
	if err := tell(stageListens, int64(listener)); err != nil {
		return err
	}
	if n, err := unix.Read(stageGo, make([]byte, 1)); n != 1 {
		return errors.Join(err, errors.New("the agent does not answer"))
	}
	return &executeError{syscall.Exec(o.Command, o.Plan.Args, o.Plan.Env)}
}

func sys(number, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall(number, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// enterRoot makes newRoot the root of this mount namespace. The one below it, the initial file system, has no name any more.
func enterRoot() error {
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(newRoot, "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	return unix.Chroot(".")
}

// session makes the process the first of a session, whose terminal is stdin.
func session(terminal bool) error {
	if _, err := unix.Setsid(); err != nil {
		return err
	}
	if !terminal {
		return nil
	}
	return unix.IoctlSetInt(0, unix.TIOCSCTTY, 0)
}

// loopback switches it on, where there is a network at all.
func loopback(network driver.Network) error {
	if network == driver.NetworkDeny {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return err
	}
	return control("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0") // every port of this namespace is the program's
}

// dropBounding gives up what no executed file can give back then (capabilities(7)).
func dropBounding() error {
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) { // one that this kernel does not have
			return err
		}
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// becomeUser changes the ids of this thread, with which it loses every capability.
func becomeUser() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return errors.Join(
		sys(unix.SYS_SETGROUPS, 0, 0, 0),
		sys(unix.SYS_SETRESGID, confine.User, confine.User, confine.User),
		sys(unix.SYS_SETRESUID, confine.User, confine.User, confine.User),
		unix.Capset(&header, &none[0]))
}

// console is where a stage complains: its own stderr is the program's.
func console() *os.File {
	if f, err := os.OpenFile("/dev/console", os.O_WRONLY, 0); err == nil { // before the root is entered
		return f
	}
	return os.NewFile(stageStatus+100, "nowhere")
}

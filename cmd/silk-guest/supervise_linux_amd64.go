package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch"
)

// supervisor answers for the calls that the filter asks about. The caller waits in the kernel, before the call has an effect.
type supervisor struct {
	listener int
	root     confine.Root
	policy   confine.Policy
	quick    []string
	first    int // the process that becomes the program
	seen     func(watch.Event)
	end      func() // ends the program

	begun atomic.Bool // the program has been executed
	done  chan struct{}

	mu        sync.Mutex
	violation *driver.Violation // the first
	refused   map[string]*driver.Refusal
	order     []string
	failed    error
}

// notification is struct seccomp_notif, include/uapi/linux/seccomp.h.
type notification struct {
	id     uint64
	thread uint32
	flags  uint32
	number int32
	arch   uint32
	ip     uint64
	args   [6]uint64
}

// reply is struct seccomp_notif_resp.
type reply struct {
	id    uint64
	value int64
	errno int32 // negative
	flags uint32
}

// Requests of ioctl(2), seccomp_unotify(2).
const (
	notifyReceive = 0xc0502100
	notifySend    = 0xc0182101
	goOn          = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// run answers until nobody has the filter any more.
func (s *supervisor) run() {
	defer close(s.done)
	defer unix.Close(s.listener)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		p := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			s.fail(err)
			return
		}
		if p[0].Revents&unix.POLLIN == 0 { // POLLHUP
			return
		}
		var n notification
		if errno := request(s.listener, notifyReceive, unsafe.Pointer(&n)); errno != 0 {
			if errno == unix.EINTR || errno == unix.ENOENT { // the caller was killed meanwhile
				continue
			}
			s.fail(errno)
			return
		}
		r, answered := s.answer(&n)
		if !answered {
			continue // it waits for its end
		}
		if errno := request(s.listener, notifySend, unsafe.Pointer(&r)); errno != 0 && errno != unix.ENOENT && errno != unix.EINTR {
			s.fail(errno)
			return
		}
	}
}

func request(fd int, what uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), what, uintptr(arg))
	return errno
}

// fail ends the program: nobody would answer for it.
func (s *supervisor) fail(err error) {
	s.mu.Lock()
	s.failed = fmt.Errorf("answer for system calls: %w", err)
	s.mu.Unlock()
	s.end()
}

// answer is what the caller gets, if it gets one.
func (s *supervisor) answer(n *notification) (r reply, answered bool) {
	r = reply{id: n.id}
	who, err := confine.CallerOf(int(n.thread))
	if err != nil { // gone
		r.errno = -int32(unix.EPERM)
		return r, true
	}
	c := confine.Call{Name: confine.CallName(int(n.number)), Args: n.args, Self: who.Self}
	quick, err := s.look(who, &c)
	if err != nil { // its memory or its descriptors are not what they should be: the kernel will say so
		r.flags = goOn
		return r, true
	}
	var rule rules.Rule
	argument := c.Object.Path
	if !quick {
		rule, argument = s.policy.Judge(c)
	}
	e := watch.Event{At: time.Now(), Origin: watch.Guest, Kind: kindOf(c.Name), Process: who.Self, Thread: who.Number, Argument: watch.Printable(argument)}
	if string(e.Kind) != c.Name {
		e.Syscall = c.Name
	}
	switch rule.Action {
	case rules.Kill:
		e.Result = "killed"
		s.seen(e)
		s.violated(driver.Violation{Rule: rule.Name, Syscall: c.Name, Argument: e.Argument})
		return r, false
	case rules.Deny, rules.Absent:
		errno := confine.Errno(rule)
		r.errno, e.Result = -int32(errno), unix.ErrnoName(errno)
		s.refuse(rule.Name, driver.Act{Syscall: c.Name, Argument: e.Argument})
	default:
		r.flags = goOn
	}
	if e.Kind != watch.Denied || e.Result != "" {
		if e.Kind != watch.Connect || argument != "" {
			s.seen(e)
		}
	}
	return r, true
}

// look reads what a call's arguments point to. quick: it opens what anybody may.
func (s *supervisor) look(who confine.Caller, c *confine.Call) (quick bool, err error) {
	a := c.Args
	switch c.Name {
	case "open":
		return s.opened(who, c, unix.AT_FDCWD, a[0], a[1])
	case "creat":
		return s.opened(who, c, unix.AT_FDCWD, a[0], unix.O_CREAT)
	case "openat":
		return s.opened(who, c, int32(a[0]), a[1], a[2])
	case "execve":
		c.First = !s.begun.Load() && who.Self == s.first
		return s.opened(who, c, unix.AT_FDCWD, a[0], 0)
	case "execveat":
		if text, err := who.Text(a[1]); err == nil && text == "" && a[4]&unix.AT_EMPTY_PATH != 0 { // a file that it has open, and so was let
			return true, nil
		}
		flags := uint64(0)
		if a[4]&unix.AT_SYMLINK_NOFOLLOW != 0 {
			flags = unix.O_NOFOLLOW
		}
		return s.opened(who, c, int32(a[0]), a[1], flags)
	case "connect":
		c.To, err = who.Address(a[1], uint64(uint32(a[2])))
	case "sendto":
		c.To, err = who.Address(a[4], uint64(uint32(a[5])))
	case "sendmsg":
		c.To, err = who.Sent(a[1], 1)
	case "sendmmsg":
		c.To, err = who.Sent(a[1], a[2])
	case "capset":
		c.Raises, err = who.Raises(a[1])
	}
	return false, err
}

// opened is about a file.
func (s *supervisor) opened(who confine.Caller, c *confine.Call, at int32, name, flags uint64) (quick bool, err error) {
	text, err := who.Text(name)
	if err != nil || text == "" {
		return false, errors.Join(err, unix.ENOENT)
	}
	if confine.Plain(text) && confine.CoversAny(s.quick, text) && (c.Name != "execve" && c.Name != "execveat" || !s.policy.NoSpawn) {
		c.Object.Path = text
		return true, nil
	}
	dir := ""
	if text[0] != '/' {
		if dir, err = who.Directory(at); err != nil {
			return false, err
		}
		if !strings.HasPrefix(dir, "/") { // a descriptor of something that is no directory
			return false, unix.ENOTDIR
		}
	}
	follow := flags&unix.O_NOFOLLOW == 0 && flags&(unix.O_CREAT|unix.O_EXCL) != unix.O_CREAT|unix.O_EXCL
	c.Object, err = s.root.Resolve(who, dir, text, follow)
	return false, err
}

func (s *supervisor) violated(v driver.Violation) {
	s.mu.Lock()
	if s.violation == nil {
		s.violation = &v
	}
	s.mu.Unlock()
	s.end()
}

func (s *supervisor) refuse(rule string, act driver.Act) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.refused[rule]
	if one == nil {
		one = &driver.Refusal{Rule: rule}
		s.refused[rule] = one
		s.order = append(s.order, rule)
	}
	one.Count++
	for _, a := range one.Acts {
		if a == act {
			return
		}
	}
	if len(one.Acts) < mostActs {
		one.Acts = append(one.Acts, act)
	}
}

// kindOf is the kind of event that a call is.
func kindOf(name string) watch.Kind {
	switch name {
	case "open", "openat", "creat":
		return watch.OpenAt
	case "execve", "execveat":
		return watch.Execve
	case "socket":
		return watch.Socket
	case "connect", "sendto", "sendmsg", "sendmmsg":
		return watch.Connect
	case "clone", "fork", "vfork":
		return watch.Clone
	case "setuid", "setgid", "setfsuid", "setfsgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups":
		return watch.SetUID
	case "capset":
		return watch.CapSet
	case "mount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "move_mount", "mount_setattr":
		return watch.Mount
	}
	return watch.Denied
}

package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/internal/calltable"
	"github.com/silk-sandbox/silk/watch"
)

// Supervision is what a supervisor needs.
type Supervision struct {
	Listener int    // of the filter: the supervisor's from then on
	Root     Root   // of the programs: open until the supervisor is closed
	Policy   Policy //
	First    int    // the process whose first execution is the run's own command; 0: the filter lets that one through

	Forbidden unix.Errno // what a forbidden call fails with, at whose sight somebody ends the programs; 0: nothing, its caller waits until End has ended it
	End       func()     // ends the programs: Forbidden is 0 and one was, or nobody answers for them any more. It may be called more than once
	Seen      func(Seen) // hears of each call, whose caller waits for it; nil: nobody
	Refused   *Refusals  // counts what was refused
}

// Seen is a call that was asked about.
type Seen struct {
	Caller   Caller
	Call     string
	Argument string     // fit for others to read
	Rule     rules.Rule // that it breaks; without a name: it goes on
}

// Supervisor answers for the calls that a filter asks about. The caller waits in the kernel, before the call has an effect. A call that goes
// on is made by the kernel with what then is in memory; what another thread has put there meanwhile meets the walls behind. So no
// answer here is the only thing that holds.
type Supervisor struct {
	to     Supervision
	opener *opener
	quick  []string

	thread  atomic.Int64 // that waits for the kernel
	closing atomic.Bool
	done    chan struct{}

	mu        sync.Mutex
	violation *driver.Violation // the first
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
	notifyGoOn    = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// Supervise begins to answer. Close it.
func Supervise(to Supervision) *Supervisor {
	s := &Supervisor{to: to, opener: startOpener(), quick: quick(to.Policy.Trees), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *Supervisor) run() {
	defer close(s.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.thread.Store(int64(unix.Gettid()))
	for !s.closing.Load() {
		var n notification
		switch errno := control(s.to.Listener, notifyReceive, unsafe.Pointer(&n)); {
		case errno == unix.EINTR: // closing, perhaps
			continue
		case errno == unix.ENOENT: // the caller was killed meanwhile, or nobody has the filter any more
			if s.hungUp() {
				return
			}
			continue
		case errno != 0:
			s.fail(fmt.Errorf("hear of system calls: %w", errno))
			return
		}
		r, first, given := s.answer(&n)
		if !given {
			continue
		}
		switch errno := s.send(&r); {
		case errno == 0 && first:
			s.to.First = 0 // what it executes from now on is the program's doing
		case errno != 0 && errno != unix.ENOENT && errno != unix.EINTR: // it was killed meanwhile, or nobody answers any more
			s.fail(fmt.Errorf("answer for a system call: %w", errno))
			return
		}
	}
}

// hungUp says whether nobody has the filter any more.
func (s *Supervisor) hungUp() bool {
	p := []unix.PollFd{{Fd: int32(s.to.Listener)}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents&unix.POLLHUP != 0
}

// send sends an answer. A signal to this process, of which Go's runtime sends itself some, comes before it, and the caller would wait for ever.
func (s *Supervisor) send(r *reply) unix.Errno {
	for {
		errno := control(s.to.Listener, notifySend, unsafe.Pointer(r))
		if errno != unix.EINTR || s.closing.Load() {
			return errno
		}
	}
}

func control(fd int, request uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return errno
}

// fail ends the programs: nobody answers for them any more.
func (s *Supervisor) fail(err error) {
	s.mu.Lock()
	s.failed = err
	s.mu.Unlock()
	s.to.End()
}

// Close ends the answering, and says what has gone wrong with it. Callers that wait get ENOSYS.
func (s *Supervisor) Close() error {
	s.closing.Store(true)
	for waiting := true; waiting; {
		if thread := s.thread.Load(); thread != 0 {
			_ = unix.Tgkill(os.Getpid(), int(thread), unix.SIGURG) // it may wait in the kernel; Go's runtime knows the signal
		}
		select {
		case <-s.done:
			waiting = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	s.opener.close()
	err := unix.Close(s.to.Listener)
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.failed, err)
}

// answer is what the caller gets. first: it executes the run's own command. given is false of a caller that waits for its end.
func (s *Supervisor) answer(n *notification) (r reply, first, given bool) {
	r.id = n.id
	who, err := callerOf(int(n.thread))
	c := Call{Name: calltable.Name(int(n.number)), Args: n.args, Self: who.Self}
	if err != nil || c.Name == "" { // gone, or nothing that a filter of ours asks about
		r.errno = -int32(unix.EPERM)
		return r, false, true
	}
	c.First = c.Name == "execve" && s.to.First != 0 && s.to.First == who.Self
	how, err := s.look(who, &c)
	if err != nil { // its memory or its descriptors are not what they should be: the kernel will say so
		r.flags = notifyGoOn
		return r, c.First, true
	}
	var rule rules.Rule
	argument := c.Object.Path
	if !how.free {
		rule, argument = s.to.Policy.Judge(c)
	}
	if s.to.Seen != nil || rule.Name != "" {
		argument = watch.Printable(argument)
	}
	if s.to.Seen != nil {
		s.to.Seen(Seen{Caller: who, Call: c.Name, Argument: argument, Rule: rule})
	}
	switch {
	case rule.Action == rules.Kill:
		s.violate(driver.Violation{Rule: rule.Name, Syscall: c.Name, Argument: argument})
		r.errno = -int32(s.to.Forbidden)
		return r, false, s.to.Forbidden != 0
	case rule.Name != "":
		s.to.Refused.Add(rule.Name, driver.Act{Syscall: c.Name, Argument: argument})
		r.errno = -int32(Errno(rule))
	case how.give != "":
		if number, errno := s.give(n.id, how.give, how.flags); errno != 0 {
			r.errno = -int32(errno)
		} else {
			r.value = int64(number)
		}
	default:
		r.flags = notifyGoOn
	}
	return r, c.First, true
}

// violate notes the first violation, and sees to the programs' end if nobody else does.
func (s *Supervisor) violate(v driver.Violation) {
	s.mu.Lock()
	if s.violation == nil {
		s.violation = &v
	}
	s.mu.Unlock()
	if s.to.Forbidden == 0 {
		s.to.End()
	}
}

// Violation is the first forbidden act that it was asked about, or nil.
func (s *Supervisor) Violation() *driver.Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.violation
}

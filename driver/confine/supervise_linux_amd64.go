package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch"
	"github.com/silk-sandbox/silk/watch/bpf"
)

// supervisor answers for the calls of a program whose arguments lie in its memory, where a filter cannot look: what is opened, who
// is connected to. The caller waits in the kernel, before the call has an effect. A call that goes on is made by the
// kernel with what then is in memory; what another thread has put there meanwhile meets the walls behind (Landlock, the absence of
// files, a network namespace with nothing in it). So no answer here is the only thing that holds.
type supervisor struct {
	listener int
	root     root
	opener   *opener
	trees    []string
	quick    []string
	network  driver.Network

	thread  atomic.Int64 // that waits for the kernel
	closing atomic.Bool
	done    chan struct{}

	mu        sync.Mutex
	violation *driver.Violation // the first
	refused   *refusals
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
	notifyValid   = 0x40082102
	notifyGoOn    = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// supervise begins to answer. listener and root are the supervisor's from then on.
func supervise(listener int, r root, spec driver.Spec, refused *refusals) *supervisor {
	s := &supervisor{listener: listener, root: r, trees: readable(spec), network: spec.Network, refused: refused, done: make(chan struct{})}
	s.quick, s.opener = quick(spec.Trees), startOpener()
	go s.run()
	return s
}

// readable are the files that a program may read besides those that everybody may.
func readable(spec driver.Spec) []string {
	trees := slices.Clone(spec.Trees)
	for _, f := range spec.Files {
		trees = append(trees, f.Path)
	}
	return trees
}

func (s *supervisor) run() {
	defer close(s.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.thread.Store(int64(unix.Gettid()))
	for !s.closing.Load() {
		var n notification
		switch errno := control(s.listener, notifyReceive, unsafe.Pointer(&n)); {
		case errno == unix.EINTR: // closing, perhaps
			continue
		case errno == unix.ENOENT: // the caller was killed meanwhile, or nobody has the filter any more
			if s.hungUp() {
				return
			}
			continue
		case errno != 0:
			s.mu.Lock()
			s.failed = fmt.Errorf("hear of system calls: %w", errno)
			s.mu.Unlock()
			return
		}
		r := reply{id: n.id}
		var given bool
		if r.errno, r.flags, given = s.answer(&n); given {
			continue
		}
		if errno := control(s.listener, notifySend, unsafe.Pointer(&r)); errno != 0 && errno != unix.ENOENT && errno != unix.EINTR {
			s.mu.Lock()
			s.failed = fmt.Errorf("answer for a system call: %w", errno)
			s.mu.Unlock()
			return
		}
	}
}

// hungUp says whether nobody has the filter any more.
func (s *supervisor) hungUp() bool {
	p := []unix.PollFd{{Fd: int32(s.listener)}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents&unix.POLLHUP != 0
}

func control(fd int, request uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return errno
}

// close ends the answering. Callers that wait get ENOSYS.
func (s *supervisor) close() error {
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
	err := unix.Close(s.listener)
	s.root.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.failed, err)
}

// answer is what the caller gets: an errno, or that the call goes on. given says that it has a descriptor already.
func (s *supervisor) answer(n *notification) (errno int32, flags uint32, given bool) {
	who, err := callerOf(int(n.thread))
	if err != nil { // gone
		return -int32(unix.EPERM), 0, false
	}
	var inject string
	var how uint64
	var rule rules.Rule
	var argument string
	call := bpf.CallName(int(n.number))
	switch n.number {
	case unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_OPENAT:
		at, name := int32(unix.AT_FDCWD), n.args[0]
		how = n.args[1]
		switch n.number {
		case unix.SYS_CREAT:
			how = unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC
		case unix.SYS_OPENAT:
			at, name, how = int32(n.args[0]), n.args[1], n.args[2]
		}
		rule, argument, inject, err = s.opened(who, at, name, how)
	case unix.SYS_EXECVE:
		rule, argument, err = s.executed(who, unix.AT_FDCWD, n.args[0], 0)
	case unix.SYS_EXECVEAT:
		rule, argument, err = s.executed(who, int32(n.args[0]), n.args[1], n.args[4])
	case unix.SYS_CONNECT:
		rule, argument, err = s.addressed(who, n.args[1], uint64(uint32(n.args[2])))
	case unix.SYS_SENDTO:
		rule, argument, err = s.addressed(who, n.args[4], uint64(uint32(n.args[5])))
	case unix.SYS_SENDMSG:
		rule, argument, err = s.sent(who, n.args[1], 1)
	case unix.SYS_SENDMMSG:
		rule, argument, err = s.sent(who, n.args[1], min(n.args[2], 1024)) // UIO_MAXIOV, sendmmsg(2)
	case unix.SYS_CAPSET:
		rule, err = s.raised(who, n.args[1])
	case unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV:
		if int(int32(n.args[0])) != who.self {
			rule, _ = rules.Named(rules.PrivilegeProcessVM)
			argument = fmt.Sprintf("process %d", int32(n.args[0]))
		}
	default: // the filter asks about nothing else
		return -int32(unix.EPERM), 0, false
	}
	if err != nil { // its memory or its descriptors are not what they should be: the kernel will say so
		return 0, notifyGoOn, false
	}
	switch rule.Action {
	case rules.Kill:
		s.mu.Lock()
		if s.violation == nil {
			s.violation = &driver.Violation{Rule: rule.Name, Syscall: call, Argument: watch.Printable(argument)}
		}
		s.mu.Unlock()
		return -int32(bpf.Forbidden), 0, false
	case rules.Deny, rules.Absent:
		s.refused.add(rule.Name, call, watch.Printable(argument))
		return -int32(errnos[rule.Errno]), 0, false
	}
	if inject != "" {
		errno := s.give(n.id, inject, how)
		return -int32(errno), 0, errno == 0
	}
	return 0, notifyGoOn, false
}

// opened is about a file. inject is one that is opened for the caller.
func (s *supervisor) opened(who caller, at int32, name, flags uint64) (rule rules.Rule, argument, inject string, err error) {
	text, err := who.text(name)
	if err != nil || text == "" {
		return rule, "", "", errors.Join(err, unix.ENOENT)
	}
	if plain(text) && coversAny(s.quick, text) {
		return rule, "", "", nil
	}
	dir, err := who.begin(at, text)
	if err != nil {
		return rule, "", "", err
	}
	follow := flags&unix.O_NOFOLLOW == 0 && flags&(unix.O_CREAT|unix.O_EXCL) != unix.O_CREAT|unix.O_EXCL
	o, err := s.root.resolve(who, dir, text, follow)
	if err != nil {
		return rule, "", "", err
	}
	rule = judged(o, who.self, s.trees)
	if o.absent && rule.Name == rules.FileUnlisted { // the kernel says so
		return rules.Rule{}, "", "", nil
	}
	if rules.Covers("/proc", o.path) && !o.directory && !o.absent && !o.link && flags&unix.O_PATH == 0 {
		inject = o.path
	}
	return rule, o.path, inject, nil
}

// begin is the directory that a path begins at.
func (c caller) begin(at int32, text string) (string, error) {
	if text[0] == '/' {
		return "", nil
	}
	dir, err := c.directory(at)
	if err == nil && !strings.HasPrefix(dir, "/") { // a descriptor of something that is no directory
		err = unix.ENOTDIR
	}
	return dir, err
}

// addressed is about a struct sockaddr.
func (s *supervisor) addressed(who caller, at, length uint64) (rules.Rule, string, error) {
	if at == 0 || length < 2 {
		return rules.Rule{}, "", nil
	}
	b, err := who.bytes(at, int(min(length, 128))) // sizeof(struct sockaddr_storage)
	if err != nil {
		return rules.Rule{}, "", err
	}
	var to netip.AddrPort
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET && len(b) >= 8:
		to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case family == unix.AF_INET6 && len(b) >= 24:
		to = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), binary.BigEndian.Uint16(b[2:]))
	default:
		return rules.Rule{}, "", nil
	}
	if s.network == driver.NetworkLink || to.Addr().IsLoopback() || to.Addr().IsUnspecified() { // an unspecified one is the own host's, ip(7)
		return rules.Rule{}, "", nil
	}
	r, _ := rules.Named(rules.NetworkOutside)
	return r, to.String(), nil
}

// sent is about n of struct mmsghdr, or one of struct msghdr, which begin alike: with the address and its length.
func (s *supervisor) sent(who caller, at uint64, n uint64) (rules.Rule, string, error) {
	const size = 64 // sizeof(struct mmsghdr)
	for i := range n {
		b, err := who.bytes(at+i*size, 12)
		if err != nil {
			return rules.Rule{}, "", err
		}
		r, argument, err := s.addressed(who, binary.NativeEndian.Uint64(b), uint64(binary.NativeEndian.Uint32(b[8:])))
		if r.Name != "" || err != nil {
			return r, argument, err
		}
	}
	return rules.Rule{}, "", nil
}

// raised is about the two struct user_cap_data of capset(2): who has no capability raises one with any bit.
func (s *supervisor) raised(who caller, at uint64) (rules.Rule, error) {
	b, err := who.bytes(at, 24)
	if err != nil {
		return rules.Rule{}, err
	}
	if bytes.Equal(b, make([]byte, len(b))) {
		return rules.Rule{}, nil
	}
	r, _ := rules.Named(rules.PrivilegeCapset)
	return r, nil
}

// bytes reads the caller's memory.
func (c caller) bytes(at uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := unix.ProcessVMReadv(c.thread, []unix.Iovec{{Base: &b[0], Len: uint64(n)}}, []unix.RemoteIovec{{Base: uintptr(at), Len: n}}, 0)
	if err == nil && got < n {
		err = unix.EFAULT
	}
	return b[:max(got, 0)], err
}

// text reads a string, page by page: it may end where memory does.
func (c caller) text(at uint64) (string, error) {
	const page = 4096
	var all []byte
	for len(all) < unix.PathMax {
		b, err := c.bytes(at+uint64(len(all)), int(page-(at+uint64(len(all)))%page))
		if err != nil {
			return "", err
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return string(append(all, b[:end]...)), nil
		}
		all = append(all, b...)
	}
	return "", unix.ENAMETOOLONG
}

// first is the first forbidden act that it was asked about, or nil.
func (s *supervisor) first() *driver.Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.violation
}

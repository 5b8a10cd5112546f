package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor/stage"
	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/packet"
)

// kernel is one silk-sentry process, from fork to reaping.
type kernel struct {
	proc      *os.Process
	cpus      int
	stage     stage.Stage
	sock      int // our end; closing it ends the process
	forked    time.Time
	stderr    *tail
	groups    *cgroup.Root   // nil where the host has no control groups for us
	group     *cgroup.Group  // nil where there are no groups
	groupDir  *os.File       // open during the fork
	born      bool           // in its group
	scope     Scope          // nil if the host's kernel does not watch
	unwatched *driver.Unheld // why it does not though it was asked to
	gone      chan struct{}  // closed when the process is reaped
	state     *os.ProcessState
	waitErr   error

	words  sync.RWMutex // shared while something is sent to the process after its start
	closed bool         // sock is; its number may be another file's by now
}

// spawn starts a Sentry for a program that sees cpus processors. The process knows nothing of a run. On error nothing is
// left.
func (h host) spawn(cpus int) (*kernel, error) {
	k, err := h.bear(cpus)
	if err != nil {
		return nil, err
	}
	if err := k.place(h.watch); err != nil {
		return nil, errors.Join(err, k.discard())
	}
	return k, nil
}

// bear forks the process, which has no children until it is placed.
func (h host) bear(cpus int) (_ *kernel, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make engine socket: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "sentry socket")
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make sentry stderr: %w", err), unix.Close(pair[0]), theirs.Close())
	}
	k := &kernel{cpus: cpus, stage: h.stage, sock: pair[0], stderr: newTail(errR), gone: make(chan struct{})}
	k.groups, _ = h.groups() // else limits_linux_amd64.go holds what it can, and Probe says so
	if err = k.prepareGroup(); err == nil {
		err = k.fork(h, []*os.File{h.null, h.null, errW, theirs, h.init})
	}
	// Our copies must be gone before anybody waits for the end of the process's stderr.
	err = errors.Join(err, theirs.Close(), errW.Close(), closeFile(k.groupDir))
	if err != nil {
		if k.proc == nil {
			close(k.gone)
		}
		return nil, errors.Join(err, k.discard())
	}
	return k, nil
}

// place moves the process into its group, unless it was born there, and tells it so: its children are born there from
// then on. A process that has died already will say why over the socket.
func (k *kernel) place(watch func(pid int, group string) (Scope, error)) error {
	if k.group != nil && !k.born {
		if err := k.group.Add(k.proc.Pid); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	if err := k.watchFromOutside(watch); err != nil {
		return err
	}
	if err := packet.Send(k.sock, wire.Placed{}); err != nil && !peerGone(err) {
		return fmt.Errorf("release sandbox kernel: %w", err)
	}
	return nil
}

// peerGone says whether err of a socket means that the process at its other end has died: ECONNRESET if it had a message
// unread.
func peerGone(err error) bool { return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) }

// firstFiles is how many descriptors the process is started with, most of them closed.
const firstFiles = 256

// fork starts the process with the given first descriptors.
func (k *kernel) fork(h host, first []*os.File) error {
	files := make([]*os.File, firstFiles) // index is the descriptor number in the child; nil is closed
	copy(files, first)
	files[stage.SelfFD], files[stage.OtherFD] = h.first, h.exe
	// This one gives the child's descriptor table its final size before it has threads: growing the table of a process
	// with threads, ours or the child's, waits for a grace period of RCU (5-12 ms).
	files[firstFiles-1] = h.null
	attr := &os.ProcAttr{Dir: "/", Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{}}
	if k.groupDir != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(k.groupDir.Fd())
	}
	args := []string{"silk-sentry", strconv.Itoa(k.cpus), strconv.Itoa(k.platformCPUs()), strconv.FormatUint(h.memory, 10)}
	who, _ := newIdentity()
	started := make(chan error, 1)
	// The parent-death signal is sent when the thread that is the parent ends, not the process (prctl(2)): this one stays
	// until the child is reaped.
	onOtherThread(func() {
		k.forked = time.Now()
		leave := k.enterGroup()
		var err error
		k.proc, err = stage.Start(args, attr, who.uid, who.gid)
		if leave() == nil {
			defer runtime.UnlockOSThread()
		} // else the thread ends with this function
		started <- err
		if k.proc == nil {
			return
		}
		k.state, k.waitErr = k.proc.Wait()
		close(k.gone)
	})
	if err := <-started; err != nil {
		return explainStart(err)
	}
	return nil
}

// onOtherThread runs f on a locked thread that is not the process's first, and returns at once.
func onOtherThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		taken := make(chan struct{})
		go func() { // cannot be on this thread, which is taken
			runtime.LockOSThread()
			close(taken)
			f()
		}()
		<-taken
	}()
}

// enterGroup moves the calling thread into the group of version 1, if it can, so that the process is born there. The
// returned function moves it back; if that fails the thread has to end.
func (k *kernel) enterGroup() (leave func() error) {
	if k.group == nil || k.groupDir != nil {
		return func() error { return nil }
	}
	leave, err := k.group.Enter()
	if err != nil { // the process will be moved, which is slower
		return func() error { return err }
	}
	k.born = true
	return leave
}

// platformCPUs is how many processors the Sentry's platform and scheduler count on. With one they hand each system call
// over by sleeping and waking, 60 us instead of 3: it pays to let them have two, and the control group sees to the CPU
// time. Where there is none the sandbox really has as few as its program sees, and spinning for another would waste
// them.
func (k *kernel) platformCPUs() int {
	if k.groups == nil {
		return k.cpus
	}
	return max(k.cpus, 2)
}

// prepareGroup makes the control group before the fork.
func (k *kernel) prepareGroup() (err error) {
	if k.groups == nil {
		return nil
	}
	if k.group, err = k.groups.New(); err != nil {
		return err
	}
	k.groupDir, err = k.group.Dir()
	k.born = k.groupDir != nil
	return err
}

func (k *kernel) removeGroup() error {
	if k.group == nil {
		return nil
	}
	return k.group.Remove(context.Background())
}

// explainStart adds to a refused fork what usually helps.
func explainStart(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w: start sandbox kernel in namespaces of its own: %w (allow unprivileged user namespaces: "+
			"sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces>0, kernel.apparmor_restrict_unprivileged_userns=0; or run as root)", ErrUnusable, err)
	case errors.Is(err, unix.EBADF), errors.Is(err, unix.EMFILE): // dup2(2) of a number beyond RLIMIT_NOFILE says EBADF
		return fmt.Errorf("start sandbox kernel: %w (it needs %d open files: raise the limit, ulimit -n)", err, firstFiles)
	}
	return fmt.Errorf("start sandbox kernel: %w", err)
}

// kill ends the process and everything in it.
func (k *kernel) kill() {
	if k.proc != nil {
		_ = k.proc.Kill() // an error means that it is gone
	}
}

// close gives up our end of the socket. Closing it ends the process if it still runs.
func (k *kernel) close() {
	k.words.Lock()
	defer k.words.Unlock()
	if !k.closed {
		k.closed = true
		_ = unix.Close(k.sock)
	}
}

// tell says something to the process, at any time. EPIPE if nobody hears it any more.
func (k *kernel) tell(c wire.Control) error {
	k.words.RLock()
	defer k.words.RUnlock()
	if k.closed {
		return unix.EPIPE
	}
	return packet.Send(k.sock, c)
}

// discard ends a kernel that is not wanted and waits until it is gone.
func (k *kernel) discard() error {
	k.kill()
	<-k.gone
	k.close()
	k.stderr.wait()
	return errors.Join(k.unwatch(), k.removeGroup())
}

// receive reads the next message.
func (k *kernel) receive() (wire.Message, error) {
	var m wire.Message
	fds, err := packet.Receive(k.sock, &m)
	packet.CloseAll(fds)
	return m, err
}

// died words the end of a process that said nothing.
func (k *kernel) died() error {
	<-k.gone
	if why, is := k.stage.Explain(k.stderr.wait()); is {
		return fmt.Errorf("confine sandbox kernel: %s", why)
	}
	last := ""
	if first, _, _ := strings.Cut(k.stderr.wait(), "\n"); first != "" {
		last = ": " + first
	}
	last += tightLimits()
	if k.waitErr != nil {
		return fmt.Errorf("wait for sandbox kernel: %w%s", k.waitErr, last)
	}
	return fmt.Errorf("sandbox kernel ended without a word: %v%s", k.state, last)
}

// tightLimits names the limits of this process that a Sentry inherits and may not fit into: it maps much address space,
// and keeps the sandbox's memory in files.
func tightLimits() string {
	var flags []string
	for _, l := range []struct {
		resource int
		flag     string
	}{{unix.RLIMIT_AS, "-v"}, {unix.RLIMIT_FSIZE, "-f"}, {unix.RLIMIT_DATA, "-d"}, {unix.RLIMIT_CPU, "-t"}} {
		var r unix.Rlimit
		if err := unix.Getrlimit(l.resource, &r); err == nil && r.Cur != unix.RLIM_INFINITY {
			flags = append(flags, "ulimit "+l.flag)
		}
	}
	if len(flags) == 0 {
		return ""
	}
	return " (it may need more than " + strings.Join(flags, " and ") + " allows)"
}

// outOfMemory says whether the process ended because its own runtime got no more memory: the guest made the Sentry
// allocate more than there was.
func (k *kernel) outOfMemory() bool {
	<-k.gone
	first, _, _ := strings.Cut(k.stderr.wait(), "\n")
	return strings.HasPrefix(first, "fatal error: runtime: out of memory") || strings.HasPrefix(first, "fatal error: runtime: cannot allocate memory") ||
		strings.HasPrefix(first, "runtime: out of memory") || strings.HasPrefix(first, "fatal error: out of memory")
}

// cpuTime is what the process and its stub processes have used. Without a control group's count, stubs that the
// process did not reap before it ended are missing.
func (k *kernel) cpuTime() time.Duration {
	<-k.gone
	if k.group != nil {
		if used, ok := k.group.CPUTime(); ok {
			return used
		}
	}
	if k.state == nil {
		return 0
	}
	return k.state.UserTime() + k.state.SystemTime()
}

// tail keeps the last bytes that a kernel wrote to stderr: a Go panic's first lines would be better, but its last ones
// are bounded. For operators only; nothing of it is shown to a guest.
type tail struct {
	mu   sync.Mutex
	kept []byte
	done chan struct{}
}

const tailBytes = 4 << 10

func newTail(r *os.File) *tail {
	t := &tail{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer r.Close()
		buf := make([]byte, 1<<10)
		for {
			n, err := r.Read(buf)
			t.mu.Lock()
			if len(t.kept) < tailBytes { // the first lines name a panic
				t.kept = append(t.kept, buf[:n]...)
			}
			t.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return t
}

func (t *tail) wait() string {
	<-t.done
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

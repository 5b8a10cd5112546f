package firecracker

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/cgroup"
)

// process is a VMM that runs. It dies with the thread that started it, which waits for it.
type process struct {
	proc    *os.Process
	group   *cgroup.Group // nil: there is none here
	console *tail
	gone    chan struct{} // closed when it has ended
	state   *os.ProcessState
}

// vmmStarted, if not nil, hears of each VMM: a test's.
var vmmStarted func(pid int)

// Descriptors of a VMM begin here.
const firstFD = 3

// command is a VMM to be started.
type command struct {
	path  string
	args  []string
	files []*os.File // its descriptors from firstFD on; they stay the caller's
	attr  syscall.SysProcAttr
	group *cgroup.Group // nil: there is none here

	// held, if not nil, is called while the process has not executed an instruction of its program, so that it does nothing before.
	held func(pid int) error
}

// startVMM starts it.
func startVMM(c command) (*process, error) {
	p := &process{group: c.group, console: &tail{done: make(chan struct{})}, gone: make(chan struct{})}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.path, err)
	}
	cmd := exec.CommandContext(context.Background(), c.path, c.args...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}, "/"
	cmd.Stdout, cmd.Stderr = theirs, theirs
	cmd.ExtraFiles = c.files
	cmd.SysProcAttr = &c.attr
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	cmd.SysProcAttr.Ptrace = c.held != nil // stops at its exec, and dies with this thread even then
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the signal of a parent's death is that of its thread (prctl(2))
		err := cmd.Start()
		_ = theirs.Close()
		if err == nil {
			p.proc = cmd.Process
			if err = c.settle(p.proc.Pid); err != nil {
				_ = p.proc.Kill()
				_ = cmd.Wait()
			} else if vmmStarted != nil {
				vmmStarted(p.proc.Pid)
			}
		}
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait()
		p.state = cmd.ProcessState
		<-p.console.done
		close(p.gone)
		runtime.UnlockOSThread() // nothing of the thread was changed
	}()
	go p.console.read(out)
	if err := <-started; err != nil {
		<-p.console.done
		return nil, fmt.Errorf("start %s: %w", c.path, err)
	}
	return p, nil
}

// settle puts a new process where it belongs, and lets it go if it is held. The thread is the one that has started it.
func (c command) settle(pid int) error {
	if c.held != nil {
		for {
			_, err := unix.Wait4(pid, nil, 0, nil) // until it stands at its exec
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("hold it: %w", err)
			}
		}
	}
	if c.group != nil {
		if err := c.group.Add(pid); err != nil {
			return err
		}
	}
	if c.held == nil {
		return nil
	}
	if err := c.held(pid); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

// kill ends it. It may still be ending when it returns.
func (p *process) kill() {
	select {
	case <-p.gone:
	default:
		_ = p.proc.Kill() // it was waited for, at worst
	}
}

// The ids of VMMs: above those that a system gives to people, services and their containers, and below 2^31.
const firstID, lastID = 1_200_000_000, 2_000_000_000

// nobodysID is a user id that nobody has: each VMM its own, so that none can reach another.
func nobodysID() uint32 {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand
	return firstID + uint32(binary.NativeEndian.Uint64(random[:])%(lastID-firstID))
}

// kvmGroup is the group that may use KVM, which a VMM of another user than silk's is in; none where there is no KVM.
func kvmGroup() []uint32 {
	var s unix.Stat_t
	if err := unix.Stat("/dev/kvm", &s); err != nil || s.Mode&0o060 != 0o060 || s.Gid == 0 {
		return nil
	}
	return []uint32{s.Gid}
}

// tail keeps the end of what a console says.
type tail struct {
	done chan struct{}
	mu   sync.Mutex
	last []byte
}

const tailBytes = 4 << 10

func (t *tail) read(r *os.File) {
	defer close(t.done)
	defer r.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		t.mu.Lock()
		if t.last = append(t.last, buf[:n]...); len(t.last) > tailBytes {
			t.last = append(t.last[:0:0], t.last[len(t.last)-tailBytes:]...)
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// say is the console's last lines, for an error of ours: printable, and in one line.
func (t *tail) say() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(t.last)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if panicked := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "Kernel panic") }); panicked >= 0 {
		lines = lines[panicked : panicked+1] // what follows is for who mends kernels
	}
	lines = lines[max(0, len(lines)-6):]
	if len(lines) == 0 {
		return "its console says nothing"
	}
	return "its console ends with: " + printable(strings.Join(lines, " | "))
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r > 0x7e {
			return '?'
		}
		return r
	}, s)
}

// host is what all machines of a driver share.
type host struct {
	vmm    vmm
	groups func() (*cgroup.Root, error)
	clock  func() int64
}

func newHost(v vmm) host {
	return host{vmm: v, groups: sync.OnceValues(cgroup.Find), clock: sync.OnceValue(clockKHz)}
}

// clockKHz is how fast the host's processors count, 0 if it is not known.
func clockKHz() int64 {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 4<<10))
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "cpu MHz" {
			var mhz float64
			if _, err := fmt.Sscan(value, &mhz); err == nil {
				return int64(math.Round(mhz * 1000))
			}
		}
	}
	return 0
}

// Sweep removes what silks that were killed left behind: control groups, whose processes it ends, and jails.
func (d *Driver) Sweep(ctx context.Context) error {
	groups, err := d.host.groups()
	switch {
	case err == nil:
		err = groups.Sweep(ctx)
	case errors.Is(err, cgroup.ErrUnavailable):
		err = nil
	}
	return errors.Join(err, d.host.vmm.sweep(ctx))
}

// Leftovers names what Sweep would remove besides control groups.
func (d *Driver) Leftovers() ([]string, error) { return d.host.vmm.leftovers() }

// makeGroup makes the VMM's control group, or none where none can be had. overhead is what it takes besides the machine's memory, in bytes. Its
// processors are one more than the machine's, for what the VMM does itself; the program's share is held in the machine.
func (h host) makeGroup(m machine, overhead int64) (*cgroup.Group, error) {
	root, err := h.groups()
	if errors.Is(err, cgroup.ErrUnavailable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g, err := root.New()
	if err != nil {
		return nil, err
	}
	if err := g.Limit(cgroup.Limits{MemoryBytes: m.memoryBytes + overhead, CPUs: float64(m.processors + 1), Processes: 64}); err != nil {
		return nil, errors.Join(err, g.Remove(context.Background()))
	}
	return g, nil
}

// exitGrace bounds the wait for a VMM to end by itself, after the guest has switched off.
const exitGrace = 10 * time.Second

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/packet"
)

// Gateway is a gateway process. It is safe for concurrent use. Close it.
type Gateway struct {
	find       func() (string, error)
	credential *syscall.Credential // nil: this process's own
	limits     egress.Limits

	mu      sync.Mutex
	running *running
}

// New makes a gateway that starts the executable which find names when it is first needed, as a user of its own where this process is root. If
// it dies, the sandboxes that it served have no network, and the next [Gateway.Open] starts another. The limits are of each sandbox whose order has none.
func New(find func() (string, error), limits egress.Limits) *Gateway {
	g := &Gateway{find: find, limits: limits}
	if os.Getuid() == 0 {
		g.credential = &syscall.Credential{Uid: user, Gid: user}
	}
	return g
}

// Who the process is on the host where this one is root: the id before those of sandboxes (package driver/gvisor), which nobody else has,
// and nobody where root's ids do not go so far.
const (
	user   = 0x77ff_ffff
	nobody = 65534
)

// ownExe is the executable as the new process has it: by descriptor, since who it will be may not enter the state directory.
const ownExe = "/proc/self/fd/4"

// running is one life of the process.
type running struct {
	sock  int
	cmd   *exec.Cmd
	gone  chan struct{} // closed when the process is reaped
	heard chan struct{} // closed when nothing more is heard, and sock is closed

	mu     sync.Mutex
	served map[string]*way
	dead   bool
}

// way is one sandbox's.
type way struct {
	tell  func(egress.Decision)
	ready chan struct{}
	ended chan struct{} // closed after the last decision was told
	err   error

	open map[uint64]egress.Decision // connections that have begun, by number; hear's alone
}

// maxOpen bounds open: a gateway that was taken over could say that there are any number.
const maxOpen = 1 << 16

// errDied is the end of ways out whose gateway has died.
var errDied = errors.New("the gateway process has died")

// Open makes a way out for one sandbox and returns before it is ready: the sandbox can start meanwhile. tell is called with each decision,
// one after the other.
func (g *Gateway) Open(order egress.Order, tell func(egress.Decision)) (egress.Way, error) {
	order = g.limited(order)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return egress.Way{}, fmt.Errorf("make link: %w", err)
	}
	for _, end := range pair {
		if unix.SetsockoptInt(end, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, linkBytes) != nil { // not root's: as much as net.core.wmem_max allows
			_ = unix.SetsockoptInt(end, unix.SOL_SOCKET, unix.SO_SNDBUF, linkBytes)
		}
	}
	link := os.NewFile(uintptr(pair[0]), "link")
	r, err := g.process()
	if err != nil {
		return egress.Way{}, errors.Join(err, link.Close(), unix.Close(pair[1]))
	}
	w := &way{tell: tell, ready: make(chan struct{}), ended: make(chan struct{}), open: map[uint64]egress.Decision{}}
	if err := errors.Join(r.order(order, w, pair[1]), unix.Close(pair[1])); err != nil {
		return egress.Way{}, errors.Join(fmt.Errorf("open a way out: %w", err), link.Close())
	}
	return egress.Way{Link: link, Ready: w.isReady, Wait: w.wait}, nil
}

// linkBytes is what the kernel keeps of what one end of a link has sent and the other not read, twice: half of it is the kernel's own (socket(7),
// SO_SNDBUF). By default it is room for three packets, after which the ends take turns instead of working side by side.
const linkBytes = 1 << 20

// Pid is the process that runs, for who measures it; 0 if none does.
func (g *Gateway) Pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		return 0
	}
	return g.running.cmd.Process.Pid
}

// limited is an order with limits, if there are any.
func (g *Gateway) limited(o egress.Order) egress.Order {
	if o.Limits == (egress.Limits{}) {
		o.Limits = g.limits
	}
	return o
}

func (w *way) isReady(ctx context.Context) error {
	select {
	case <-w.ready:
		return nil
	case <-w.ended:
		return fmt.Errorf("open a way out: %w", cmp.Or(w.err, errDied))
	case <-ctx.Done():
		return fmt.Errorf("open a way out: %w", context.Cause(ctx))
	}
}

func (w *way) wait(ctx context.Context) error {
	select {
	case <-w.ended:
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("hear what the gateway has decided: %w", context.Cause(ctx))
	}
}

// process is the one that runs.
func (g *Gateway) process() (*running, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.running; r != nil {
		select {
		case <-r.gone:
		default:
			return r, nil
		}
	}
	path, err := g.find()
	if err != nil {
		return nil, err
	}
	exe, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open gateway: %w", err)
	}
	defer exe.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket of gateway: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	r := &running{sock: pair[0], gone: make(chan struct{}), heard: make(chan struct{}), served: map[string]*way{}}
	r.cmd = &exec.Cmd{
		Path: ownExe, Args: []string{Name}, Env: []string{}, Dir: "/", Stderr: os.Stderr, ExtraFiles: []*os.File{theirs, exe},
		SysProcAttr: &syscall.SysProcAttr{Credential: g.credential, Setsid: true, Pdeathsig: unix.SIGKILL},
	}
	started := make(chan error, 1)
	go func() { // the parent-death signal is that of the thread, prctl(2)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.cmd.Start()
		if errors.Is(err, unix.EINVAL) && g.credential != nil { // setuid(2): the id is not mapped here
			attr := *r.cmd.SysProcAttr
			attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
			r.cmd = &exec.Cmd{Path: ownExe, Args: r.cmd.Args, Env: r.cmd.Env, Dir: r.cmd.Dir, Stderr: r.cmd.Stderr, ExtraFiles: r.cmd.ExtraFiles, SysProcAttr: &attr}
			err = r.cmd.Start()
		}
		started <- err
		if err == nil {
			_ = r.cmd.Wait()
		}
		close(r.gone)
	}()
	if err := errors.Join(<-started, theirs.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start gateway: %w", err), unix.Close(pair[0]))
	}
	go r.hear()
	g.running = r
	return r, nil
}

// order gives one, with the gateway's end of the link.
func (r *running) order(o egress.Order, w *way, link int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return errDied
	}
	if r.served[o.ID] != nil {
		return fmt.Errorf("sandbox %s has a way out already", o.ID)
	}
	if err := packet.Send(r.sock, o, link); err != nil {
		return err
	}
	r.served[o.ID] = w
	return nil
}

// hear passes on what the process says until it is gone.
func (r *running) hear() {
	for {
		var said egress.Report
		fds, err := packet.Receive(r.sock, &said)
		packet.CloseAll(fds)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errDied
			}
			r.end(err)
			return
		}
		r.mu.Lock()
		w := r.served[said.ID]
		if said.Ended {
			delete(r.served, said.ID)
		}
		r.mu.Unlock()
		switch {
		case w == nil:
		case said.Ready:
			close(w.ready)
		case said.Begun != nil:
			if len(w.open) < maxOpen {
				w.open[said.Begun.Conn] = *said.Begun
			}
		case said.Decision != nil:
			delete(w.open, said.Decision.Conn)
			w.tell(*said.Decision)
		case said.Ended:
			if said.Error != "" {
				w.err = errors.New(said.Error)
			}
			close(w.ended)
		}
	}
}

func (r *running) end(err error) {
	r.mu.Lock()
	served := r.served
	r.dead, r.served = true, nil
	r.mu.Unlock()
	for _, w := range served {
		w.lose(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = unix.Close(r.sock) // nobody sends any more
	close(r.heard)
}

// lose ends a way out whose gateway is gone: of its connections it is known that there were such, and no more.
func (w *way) lose(err error) {
	for _, n := range slices.Sorted(maps.Keys(w.open)) {
		d := w.open[n]
		d.Reason, d.Lasted = fmt.Sprintf("%v; what was sent and taken is not known", err), time.Since(d.At)
		w.tell(d)
	}
	w.err = err
	close(w.ended)
}

// Close ends the process, and with it every way out.
func (g *Gateway) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.running
	if r == nil {
		return nil
	}
	g.running = nil
	r.mu.Lock()
	if !r.dead {
		_ = unix.Shutdown(r.sock, unix.SHUT_RDWR) // it hears that nobody is there
	}
	r.mu.Unlock()
	<-r.heard
	<-r.gone
	return nil
}

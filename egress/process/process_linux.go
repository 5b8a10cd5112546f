// Package process is silk's side of a gateway process (egress/gateway): it starts one when the first sandbox needs a way out, gives it
// orders and hears what it has decided. silk itself has no network stack, which would be paid for at each of its starts.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/packet"
)

// Name is what the executable is called to be a gateway: its argument 0.
const Name = "silk-gateway"

// Gateway is a gateway process. It is safe for concurrent use. Close it.
type Gateway struct {
	exe        string
	credential *syscall.Credential // nil: this process's own

	mu      sync.Mutex
	running *running
}

// New makes a gateway that starts exe when it is first needed, as the given user and group, or as this process's where that is not
// root's. If it dies, the sandboxes that it served have no network, and the next [Gateway.Open] starts another.
func New(exe string, uid, gid int) *Gateway {
	g := &Gateway{exe: exe}
	if os.Getuid() == 0 {
		g.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return g
}

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
}

// errDied is the end of ways out whose gateway has died.
var errDied = errors.New("the gateway process has died")

// Open makes a way out for one sandbox. tell is called with each decision, one after the other. link is the sandbox's end, which the caller
// closes when the sandbox has it; wait returns after the last decision, which comes soon after nobody has the sandbox's end any more.
func (g *Gateway) Open(ctx context.Context, order egress.Order, tell func(egress.Decision)) (link *os.File, wait func() error, err error) {
	r, err := g.process()
	if err != nil {
		return nil, nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make link: %w", err)
	}
	link = os.NewFile(uintptr(pair[0]), "link")
	w := &way{tell: tell, ready: make(chan struct{}), ended: make(chan struct{})}
	err = errors.Join(r.order(order, w, pair[1]), unix.Close(pair[1]))
	if err == nil {
		select {
		case <-w.ready:
			return link, func() error { <-w.ended; return w.err }, nil
		case <-w.ended:
			err = w.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return nil, nil, errors.Join(fmt.Errorf("open a way out: %w", err), link.Close())
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
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket of gateway: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	r := &running{sock: pair[0], gone: make(chan struct{}), heard: make(chan struct{}), served: map[string]*way{}}
	r.cmd = &exec.Cmd{
		Path: g.exe, Args: []string{Name}, Env: []string{}, Dir: "/", Stderr: os.Stderr, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Credential: g.credential, Setsid: true, Pdeathsig: unix.SIGKILL},
	}
	started := make(chan error, 1)
	go func() { // the parent-death signal is that of the thread, prctl(2)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.cmd.Start()
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
		case said.Decision != nil:
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
	defer r.mu.Unlock()
	r.dead = true
	for _, w := range r.served {
		w.err = err
		close(w.ended)
	}
	r.served = nil
	_ = unix.Close(r.sock) // nobody sends any more
	close(r.heard)
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

package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/packet"
	"github.com/silk-sandbox/silk/watch"
)

// Errand is a sandbox that another process wants.
type Errand struct {
	Spec driver.Spec // without its functions

	sock        int
	asked       request
	files       []*os.File // what came beside the request
	fill, drain *os.File   // streams of the workspace, among files

	filled  chan error // the other side's word about its end of fill
	heard   chan struct{}
	mu      sync.Mutex
	sandbox driver.Sandbox
}

// Hooks are what else happens during an errand. Each may be nil.
type Hooks struct {
	Hold    func() error // called before the workspace is filled; the program waits for it, and its error fails the start
	Started func()       // called when the program runs
	Signals <-chan int   // what somebody else sends the program
}

// Accept says which build this is, and waits for what is wanted. sock is the errand's from then on. The caller calls Run or Refuse.
func Accept(sock int, build string) (_ *Errand, err error) {
	e := &Errand{sock: sock, filled: make(chan error, 1), heard: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("hear what sandbox is wanted: %w", err), e.close())
		}
	}()
	if err := packet.Send(sock, word{Build: &build}); err != nil {
		return nil, err
	}
	fds, err := packet.Receive(sock, &e.asked)
	for _, fd := range fds {
		e.files = append(e.files, os.NewFile(uintptr(fd), "relayed"))
	}
	if err != nil {
		return nil, err
	}
	var rest []*os.File
	if e.Spec, rest, err = e.asked.spec(e.files); err != nil {
		return nil, err
	}
	for _, stream := range []struct {
		wanted bool
		file   **os.File
	}{{e.asked.Fill, &e.fill}, {e.asked.Drain, &e.drain}} {
		if !stream.wanted {
			continue
		}
		if len(rest) == 0 {
			return nil, errors.New("the request lacks a stream of the workspace")
		}
		*stream.file, rest = rest[0], rest[1:]
	}
	return e, nil
}

// close gives back what the errand holds.
func (e *Errand) close() error {
	for _, f := range e.files {
		_ = f.Close() // one of them may have been closed
	}
	return unix.Close(e.sock)
}

// lingers is how long the last word may take to be heard.
const lingers = 30 * time.Second

// Refuse says that there will be no sandbox, and why.
func (e *Errand) Refuse(err error) {
	_ = packet.Send(e.sock, word{Exit: endingOf(driver.Exit{}, err)}) // who does not hear it learns it from our end
	_ = e.close()
}

// Run starts the sandbox with d and returns when nothing of it is left and its end was heard. It ends the sandbox when ctx is done, and the
// cause is what the other process is told; and when that has gone.
func (e *Errand) Run(ctx context.Context, d driver.Driver, hooks Hooks) (exit driver.Exit, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go e.hear(cancel)
	exit, err = e.carry(ctx, d, hooks)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errKilled) {
		err = cause
	}
	_ = packet.Send(e.sock, word{Exit: endingOf(exit, err)}) // as in Refuse
	for _, f := range e.files {                              // whoever reads one of them to its end must get there
		_ = f.Close()
	}
	e.files = nil
	select { // closing a socket with something unread in it would take the last word back, unix(7)
	case <-e.heard:
	case <-time.After(lingers):
		_ = unix.Shutdown(e.sock, unix.SHUT_RDWR)
		<-e.heard
	}
	return exit, errors.Join(err, e.close())
}

// errKilled is why a start was given up.
var errKilled = errors.New("the sandbox is no longer wanted")

func (e *Errand) carry(ctx context.Context, d driver.Driver, hooks Hooks) (driver.Exit, error) {
	sandbox, err := d.Start(ctx, e.spec(ctx, hooks))
	if err != nil {
		return driver.Exit{}, err
	}
	e.mu.Lock()
	e.sandbox = sandbox
	e.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { sandbox.Kill(driver.KillNow) })
	defer stop()
	if hooks.Started != nil {
		hooks.Started()
	}
	gone := make(chan struct{})
	defer close(gone)
	if s, ok := sandbox.(driver.Signaler); ok {
		go pass(hooks.Signals, s, gone)
	}
	var can abilities
	_, can.Signals = sandbox.(driver.Signaler)
	_, can.Resizes = sandbox.(driver.Resizer)
	if err := packet.Send(e.sock, word{Started: &can}); err != nil {
		sandbox.Kill(driver.KillNow) // hear says why
	}
	return sandbox.Wait()
}

// pass passes signals on until the sandbox is gone.
func pass(signals <-chan int, to driver.Signaler, gone <-chan struct{}) {
	for {
		select {
		case n := <-signals:
			_ = to.Signal(n) // it has ended
		case <-gone:
			return
		}
	}
}

// spec is the spec with functions that do here what the other process's do there.
func (e *Errand) spec(ctx context.Context, hooks Hooks) driver.Spec {
	spec := e.Spec
	spec.Fill = func(w io.Writer) error {
		if hooks.Hold != nil {
			if err := hooks.Hold(); err != nil {
				return err
			}
		}
		return e.fillFrom(ctx, w)
	}
	if e.drain != nil {
		spec.Drain = func(r io.Reader) error {
			_, err := io.Copy(e.drain, r)
			return errors.Join(err, e.drain.Close())
		}
	}
	if e.asked.Events {
		spec.Events = func(one watch.Event) { _ = packet.Send(e.sock, word{Event: &one}) }
	}
	if e.asked.Trace {
		spec.Trace = func(name string, at time.Time) { _ = packet.Send(e.sock, word{Step: &step{name, at}}) }
	}
	return spec
}

// fillFrom passes the workspace on, but for the last of it, which a program's start may follow, until the other process has said that it was whole.
func (e *Errand) fillFrom(ctx context.Context, w io.Writer) error {
	if e.fill == nil {
		return emptyTar(w)
	}
	kept, next := make([]byte, 0, keptBytes), make([]byte, keptBytes)
	for {
		n, err := io.ReadFull(e.fill, next)
		if n > 0 {
			if _, err := w.Write(kept); err != nil {
				return err
			}
			kept, next = next[:n], kept[:keptBytes]
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	select {
	case err := <-e.filled:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err := w.Write(kept)
	return err
}

// keptBytes are more than the end of an archive (1024 bytes, tar(5)) has.
const keptBytes = 64 << 10

// hear obeys until the other end is closed.
func (e *Errand) hear(cancel context.CancelCauseFunc) {
	defer close(e.heard)
	for {
		var o order
		fds, err := packet.Receive(e.sock, &o)
		packet.CloseAll(fds)
		if err != nil {
			cancel(errGone)
			return
		}
		e.mu.Lock()
		sandbox := e.sandbox
		e.mu.Unlock()
		switch {
		case o.Filled != nil:
			var err error
			if o.Filled.Error != "" {
				err = errors.New(o.Filled.Error)
			}
			select {
			case e.filled <- err:
			default: // it was said before
			}
		case o.Kill != nil && sandbox == nil:
			cancel(errKilled)
		case o.Kill != nil:
			sandbox.Kill(*o.Kill)
		case o.Signal != 0:
			if s, ok := sandbox.(driver.Signaler); ok {
				_ = s.Signal(o.Signal) // it has ended
			}
		case o.Resize != nil:
			if s, ok := sandbox.(driver.Resizer); ok {
				_ = s.Resize(o.Resize[0], o.Resize[1])
			}
		}
	}
}

package relay

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/packet"
	"github.com/silk-sandbox/silk/watch"
)

// sandbox is one that another process holds.
type sandbox struct {
	spec   driver.Spec
	killed atomic.Bool

	mu     sync.Mutex
	sock   int
	closed bool

	begun chan struct{} // closed when the program runs, or never will
	over  chan struct{} // closed when the last word was heard, or nobody is there
	can   *abilities    // when begun; nil: it never will
	exit  driver.Exit   // when over
	err   error         // when over

	build   chan string
	filled  chan struct{} // closed when Fill has returned
	fillErr error         // then
	drained chan error    // nil if no drain is wanted
	streams []*os.File    // our ends of both

	events  chan watch.Event
	told    chan struct{} // closed when the listener has heard all
	dropped int64         // when over
}

// eventRoom is how many events wait for a slow listener.
const eventRoom = 4096

// giveUp is how long the other process may take to give up a start.
const giveUp = 5 * time.Second

// Start has the process at the other end of sock start a sandbox of spec. sock is its own from then on. On error that process has
// ended the sandbox, or is gone, or was left alone.
func Start(ctx context.Context, sock int, build string, spec driver.Spec) (_ driver.Sandbox, err error) {
	s := &sandbox{
		spec: spec, sock: sock, begun: make(chan struct{}), over: make(chan struct{}), build: make(chan string, 1), filled: make(chan struct{}),
		events: make(chan watch.Event, eventRoom), told: make(chan struct{}),
	}
	go s.tell()
	go s.hear()
	asked := false
	defer func() {
		if err == nil {
			return
		}
		s.close()
		<-s.over
		if !asked {
			return
		}
		for _, f := range s.streams { // the other process may be there and do nothing
			_ = f.SetDeadline(time.Unix(1, 0))
		}
		<-s.filled
		if s.drained != nil {
			<-s.drained
		}
	}()
	select {
	case theirs := <-s.build:
		if theirs != build {
			return nil, &BuildError{theirs, build}
		}
	case <-s.over:
		return nil, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	asked = true
	select {
	case <-s.begun:
	case <-ctx.Done():
		s.Kill(driver.KillNow)
		select {
		case <-s.over:
		case <-time.After(giveUp):
		}
		return nil, context.Cause(ctx)
	}
	switch {
	case ctx.Err() != nil:
		s.Kill(driver.KillNow)
		return nil, context.Cause(ctx)
	case s.can == nil:
		<-s.over
		<-s.filled
		if s.fillErr != nil && !errors.Is(s.fillErr, syscall.EPIPE) { // the other process has but its text
			return nil, fmt.Errorf("fill workspace: %w", s.fillErr)
		}
		return nil, cmp.Or(s.err, ErrLost)
	}
	if s.can.Signals {
		return &signaled{s}, nil
	}
	return s, nil
}

// ask sends the request, and starts the two streams of the workspace.
func (s *sandbox) ask(ctx context.Context) error {
	r, files := requestOf(s.spec)
	var theirs, ours []*os.File
	stream := func(wanted bool) (read, write *os.File, err error) {
		if !wanted {
			return nil, nil, nil
		}
		if read, write, err = os.Pipe(); err != nil {
			err = fmt.Errorf("make workspace stream: %w", err)
		}
		return read, write, err
	}
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the other process has its own
		}
	}()
	fillR, fill, err := stream(r.Fill)
	if err != nil {
		return err
	}
	if r.Fill {
		theirs, ours, files = append(theirs, fillR), append(ours, fill), append(files, fillR)
	}
	drain, drainW, err := stream(r.Drain)
	if err == nil && r.Drain {
		theirs, ours, files = append(theirs, drainW), append(ours, drain), append(files, drainW)
	}
	if err == nil {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		if err = packet.Send(s.sock, r, fds...); err != nil {
			err = fmt.Errorf("send request to the process with the driver: %w", err)
		}
	}
	if err != nil {
		for _, f := range ours {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	s.streams = ours
	go s.fill(ctx, fill)
	if drain != nil {
		s.drained = make(chan error, 1)
		go s.drain(drain)
	}
	return nil
}

func (s *sandbox) fill(ctx context.Context, w *os.File) {
	defer close(s.filled)
	if w == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = w.SetWriteDeadline(time.Unix(1, 0)) })
	err := s.spec.Fill(w)
	stop()
	err = errors.Join(err, w.Close())
	said := filled{}
	if err != nil {
		said.Error = err.Error()
	}
	s.fillErr = err
	_ = s.send(order{Filled: &said}) // who is not there any more has its own reason
}

func (s *sandbox) drain(r *os.File) {
	err := s.spec.Drain(r)
	if err != nil {
		_, _ = io.Copy(io.Discard, r) // let the other process go on to its end
	}
	s.drained <- errors.Join(err, r.Close())
}

func (s *sandbox) send(o order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	return packet.Send(s.sock, o)
}

// close leaves the other process alone. What it has still to say is not heard.
func (s *sandbox) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_ = unix.Shutdown(s.sock, unix.SHUT_RDWR) // hear waits in it
	}
	s.closed = true
}

// hear listens until the last word.
func (s *sandbox) hear() {
	defer func() {
		s.close()
		_ = unix.Close(s.sock) // nobody uses it any more
		close(s.events)
		close(s.over)
		if s.can == nil {
			close(s.begun)
		}
	}()
	for {
		var w word
		fds, err := packet.Receive(s.sock, &w)
		packet.CloseAll(fds)
		switch {
		case errors.Is(err, io.EOF):
			s.err = ErrLost
			return
		case err != nil:
			s.err = fmt.Errorf("hear from the process with the driver: %w", err)
			return
		case w.Build != nil:
			select {
			case s.build <- *w.Build:
			default:
			}
		case w.Step != nil && s.spec.Trace != nil:
			s.spec.Trace(w.Step.Name, w.Step.At)
		case w.Event != nil:
			select {
			case s.events <- *w.Event:
			default:
				s.dropped++
			}
		case w.Started != nil && s.can == nil:
			s.can = w.Started
			close(s.begun)
		case w.Exit != nil:
			s.exit, s.err = w.Exit.result()
			return
		}
	}
}

// tell passes events on.
func (s *sandbox) tell() {
	defer close(s.told)
	for one := range s.events {
		if s.spec.Events != nil {
			s.spec.Events(one)
		}
	}
}

// Wait implements [driver.Sandbox].
func (s *sandbox) Wait() (driver.Exit, error) {
	<-s.over
	<-s.told
	<-s.filled
	exit, err := s.exit, s.err
	exit.Watched.Dropped += s.dropped
	lost := errors.Is(err, ErrLost)
	if lost && s.killed.Load() {
		exit, err = driver.Exit{Killed: true, Signal: int(syscall.SIGKILL)}, nil
	}
	if s.drained != nil {
		drainErr := <-s.drained
		if lost || exit.DrainErr != nil { // the stream was cut: not the reader's fault
			exit.DrainErr = errors.Join(exit.DrainErr, drainErr)
		} else {
			err = errors.Join(err, drainErr)
		}
	}
	return exit, err
}

// Kill implements [driver.Sandbox].
func (s *sandbox) Kill(how driver.KillMode) {
	s.killed.Store(true)
	_ = s.send(order{Kill: &how}) // nobody there: it has ended
}

// Resize implements [driver.Resizer].
func (s *sandbox) Resize(columns, rows uint16) error {
	if !s.can.Resizes {
		return nil
	}
	return s.ended(s.send(order{Resize: &[2]uint16{columns, rows}}))
}

// ended takes the error of a message to a sandbox that is no more for none.
func (s *sandbox) ended(err error) error {
	if errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

// signaled is a sandbox whose program can be sent signals.
type signaled struct{ *sandbox }

// Signal implements [driver.Signaler].
func (s *signaled) Signal(n int) error { return s.ended(s.send(order{Signal: n})) }

// emptyTar writes what an empty workspace is.
func emptyTar(w io.Writer) error { return tar.NewWriter(w).Close() }

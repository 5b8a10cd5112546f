//go:build unix

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/silk-sandbox/silk/driver"
)

// Fake is a driver that isolates nothing and runs nothing: it interprets a small language inside this process and keeps
// the contract of [driver.Driver] exactly. It is for tests of what stands above a driver. Safe for concurrent use.
//
// A program is Spec.Args: "fake" and then operations, done one after the other; see the table in ops.go. At the end the
// program exits 0.
type Fake struct {
	StartErr error // if not nil, Start fails with it before anything else
	WaitErr  error // if not nil, Wait fails with it at the end, as if the host had lost the sandbox

	// DrainAtStart calls Drain before Fill, as drivers do that connect all streams first. Its bytes come at the end.
	DrainAtStart bool

	// Started, if not nil, is called in Start after Fill and before the program's first operation.
	Started func(spec driver.Spec)

	mu      sync.Mutex
	running int
}

// Name is "fake".
func (f *Fake) Name() string { return "fake" }

// Running is the number of sandboxes whose Wait has not returned.
func (f *Fake) Running() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// Start fills the workspace, takes copies of the descriptors and starts the program.
func (f *Fake) Start(ctx context.Context, spec driver.Spec) (_ driver.Sandbox, err error) {
	if f.StartErr != nil {
		return nil, f.StartErr
	}
	if err := check(spec); err != nil {
		return nil, fmt.Errorf("fake sandbox: %w", err)
	}
	if spec.RequireWatch {
		return nil, &driver.Unheld{Promise: "watch", Detail: "nothing watches a fake sandbox", Fix: "leave require_watch out"}
	}
	s := &sandbox{fake: f, spec: spec, killed: make(chan struct{}), now: make(chan struct{}), ended: make(chan struct{}), signals: make(chan int, 1), files: map[string]file{}}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("fake sandbox: %w", err)
	}
	defer func() {
		if err != nil {
			s.closeAll()
			s.closeDrain()
		}
	}()
	if f.DrainAtStart && spec.Drain != nil {
		s.openDrain()
	}
	if spec.Fill != nil {
		if err := fill(s.files, spec.Fill); err != nil {
			return nil, fmt.Errorf("fill workspace: %w", err)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if f.Started != nil {
		f.Started(spec)
	}
	if spec.Trace != nil {
		spec.Trace("fake program starts", time.Now())
	}
	f.mu.Lock()
	f.running++
	f.mu.Unlock()
	go s.run()
	return s, nil
}

// check refuses a spec that no driver could start.
func check(spec driver.Spec) error {
	if spec.Terminal == nil && spec.Stderr == nil {
		return errors.New("no stderr")
	}
	return spec.Check()
}

// sandbox is one run of a program.
type sandbox struct {
	fake *Fake
	spec driver.Spec

	stdin, stdout, stderr *os.File // own copies; stdin may be nil
	files                 map[string]file

	killOnce  sync.Once
	nowOnce   sync.Once
	killed    chan struct{} // closed by the first Kill
	now       chan struct{} // closed by the first Kill(KillNow)
	ended     chan struct{} // closed when the main process has ended
	offspring sync.WaitGroup
	listening sync.WaitGroup // calls of spec.Events

	reader  *io.PipeReader // of the final workspace, if Drain was called
	writer  *io.PipeWriter
	drained chan error

	resized chan struct{}
	signals chan int

	exit driver.Exit
}

// open takes copies of the spec's descriptors, which the caller may close as soon as Start has returned.
func (s *sandbox) open() (err error) {
	dup := func(f *os.File) *os.File {
		if f == nil || err != nil {
			return nil
		}
		var conn syscall.RawConn
		if conn, err = f.SyscallConn(); err != nil {
			return nil
		}
		var fd int
		var dupErr error
		err = conn.Control(func(old uintptr) {
			syscall.ForkLock.RLock()
			defer syscall.ForkLock.RUnlock()
			if fd, dupErr = syscall.Dup(int(old)); dupErr == nil {
				syscall.CloseOnExec(fd)
				dupErr = syscall.SetNonblock(fd, true) // so that Close ends a Read or Write
			}
		})
		if err = errors.Join(err, dupErr); err != nil {
			return nil
		}
		return os.NewFile(uintptr(fd), f.Name())
	}
	if s.spec.Terminal != nil {
		s.resized = make(chan struct{}, 1)
		s.stdin, s.stdout, s.stderr = dup(s.spec.Terminal), dup(s.spec.Terminal), dup(s.spec.Terminal)
	} else {
		s.stdin, s.stdout, s.stderr = dup(s.spec.Stdin), dup(s.spec.Stdout), dup(s.spec.Stderr)
	}
	if err != nil {
		s.closeAll()
	}
	return err
}

func (s *sandbox) closeAll() {
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		if f != nil {
			f.Close() // also by Kill: a second Close only says so
		}
	}
}

// run is the main process. When it has ended, everything else in the sandbox is ended as well.
func (s *sandbox) run() {
	defer close(s.ended)
	s.exit.Usage = driver.Usage{CPU: 1, PeakMemoryBytes: 1 << 20, Processes: 1}
	switch args := s.spec.Args; {
	case args[0] == "fake":
		s.main(args[1:])
	case args[0] == "sh" && len(args) > 2: // with a script, which is not read: what it would do are its arguments
		s.main(args[2:])
	default:
		s.exit.Code, s.exit.NotFound, s.exit.Message = 127, true, args[0]+": command not found"
	}
	s.end()
	s.offspring.Wait()
}

func (s *sandbox) main(ops []string) {
	for _, op := range ops {
		done := s.do(op)
		if isClosed(s.killed) {
			s.exit.Killed, s.exit.Code, s.exit.Signal = true, 0, int(syscall.SIGKILL)
			return
		}
		if done {
			return
		}
	}
}

// end ends what is left of the sandbox, but is not a Kill.
func (s *sandbox) end() { s.killOnce.Do(func() { close(s.killed); s.closeAll() }) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Kill ends the program.
func (s *sandbox) Kill(how driver.KillMode) {
	if how == driver.KillNow {
		s.nowOnce.Do(func() { close(s.now) })
	}
	s.end()
}

// Wait drains the workspace when the program has ended.
func (s *sandbox) Wait() (driver.Exit, error) {
	<-s.ended
	s.listening.Wait()
	err := s.drain()
	s.fake.mu.Lock()
	s.fake.running--
	s.fake.mu.Unlock()
	if s.fake.WaitErr != nil {
		err = errors.Join(err, s.fake.WaitErr)
	}
	return s.exit, err
}

// openDrain calls Drain, whose stream comes later.
func (s *sandbox) openDrain() {
	s.reader, s.writer = io.Pipe()
	s.drained = make(chan error, 1)
	go func() {
		err := s.spec.Drain(s.reader)
		s.reader.Close() // a Drain that stops early ends the packing
		s.drained <- err
	}()
}

// closeDrain ends a Drain whose stream never comes.
func (s *sandbox) closeDrain() {
	if s.drained != nil {
		s.writer.CloseWithError(errors.New("the sandbox did not start"))
		<-s.drained
	}
}

func (s *sandbox) drain() error {
	if s.spec.Drain == nil {
		return nil
	}
	if s.drained == nil {
		s.openDrain()
	}
	packed := make(chan struct{})
	watched := make(chan struct{})
	go func() { // a KillNow loses the workspace, also in the middle of it
		defer close(watched)
		select {
		case <-s.now:
			s.writer.CloseWithError(errKilled)
		case <-packed:
		}
	}()
	if !isClosed(s.now) {
		s.writer.CloseWithError(pack(s.writer, s.files))
	}
	close(packed)
	<-watched
	s.writer.CloseWithError(errKilled) // if nothing was packed; otherwise it is closed
	err := <-s.drained
	switch {
	case isClosed(s.now):
		s.exit.DrainErr = errKilled
	case err != nil:
		return fmt.Errorf("drain workspace: %w", err)
	}
	return nil
}

var errKilled = errors.New("killed at once")

// Resize tells a program that waits in the operation "resized".
func (s *sandbox) Resize(columns, rows uint16) error {
	if s.resized == nil {
		return errors.New("no terminal")
	}
	select {
	case s.resized <- struct{}{}:
	default:
	}
	return nil
}

// Signal ends a program that waits in the operation "sleep". Another one never hears of it.
func (s *sandbox) Signal(n int) error {
	select {
	case s.signals <- n:
	default:
	}
	return nil
}

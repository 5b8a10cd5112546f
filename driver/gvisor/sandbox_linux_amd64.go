package gvisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor/wire"
)

// sandbox is one run in one kernel.
type sandbox struct {
	kernel  *kernel
	armed   chan struct{} // closed when the kernel has confirmed that the policy is in force
	over    chan struct{} // closed when nothing of it is left
	drained chan error    // nil if no drain is wanted
	events  *events       // nil before the request is sent
	moved   atomic.Int64
	killed  atomic.Bool

	tablesFull atomic.Bool // watchTables ended the sandbox
}

// Wait implements [driver.Sandbox].
func (s *sandbox) Wait() (driver.Exit, error) {
	m, err := s.kernel.receive()
	switch {
	case errors.Is(err, io.EOF) && s.killed.Load():
		err = nil
		m = wire.Message{Kind: wire.Exit, Killed: true, Status: uint32(syscall.SIGKILL)}
	case errors.Is(err, io.EOF):
		err = s.kernel.died()
	case err != nil:
		err = fmt.Errorf("hear from sandbox kernel: %w", err)
	case m.Kind == wire.Error:
		err = fmt.Errorf("sandbox kernel: %s", m.Error)
	case m.Kind != wire.Exit && m.Kind != wire.Violation:
		err = fmt.Errorf("sandbox kernel said %q at the end", m.Kind)
	}
	if err != nil {
		s.kernel.kill()
	}
	exit := s.exit(m)
	drainErr := s.drainEnd()
	watched, eventsErr := s.events.end(exit.Violation != nil)
	exit.Watched, exit.Watched.Host = watched, s.kernel.scope != nil
	broken, brokenErr := s.kernel.brokeOut()
	if broken != nil {
		exit.Violation, exit.OOM, err = broken, false, nil
	}
	err = errors.Join(err, brokenErr)
	if err != nil && eventsErr == nil && s.hostOOM() {
		exit.OOM, err = true, nil
	}
	if m.Kind != wire.Exit || s.killed.Load() || exit.DrainErr != nil { // the stream was cut: not the reader's fault
		exit.DrainErr, drainErr = errors.Join(exit.DrainErr, drainErr), nil
	}
	exit.Usage.CPU = s.kernel.cpuTime()
	return exit, errors.Join(err, eventsErr, drainErr, s.release())
}

// hostOOM says whether the sandbox ended for want of memory outside the guest's own count. It asks the counters of the
// host's kernel, not the signal.
func (s *sandbox) hostOOM() bool {
	if s.tablesFull.Load() || s.kernel.outOfMemory() {
		return true
	}
	if s.kernel.group == nil {
		return false
	}
	n, err := s.kernel.group.OOMKills()
	return err == nil && n > 0
}

// drainEnd waits until the process is reaped and the drain at its end.
func (s *sandbox) drainEnd() error {
	<-s.kernel.gone
	if s.drained == nil {
		return nil
	}
	return <-s.drained
}

// release gives back what the sandbox held on the host. The process is gone.
func (s *sandbox) release() error {
	defer close(s.over)
	s.kernel.close()
	s.kernel.stderr.wait()
	return errors.Join(s.kernel.unwatch(), s.kernel.removeGroup())
}

// exit maps the last message.
func (s *sandbox) exit(m wire.Message) driver.Exit {
	exit := driver.Exit{
		OOM: m.OOM, Violation: m.Violation, Killed: m.Killed, Flags: m.Flags, Refused: m.Refused,
		Usage: driver.Usage{PeakMemoryBytes: m.PeakBytes, Processes: m.Processes},
	}
	if m.DrainErr != "" {
		exit.DrainErr = errors.New(m.DrainErr)
	}
	status := syscall.WaitStatus(m.Status)
	switch {
	case m.NotFound != "":
		exit.NotFound, exit.Message, exit.Code = true, m.NotFound, m.Code
	case status.Signaled():
		exit.Signal = int(status.Signal())
	default:
		exit.Code = status.ExitStatus()
	}
	return exit
}

// killGrace is how long a kernel may take to answer a request to end, and how long its drain may stand still.
const killGrace = 2 * time.Second

// Kill implements [driver.Sandbox].
func (s *sandbox) Kill(how driver.KillMode) {
	s.killed.Store(true)
	if how == driver.KillDrain && s.kernel.tell(wire.Control{Kill: true}) == nil {
		go s.killIfStuck()
		return
	}
	s.kernel.kill()
}

func (s *sandbox) killIfStuck() {
	for before := int64(-1); ; {
		select {
		case <-s.kernel.gone:
			return
		case <-time.After(killGrace):
		}
		now := s.moved.Load()
		if now == before || now == 0 {
			s.kernel.kill()
			return
		}
		before = now
	}
}

// Signal implements [driver.Signaler].
func (s *sandbox) Signal(n int) error {
	if err := s.kernel.tell(wire.Control{Signal: int32(n)}); err != nil && !peerGone(err) {
		return fmt.Errorf("send signal to sandbox: %w", err)
	}
	return nil
}

// Resize implements [driver.Resizer]. The size is the pty's, which the engine sets on its side; the host's kernel then
// tells the sandbox's, which tells the foreground process group.
func (s *sandbox) Resize(uint16, uint16) error { return nil }

// ended is a sandbox whose program never ran.
type ended struct{ exit driver.Exit }

func (e *ended) Wait() (driver.Exit, error) { return e.exit, nil }
func (e *ended) Kill(driver.KillMode)       {}

// counted counts what is read, so that a drain that moves is told from one that hangs.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

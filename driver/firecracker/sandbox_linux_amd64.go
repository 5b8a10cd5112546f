package firecracker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/firecracker/wire"
	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/internal/guestwire"
	"github.com/silk-sandbox/silk/watch"
)

// sandbox is one run in one machine.
type sandbox struct {
	driver *Driver
	spec   driver.Spec
	limit  time.Duration // of boot
	undo   cleanup.Stack

	vmm     *process
	drives  []string // serial numbers of the machine's drives: the image's, then one for each of spec.Mounts
	conn    *guestwire.Conn
	running sync.WaitGroup
	pumps   sync.WaitGroup // that write what the program wrote
	input   *os.File       // stdin's, or the terminal's copy

	hello, started, reported, failed chan struct{} // closed when it has happened; failed: nothing more comes
	read                             chan struct{} // closed when there is a report, or will be none
	called                           time.Time     // when the agent said its first word, and what the guest's own clock had counted by then
	uptime                           time.Duration // since its kernel began
	beginning, failing               sync.Once
	failure                          error
	report                           wire.Report
	events                           listener

	drained chan struct{} // closed when the drain is over; nil: none is wanted
	readErr error         // of who drains
	cutErr  error         // of the stream, which was cut short
	killed  atomic.Bool
	ended   atomic.Bool  // the report was there before anybody killed it
	heard   atomic.Int64 // frames and bytes, to tell a machine that works from one that hangs
	over    chan struct{}
}

// fail notes why nothing more comes. The first reason counts.
func (s *sandbox) fail(err error) {
	s.failing.Do(func() {
		s.failure = err
		close(s.failed)
	})
}

// listen hears the agent until it is gone.
func (s *sandbox) listen() {
	hello := false
	err := s.conn.Run(func(kind guestwire.Kind, payload []byte) error {
		s.heard.Add(1)
		if (kind == guestwire.Hello) == hello {
			return fmt.Errorf("%w: message %d out of order", guestwire.ErrProtocol, kind)
		}
		switch kind {
		case guestwire.Hello:
			h, err := wire.ParseHello(payload)
			if err != nil {
				return err
			}
			if h.Version != guestwire.Version {
				return fmt.Errorf("the agent speaks version %d, silk %d: they are not of one build", h.Version, guestwire.Version)
			}
			hello = true
			s.called, s.uptime = time.Now(), time.Duration(h.UptimeMs)*time.Millisecond
			close(s.hello)
		case guestwire.Started:
			if !s.begin() {
				return fmt.Errorf("%w: a message that comes once came again", guestwire.ErrProtocol)
			}
		case guestwire.Failed:
			return fmt.Errorf("the agent cannot go on: %s", watch.Printable(string(payload)))
		case guestwire.Note:
			e, err := wire.ParseEvent(payload)
			if err != nil {
				return err
			}
			s.events.add(e)
		}
		return nil
	})
	s.fail(err)
}

// begin notes that the program runs, or that it is known that it cannot. Two may say so at once.
func (s *sandbox) begin() (first bool) {
	s.beginning.Do(func() {
		close(s.started)
		first = true
	})
	return first
}

// readReport waits for the end.
func (s *sandbox) readReport() {
	defer close(s.read)
	report, err := wire.ReadReport(s.conn.Reader(guestwire.Report))
	if err != nil {
		s.fail(err)
		return
	}
	s.report = report
	s.ended.Store(!s.killed.Load())
	close(s.reported)
	if report.NotFound { // a program that cannot be started has a report too
		s.begin()
	}
}

// why says what has become of a machine that is gone, or of which nothing more comes.
func (s *sandbox) why() error {
	gone := false
	select {
	case <-s.vmm.gone:
		gone = true
	case <-s.failed:
	}
	if !gone { // it may have come to its end, and the console then says why
		select {
		case <-s.vmm.gone:
			gone = true
		case <-time.After(time.Second):
		}
	}
	if g := s.vmm.group; g != nil {
		if n, err := g.OOMKills(); err == nil && n > 0 {
			return errors.New("the VMM took more memory than its control group allows, and was ended")
		}
	}
	if gone {
		return fmt.Errorf("the machine has ended before its time (%s: %v); %s", s.driver.Name(), s.vmm.state, s.vmm.console.say())
	}
	return fmt.Errorf("nothing more comes from the machine: %w; %s", s.failure, s.vmm.console.say())
}

// killGrace is how long a machine that is to end may stand still before it is switched off.
func (s *sandbox) killGrace() time.Duration {
	if s.driver.host.vmm.kvm() {
		return 2 * time.Second
	}
	return 10 * time.Second
}

// Kill implements [driver.Sandbox].
func (s *sandbox) Kill(how driver.KillMode) {
	select {
	case <-s.over:
		return
	default:
	}
	first := s.killed.CompareAndSwap(false, true)
	if how == driver.KillNow {
		s.vmm.kill()
		return
	}
	if first {
		go func() { _ = s.conn.Send(guestwire.Stop, nil) }() // which waits for an agent that takes nothing
		go s.killIfStuck()
	}
}

// killIfStuck switches off a machine that does not come to its end.
func (s *sandbox) killIfStuck() {
	for before := int64(-1); ; {
		select {
		case <-s.vmm.gone:
			return
		case <-time.After(s.killGrace()):
		}
		now := s.heard.Load()
		if now == before {
			s.vmm.kill()
			return
		}
		before = now
	}
}

// Wait implements [driver.Sandbox].
func (s *sandbox) Wait() (exit driver.Exit, err error) {
	defer close(s.over)
	select {
	case <-s.reported:
	case <-s.failed:
	case <-s.vmm.gone:
	}
	reported := s.settled()
	if reported {
		_ = s.conn.Send(guestwire.Bye, nil) // a machine that is gone needs none
		select {
		case <-s.vmm.gone:
		case <-time.After(exitGrace):
		}
	} else if !s.killed.Load() {
		err = s.why()
	}
	s.vmm.kill()
	<-s.vmm.gone
	_ = s.conn.Close() // readers end
	s.pumps.Wait()
	if reported {
		exit = s.exit()
	} else if err == nil {
		exit = driver.Exit{Killed: true, Signal: 9}
	}
	if v := s.breakout(); v != nil { // whatever the machine has said
		exit, err = driver.Exit{Violation: v, Signal: 9}, nil
	}
	if s.killed.Load() && !s.ended.Load() && exit.Violation == nil && !exit.OOM {
		exit.Killed = true
	}
	exit.Usage.CPU = s.vmm.state.UserTime() + s.vmm.state.SystemTime()
	if s.drained != nil {
		<-s.drained
		exit.DrainErr, err = s.cutErr, errors.Join(err, s.readErr)
	}
	s.events.close()
	return exit, errors.Join(err, s.discard())
}

// breakout is what the VMM did that its own filter forbids, if a program ran: before, there is nobody who could have made it do that.
func (s *sandbox) breakout() *driver.Violation {
	select {
	case <-s.started:
		return s.driver.host.vmm.violation(s.vmm.state)
	default:
		return nil
	}
}

// settled says whether there is a report. What has just ended may have left one, which is on its way to readReport.
func (s *sandbox) settled() bool {
	limit := time.Second // of a machine from which nothing more comes, for another reason perhaps than that its agent is gone
	select {
	case <-s.vmm.gone:
		limit = exitGrace
	default:
	}
	select {
	case <-s.read:
	case <-time.After(limit):
	}
	return s.hasReport()
}

// exit is the report as a driver's.
func (s *sandbox) exit() driver.Exit {
	r := s.report
	e := driver.Exit{
		Code: r.Code, Signal: r.Signal, OOM: r.OOM, Violation: r.Violation, NotFound: r.NotFound, Message: r.Message, Flags: r.Flags, Refused: r.Refused,
		Watched: driver.Watched{Counts: r.Counts, Dropped: r.Dropped + s.events.lost(), Last: r.Last},
		Usage:   driver.Usage{PeakMemoryBytes: r.PeakMemoryBytes, Processes: r.Processes},
	}
	if e.Violation == nil {
		e.Watched.Last = nil
	}
	return e
}

// drain begins to read the workspace, which comes when the program has ended.
func (s *sandbox) drain() {
	s.events.begin(s.spec.Events)
	if s.spec.Drain == nil {
		return
	}
	s.drained = make(chan struct{})
	go func() {
		defer close(s.drained)
		r := &counted{r: s.conn.Reader(guestwire.Drain), n: &s.heard}
		err := s.spec.Drain(r)
		_, _ = io.Copy(io.Discard, r) // let the agent finish and report
		<-s.vmm.gone                  // which is after its report
		switch {
		case r.cut != nil:
			s.cutErr = fmt.Errorf("the workspace was not drained: %w", r.cut)
		case s.hasReport() && s.report.DrainError != "":
			s.cutErr = errors.New("the workspace was not drained: " + s.report.DrainError)
		default:
			s.readErr = err
		}
	}()
}

func (s *sandbox) hasReport() bool {
	select {
	case <-s.reported:
		return true
	default:
		return false
	}
}

// counted counts what is read, and notes whether the stream was cut short.
type counted struct {
	r   io.Reader
	n   *atomic.Int64
	cut error
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		c.cut = err
	}
	return n, err
}

// discard gives back what the sandbox holds, the last one first.
func (s *sandbox) discard() error {
	ctx, cancel := context.WithTimeout(context.Background(), teardownTimeout)
	defer cancel()
	s.events.close()
	err := s.undo.Run(ctx)
	s.pumps.Wait()
	if s.drained != nil {
		<-s.drained
	}
	return err
}

// Signal implements [driver.Signaler].
func (s *sandbox) Signal(n int) error {
	if n <= 0 || n > 64 {
		return fmt.Errorf("send signal %d: there is none of that number", n)
	}
	select {
	case <-s.over:
		return nil
	case <-s.reported:
		return nil
	default:
	}
	return s.conn.Send(guestwire.Signal, []byte{byte(n)})
}

var (
	_ driver.Resizer  = (*sandbox)(nil)
	_ driver.Signaler = (*sandbox)(nil)
)

// teardownTimeout bounds the removal of what a sandbox holds.
const teardownTimeout = 10 * time.Second

// Resize implements [driver.Resizer].
func (s *sandbox) Resize(columns, rows uint16) error {
	b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, columns), rows)
	return s.conn.Send(guestwire.Resize, b)
}

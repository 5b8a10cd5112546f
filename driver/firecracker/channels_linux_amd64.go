package firecracker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/firecracker/wire"
	"github.com/silk-sandbox/silk/internal/guestwire"
)

// channels connects the run's own pipes, or its terminal, with the agent's streams. Copies of them are ours: the caller closes its own.
func (s *sandbox) channels(plan *wire.Plan) (err error) {
	if s.spec.Terminal != nil {
		return s.terminal(plan)
	}
	var in, out, errs *os.File
	for _, c := range []struct {
		from *os.File
		to   **os.File
		what string
	}{{s.spec.Stdin, &in, "stdin"}, {s.spec.Stdout, &out, "stdout"}, {s.spec.Stderr, &errs, "stderr"}} {
		if c.from == nil {
			continue
		}
		if *c.to, err = copyOf(c.from); err != nil {
			return fmt.Errorf("copy %s: %w", c.what, err)
		}
		f := *c.to
		s.undo.PushFunc(func() { _ = f.Close() })
	}
	s.input = in
	s.feed(in)
	s.pumps.Go(func() { s.pass(out, guestwire.Stdout) })
	s.pumps.Go(func() { s.pass(errs, guestwire.Stderr) })
	return nil
}

// copyOf is another descriptor of a file, which can be interrupted.
func copyOf(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dupErr error
	if err := raw.Control(func(n uintptr) { fd, dupErr = unix.FcntlInt(n, unix.F_DUPFD_CLOEXEC, firstFD) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, dupErr
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// feed passes input on until its end, or until the sandbox is gone.
func (s *sandbox) feed(in *os.File) {
	w := s.conn.Writer(guestwire.Stdin)
	if in == nil {
		_ = w.Close() // the agent is told, if it is there
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(w, in)
		_ = w.Close()
	}()
	s.undo.PushFunc(func() {
		_ = in.SetReadDeadline(time.Unix(1, 0))
		_ = s.conn.Close()
		<-done
	})
}

// pass passes on what the program writes. When nobody takes it any more it is thrown away, so that the program goes on.
func (s *sandbox) pass(out *os.File, stream guestwire.Stream) {
	r := &counted{r: s.conn.Reader(stream), n: &s.heard}
	if out != nil {
		_, _ = io.Copy(out, r)
		_ = out.Close()
	}
	_, _ = io.Copy(io.Discard, r)
}

// terminal connects the run's terminal with one in the machine, whose line discipline is the one that counts: this one only passes bytes on.
func (s *sandbox) terminal(plan *wire.Plan) error {
	t, err := copyOf(s.spec.Terminal)
	if err != nil {
		return fmt.Errorf("copy terminal: %w", err)
	}
	s.undo.PushFunc(func() { _ = t.Close() })
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = raw.Control(func(fd uintptr) {
		var size *unix.Winsize
		if size, setErr = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); setErr != nil {
			return
		}
		plan.Terminal = &wire.Size{Columns: size.Col, Rows: size.Row}
		var modes *unix.Termios
		if modes, setErr = unix.IoctlGetTermios(int(fd), unix.TCGETS); setErr != nil {
			return
		}
		modes.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON // cfmakeraw, termios(3)
		modes.Oflag &^= unix.OPOST
		modes.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		setErr = unix.IoctlSetTermios(int(fd), unix.TCSETS, modes)
	})
	if err = errors.Join(err, setErr); err != nil {
		return fmt.Errorf("set up terminal: %w", err)
	}
	s.input = t
	s.feed(t)
	s.pumps.Go(func() {
		r := &counted{r: s.conn.Reader(guestwire.Stdout), n: &s.heard}
		_, _ = io.Copy(t, r)
		_, _ = io.Copy(io.Discard, r)
	})
	s.pumps.Go(func() { _, _ = io.Copy(io.Discard, s.conn.Reader(guestwire.Stderr)) })
	return nil
}

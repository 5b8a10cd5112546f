package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/docker/launch"
)

// gate is a directory that a container sees as /.silk: the launcher, and a socket that it knocks at. Nobody but root can enter the
// directory above it, so whoever knocks is in the container; and when both of its processes have, nobody listens any more.
type gate struct {
	dir      string
	listener *net.UnixListener
	files    map[string]string // what lies over a file of the image, and where it is here
}

// openGate makes it. Close it.
func (d *Driver) openGate(spec driver.Spec) (_ *gate, err error) {
	g := &gate{dir: d.mark(spec.ID), files: map[string]string{}}
	if err := os.MkdirAll(d.runs(), 0o700); err != nil {
		return nil, fmt.Errorf("make directory for the run: %w", err)
	}
	if err := os.Mkdir(g.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory for the run: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	// A process that is forked while the file is open to be written would keep it from being executed.
	syscall.ForkLock.RLock()
	err = writeNew(filepath.Join(g.dir, "launch"), launch.Program, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("write launcher: %w", err)
	}
	files, err := filesOf(spec)
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		at := filepath.Join(g.dir, "file"+strconv.Itoa(i))
		if err := writeNew(at, f.Content, 0o644); err != nil {
			return nil, fmt.Errorf("write %s: %w", f.Path, err)
		}
		g.files[f.Path] = at
	}
	socket := filepath.Join(g.dir, "gate")
	if g.listener, err = listenPackets(socket); err != nil {
		return nil, fmt.Errorf("listen for the launcher: %w", err)
	}
	// The engine's user namespace may make other ids of them.
	if err := errors.Join(os.Chmod(socket, 0o666), os.Chmod(g.dir, 0o755)); err != nil {
		return nil, fmt.Errorf("open the gate: %w", err)
	}
	return g, nil
}

func writeNew(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// listenPackets listens at a path that may be longer than an address: by way of its directory.
func listenPackets(path string) (*net.UnixListener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	address := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: address, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the directory goes
	return l, nil
}

func (g *gate) close() error { return errors.Join(g.shut(), os.RemoveAll(g.dir)) }

// shut is close without removing the directory.
func (g *gate) shut() (err error) {
	if g.listener != nil {
		if err = g.listener.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
	}
	return err
}

// party is one of the two processes of the launcher.
type party struct {
	conn *net.UnixConn
	pid  int // as this process numbers it
}

func (p party) close() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
}

// meet waits until both have knocked, and lets nobody else in.
func (g *gate) meet(ctx context.Context) (ruler, starter party, err error) {
	stop := context.AfterFunc(ctx, func() { _ = g.listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() {
		if err != nil {
			ruler.close()
			starter.close()
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
		}
	}()
	for ruler.conn == nil || starter.conn == nil {
		conn, err := g.listener.AcceptUnix()
		if err != nil {
			return ruler, starter, fmt.Errorf("wait for the launcher: %w", err)
		}
		p := party{conn: conn}
		what, _, version, err := p.hear(ctx)
		if err == nil {
			p.pid, err = pidOf(conn)
		}
		switch {
		case err == nil && version != launch.Version:
			err = fmt.Errorf("the launcher speaks version %d, not %d", version, launch.Version)
		case err == nil && what == launch.Ruler && ruler.conn == nil:
			ruler = p
			continue
		case err == nil && what == launch.Starter && starter.conn == nil:
			starter = p
			continue
		case err == nil:
			err = fmt.Errorf("the launcher says %d when it knocks", what)
		}
		p.close()
		return ruler, starter, err
	}
	return ruler, starter, g.listener.Close()
}

// hear waits for what a party tells. io.EOF: it has closed its end.
func (p party) hear(ctx context.Context) (what, step int, number uint32, err error) {
	what, step, number, listener, err := p.receive(ctx)
	if listener >= 0 {
		_ = unix.Close(listener)
	}
	return what, step, number, err
}

// receive is hear, with the descriptor that has come with [launch.Listens], else -1. The caller closes it.
func (p party) receive(ctx context.Context) (what, step int, number uint32, listener int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	b, oob := make([]byte, launch.MessageBytes+1), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := p.conn.ReadMsgUnix(b, oob)
	if err != nil || n == 0 {
		if cause := context.Cause(ctx); cause != nil {
			return 0, 0, 0, -1, cause
		}
		if err == nil || errors.Is(err, unix.ECONNRESET) {
			err = io.EOF
		}
		return 0, 0, 0, -1, err
	}
	fds, err := descriptors(oob[:oobn])
	if err == nil {
		what, step, number, err = launch.Said(b[:n])
	}
	if err == nil && what == launch.Listens && len(fds) == 1 {
		return what, step, number, fds[0], nil
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return what, step, number, -1, err
}

// descriptors are those that came with a message.
func descriptors(oob []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("hear from the launcher: %w", err)
	}
	for _, m := range messages {
		if got, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds, nil
}

// pidOf is the process at the other end, unix(7), SO_PEERCRED.
func pidOf(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var who *unix.Ucred
	var optErr error
	if err := raw.Control(func(fd uintptr) { who, optErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if optErr != nil {
		return 0, fmt.Errorf("ask who knocks: %w", optErr)
	}
	if who.Pid <= 0 {
		return 0, errors.New("whoever knocks is in a PID namespace that cannot be seen from here")
	}
	return int(who.Pid), nil
}

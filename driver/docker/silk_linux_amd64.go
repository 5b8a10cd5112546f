package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/docker/launch"
	"github.com/silk-sandbox/silk/driver/relay"
	"github.com/silk-sandbox/silk/internal/cleanup"
)

// relayed is one run in a container whose runtime is silk.
type relayed struct {
	driver.Sandbox
	silk *Silk
	name string // of the container
	id   string // the engine's; "" if it is not made
	dir  string // where its monitor calls; "" if it is not made
	left bool   // the container could not be removed
	undo cleanup.Stack

	reaper  *launch.Reaper
	monitor int           // pidfd of the container's process
	over    chan struct{} // closed when nothing of it is left
}

// The errors that a start ends with because of the engine.
var errNotCalled = errors.New("the engine has started the container, and its runtime did not ask what to run")

func (s *Silk) start(ctx context.Context, spec driver.Spec) (_ driver.Sandbox, err error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r := &relayed{silk: s, name: name(spec.ID), monitor: -1, over: make(chan struct{})}
	defer func() {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil { // as in Driver.start
				err = cause
			}
			err = errors.Join(err, r.discard())
		}
	}()
	conn, err := r.make(ctx, spec)
	if err != nil {
		return nil, err
	}
	sock, err := descriptor(conn)
	if err != nil {
		return nil, err
	}
	r.Sandbox, err = relay.Start(ctx, sock, s.build, spec)
	var other *relay.BuildError
	switch {
	case errors.As(err, &other):
		return nil, unregistered(fmt.Sprintf("the engine's runtime %s is silk %s, and this is %s", runtimeName, other.Theirs, other.Ours))
	case err != nil:
		return nil, err
	}
	if _, ok := r.Sandbox.(driver.Signaler); ok {
		return &signaled{r}, nil
	}
	return r, nil
}

// descriptor takes a connection's descriptor over.
func descriptor(conn *net.UnixConn) (int, error) {
	defer conn.Close()
	f, err := conn.File() // blocking, unlike the connection's own
	if err != nil {
		return -1, fmt.Errorf("take connection over: %w", err)
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("take connection over: %w", err)
	}
	return fd, nil
}

// make makes and starts the container, and returns the connection of its monitor.
func (r *relayed) make(ctx context.Context, spec driver.Spec) (_ *net.UnixConn, err error) {
	d := r.silk.docker
	image, err := d.imageOf(ctx, spec.Image)
	if err != nil {
		return nil, err
	}
	r.trace(spec, "image is known to the engine")
	program, err := d.launcher()
	if err != nil {
		return nil, err
	}
	if r.reaper, err = launch.StartReaper(program, d.engine.socket, removal(r.name)); err != nil {
		return nil, err
	}
	r.undo.Push(func(context.Context) error { return r.reaper.Dismiss() })
	r.undo.Push(r.removeDir)
	r.undo.Push(r.remove) // also if it was only half made
	c := silkContainerOf(spec, image, d.owner, runtime.NumCPU())
	if r.id, err = d.engine.create(context.WithoutCancel(ctx), r.name, c); err != nil {
		switch unknown := r.silk.registered(ctx); {
		case errors.Is(err, errConflict):
			return nil, fmt.Errorf("make container: there is one of the name %s already, which is not removed: %w", r.name, err)
		case unknown != nil && !errors.Is(err, ErrGone):
			return nil, unknown
		}
		return nil, fmt.Errorf("make container: %w", err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r.trace(spec, "container is made")
	l, err := r.listen()
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return r.await(ctx, spec, l)
}

func (r *relayed) trace(spec driver.Spec, step string) {
	if spec.Trace != nil {
		spec.Trace(step, time.Now())
	}
}

// callName is the socket in a run's directory that its monitor calls at.
const callName = "call"

// listen makes the place where the container's monitor calls. Nobody but root can enter the directory above it.
func (r *relayed) listen() (*net.UnixListener, error) {
	d := r.silk.docker
	dir := d.mark(r.id)
	if err := os.MkdirAll(d.runs(), 0o700); err != nil {
		return nil, fmt.Errorf("make directory for the run: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory for the run: %w", err)
	}
	r.dir = dir
	l, err := listenPackets(filepath.Join(dir, callName))
	if err != nil {
		return nil, fmt.Errorf("listen for the container's monitor: %w", err)
	}
	return l, nil
}

// await starts the container and waits until its monitor calls.
func (r *relayed) await(ctx context.Context, spec driver.Spec, l *net.UnixListener) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the container's monitor did not call within %v", startTimeout))
	defer cancel()
	starting, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	started := make(chan struct{})
	go func() {
		defer close(started)
		if err := r.silk.docker.engine.start(context.WithoutCancel(ctx), r.name); err != nil {
			fail(fmt.Errorf("start container: %w", err))
			return
		}
		_ = l.SetDeadline(time.Now().Add(giveUp)) // it has called before the engine's answer; a closed one has no deadline
	}()
	r.undo.PushFunc(func() { <-started }) // the call has been answered
	stop := context.AfterFunc(starting, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := l.AcceptUnix()
	if err != nil {
		if cause := context.Cause(starting); cause != nil {
			err = cause
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			err = unregistered(errNotCalled.Error())
		}
		return nil, err
	}
	pid, err := pidOf(conn)
	if err == nil {
		err = r.reaper.Watch(pid)
	}
	if err == nil {
		r.monitor, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	r.undo.PushFunc(func() { _ = unix.Close(r.monitor) })
	r.trace(spec, "monitor has called")
	return conn, nil
}

// giveUp is how long a call may take that has been made.
const giveUp = 5 * time.Second

// Wait implements [driver.Sandbox].
func (r *relayed) Wait() (driver.Exit, error) {
	defer close(r.over)
	exit, err := r.Sandbox.Wait()
	if errors.Is(err, relay.ErrLost) {
		err = r.whyEnded()
	}
	return exit, errors.Join(err, r.discard())
}

// whyEnded asks the engine about a container whose monitor said nothing.
func (r *relayed) whyEnded() error {
	ctx, cancel := context.WithTimeout(context.Background(), killGrace)
	defer cancel()
	c, err := r.silk.docker.engine.look(ctx, r.name)
	switch {
	case errors.Is(err, errNotFound):
		return errors.New("somebody has removed the container")
	case err != nil:
		return fmt.Errorf("the container has ended without a word, and its engine does not say why: %w", err)
	}
	return endedBySomebody(c.State)
}

// Kill implements [driver.Sandbox]. A monitor that does not obey goes, and its sandbox with it.
func (r *relayed) Kill(how driver.KillMode) {
	r.Sandbox.Kill(how)
	if how != driver.KillNow {
		return
	}
	go func() {
		select {
		case <-r.over:
		case <-time.After(killGrace):
			_ = unix.PidfdSendSignal(r.monitor, unix.SIGKILL, nil, 0)
		}
	}()
}

// Resize implements [driver.Resizer].
func (r *relayed) Resize(columns, rows uint16) error {
	if resizer, ok := r.Sandbox.(driver.Resizer); ok {
		return resizer.Resize(columns, rows)
	}
	return nil
}

// signaled is a run whose program can be sent signals.
type signaled struct{ *relayed }

// Signal implements [driver.Signaler].
func (s *signaled) Signal(n int) error { return s.Sandbox.(driver.Signaler).Signal(n) }

// discard gives back what the run holds, the last one first.
func (r *relayed) discard() error {
	ctx, cancel := context.WithTimeout(context.Background(), teardownTimeout)
	defer cancel()
	return r.undo.Run(ctx)
}

// remove removes the container. The monitor has ended, or is ended by it.
func (r *relayed) remove(ctx context.Context) error {
	d := r.silk.docker
	if r.id == "" { // the call failed, and may have had its effect all the same
		st, err := d.engine.look(ctx, r.name)
		if errors.Is(err, errNotFound) || err == nil && st.Config.Labels[labelOwner] != d.owner {
			return nil // none, or another's
		}
	}
	if err := d.engine.remove(ctx, r.name); err != nil { // a sweep removes the rest
		r.left = true
		return fmt.Errorf("remove container: %w", err)
	}
	return nil
}

// removeDir removes the directory where the monitor called, by which a sweep knows that there is a container.
func (r *relayed) removeDir(context.Context) error {
	if r.dir == "" || r.left {
		return nil
	}
	return os.RemoveAll(r.dir)
}

// Called connects the monitor of a container with the silk that has asked the engine for it, and returns the socket, which the caller closes. No
// silk on this host has asked for most containers: the descriptor is -1 then. run is Config.Run of that silk.
func Called(run, container string) (int, error) {
	config := Config{Run: run}.withDefaults()
	runs := filepath.Join(config.Run, "docker")
	found, err := filepath.Glob(filepath.Join(runs, "*_"+container, callName))
	if err != nil || len(found) == 0 || strings.ContainsAny(container, `*?[\/`) {
		return -1, err
	}
	var s unix.Stat_t
	if err := unix.Lstat(runs, &s); err != nil {
		return -1, fmt.Errorf("look for who has asked for the container: %w", err)
	}
	if s.Uid != 0 || s.Mode&0o022 != 0 || s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return -1, fmt.Errorf("look for who has asked for the container: others than root may write to %s", runs)
	}
	dir, err := os.Open(filepath.Dir(found[0]))
	if err != nil {
		return -1, fmt.Errorf("call who has asked for the container: %w", err)
	}
	defer dir.Close()
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("call who has asked for the container: %w", err)
	}
	if err := unix.Connect(sock, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), callName)}); err != nil {
		return -1, errors.Join(fmt.Errorf("call who has asked for the container: %w", err), unix.Close(sock))
	}
	return sock, nil
}

package gvisor

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/internal/packet"
)

// startTimeout bounds the time from request to first instruction, without the time that Fill takes. A start takes
// 0.1 s; 50 at once on two slow cores took 10.
const startTimeout = 60 * time.Second

func (d *Driver) start(ctx context.Context, spec driver.Spec) (_ driver.Sandbox, err error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if spec.RequireWatch && d.config.Watch == nil {
		return nil, NotWatched(d.config.Unwatched)
	}
	trace := spec.Trace
	if trace == nil {
		trace = func(string, time.Time) {}
	}
	over := make(chan struct{})
	d.replace(over) // whatever became of those that waited: some may have died
	k := d.host.take(visibleCPUs(spec.CPUs))
	if k == nil {
		if k, err = d.host.spawn(visibleCPUs(spec.CPUs)); err != nil {
			return nil, err
		}
	}
	trace("fork", k.forked)
	s := &sandbox{kernel: k, armed: make(chan struct{}), over: over}
	defer func() {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil { // the caller's wish, and what has failed is how it ended
				err = cause
			}
			k.kill()
			<-k.gone
			if broken, _ := k.brokeOut(); broken != nil {
				err = fmt.Errorf("sandbox kernel broke out during its start: %v", broken)
			}
			err = errors.Join(err, k.discard())
			if s.drained != nil {
				<-s.drained
			}
			if s.events != nil {
				_, eventsErr := s.events.end(false)
				err = errors.Join(err, eventsErr)
			}
		}
	}()
	if spec.RequireWatch && k.unwatched != nil {
		return nil, k.unwatched
	}
	if err := d.limit(k, spec); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, k.kill)
	defer stop()
	timer := time.AfterFunc(startTimeout, k.kill)
	defer timer.Stop()

	filled, err := d.send(s, spec, timer)
	if err != nil {
		return nil, err
	}
	trace("request sent", time.Now())
	m, err := s.awaitStart(filled, timer)
	for _, step := range m.Steps {
		trace(step.Name, time.Unix(0, step.At))
	}
	if err != nil {
		return nil, err
	}
	if m.Kind == wire.Exit { // the command does not exist
		exit := s.exit(m)
		drainErr := s.drainEnd()
		exit.Watched, err = s.events.end(false)
		s.drained, s.events = nil, nil
		return &ended{exit: exit}, errors.Join(drainErr, err, s.release())
	}
	if err := d.limitCPU(k, spec); err != nil {
		return nil, err
	}
	trace("limited", time.Now())
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if k.group == nil {
		go s.watchTables(spec.MemoryBytes)
	}
	return s, nil
}

// send sends the request and starts the two workspace streams. filled receives Fill's result; timer stands still while Fill runs.
func (d *Driver) send(s *sandbox, spec driver.Spec, timer *time.Timer) (filled chan error, err error) {
	req := wire.Request{
		ID: spec.ID, Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Hostname: spec.Hostname, Network: spec.Network, Files: spec.Files, NoSpawn: spec.NoSpawn, ReadOnly: spec.ReadOnly, Held: spec.Held, Trees: spec.Trees,
		MemoryBytes: spec.MemoryBytes, WorkspaceBytes: spec.WorkspaceBytes, TmpBytes: spec.TmpBytes, ShmBytes: spec.ShmBytes, Processes: spec.Processes,
		Terminal: spec.Terminal != nil, Drain: spec.Drain != nil,
		FileCapBytes: d.config.MaxFileBytes, TotalCapBytes: d.config.MaxTotalBytes, MaxEntries: d.config.MaxEntries,
	}
	files := []*os.File{spec.Image}
	if spec.Terminal != nil {
		files = append(files, spec.Terminal, spec.Terminal, spec.Terminal)
	} else {
		for _, f := range []*os.File{spec.Stdin, spec.Stdout, spec.Stderr} {
			if f == nil {
				f = d.host.null
			}
			files = append(files, f)
		}
	}
	var theirs []*os.File // our copies of their ends: closed as soon as they are sent
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	var drain *os.File
	r, fill, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make workspace stream: %w", err)
	}
	files, theirs = append(files, r), append(theirs, r)
	ring, mem, wake, err := openEvents(spec.Events, s.kernel.kill)
	if err != nil {
		return nil, errors.Join(err, fill.Close())
	}
	files, theirs = append(files, mem, wake), append(theirs, mem, wake)
	s.events = ring
	go ring.read()
	if spec.Drain != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make workspace stream: %w", err), fill.Close())
		}
		drain, files, theirs = r, append(files, w), append(theirs, w)
	}
	if spec.Network == driver.NetworkLink {
		req.Link, files = &wire.Link{Addrs: spec.Link.Addrs, MTU: spec.Link.MTU}, append(files, spec.Link.File)
	}
	for _, m := range spec.Mounts {
		req.Mounts = append(req.Mounts, m.Target)
		files = append(files, m.Image)
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd()) // makes the file blocking, which pipes to the Sentry are anyway
	}
	if err := packet.Send(s.kernel.sock, req, fds...); err != nil && !peerGone(err) { // awaitStart says what the kernel died of
		return nil, errors.Join(fmt.Errorf("send request to sandbox kernel: %w", err), fill.Close(), closeFile(drain))
	}
	filled = make(chan error, 1)
	go func() { filled <- errors.Join(s.fill(fill, spec.Fill, timer), fill.Close()) }()
	if drain != nil {
		s.drained = make(chan error, 1)
		go func() {
			err := spec.Drain(&counted{drain, &s.moved})
			if err != nil {
				_, _ = io.Copy(io.Discard, drain) // let the kernel finish and report
			}
			s.drained <- errors.Join(err, drain.Close())
		}()
	}
	return filled, nil
}

// fill writes the workspace, without which the kernel starts no program, once the policy is known to be in force.
func (s *sandbox) fill(w io.Writer, fill func(io.Writer) error, timer *time.Timer) error {
	select {
	case <-s.armed:
	case <-s.kernel.gone:
		return unix.EPIPE
	}
	timer.Stop() // Fill takes as long as it does: a run may be held there until somebody starts it
	if fill == nil {
		return tar.NewWriter(w).Close()
	}
	return fill(w)
}

// awaitStart returns the message that the program is about to run, or that its command does not exist.
func (s *sandbox) awaitStart(filled chan error, timer *time.Timer) (m wire.Message, err error) {
	type received struct {
		m   wire.Message
		err error
	}
	messages := make(chan received, 1)
	go func() {
		for {
			m, err := s.kernel.receive()
			switch {
			case err != nil:
			case m.Kind == wire.Hello && m.Version == wire.Version:
				continue
			case m.Kind == wire.Hello:
				err = fmt.Errorf("sandbox kernel speaks version %d, silk %d: they are not of one build", m.Version, wire.Version)
			case m.Kind == wire.Armed:
				if err = errors.Join(checkArmed(m), s.kernel.arm()); err == nil {
					close(s.armed)
					continue
				}
			}
			messages <- received{m, err}
			return
		}
	}()
	select {
	case err := <-filled:
		if err != nil && !errors.Is(err, unix.EPIPE) { // EPIPE: the kernel gave up, and says why
			s.kernel.kill()
			<-messages
			return m, fmt.Errorf("fill workspace: %w", err)
		}
		timer.Reset(startTimeout)
	case r := <-messages: // it cannot have started before it was filled
		messages <- r
	}
	r := <-messages
	switch {
	case errors.Is(r.err, io.EOF):
		return r.m, s.kernel.died()
	case r.err != nil:
		return r.m, fmt.Errorf("hear from sandbox kernel: %w", r.err)
	case r.m.Kind == wire.Error:
		return r.m, fmt.Errorf("sandbox kernel: %s", r.m.Error)
	case r.m.Kind == wire.Started, r.m.Kind == wire.Exit:
		return r.m, nil
	}
	return r.m, fmt.Errorf("sandbox kernel said %q before it started", r.m.Kind)
}

// checkArmed says whether a sandbox kernel enforces the whole policy and reports all that it should: what it does not
// confirm is not in force, and no code may run.
func checkArmed(m wire.Message) error {
	for _, r := range rules.All() {
		if !slices.Contains(m.Rules, r.Name) {
			return fmt.Errorf("sandbox kernel does not confirm rule %s", r.Name)
		}
	}
	for _, point := range wire.Points() {
		if !slices.Contains(m.Points, point) {
			return fmt.Errorf("sandbox kernel does not confirm event point %s", point)
		}
	}
	return nil
}

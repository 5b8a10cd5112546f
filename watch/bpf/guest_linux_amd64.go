package bpf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/watch"
)

// closeGrace is how long Close waits for the receiver of a guest's events.
const closeGrace = time.Second

// Guest begins to watch a sandbox whose processes run on the host's kernel: each of their calls that package watch has a
// kind for becomes an event, the seven with their arguments, and so do refusals, births and ends. A call that was seen at
// its entry and is then refused makes two events; one that seccomp refuses has no entry.
//
// pid is the first process, as the host numbers it, whoever started it. It must be waiting for one byte, which Guest
// writes to release when everything it will do is watched: when it carries a tag, and has been moved into a control
// group of its own below the one it was in. The group is version 2 and needs no controllers, so that it can be had on a
// host whose limits are version 1; where it cannot, the tag is all there is, and [Scope.Cgroup] is empty. On error
// release was not written to. If release is nil the caller lets the process go itself.
func (w *Watcher) Guest(ctx context.Context, pid int, release io.Writer) (_ *Scope, err error) {
	s, err := w.add(make(chan watch.Event, guestRoom))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.openRing(); err != nil {
		return nil, err
	}
	if err := s.setPolicy(silkPolicy{Report: s.reports()}); err != nil {
		return nil, err
	}
	if w.config.Guarded {
		if err := s.guard(); err != nil {
			return nil, err
		}
	}
	if err := w.tagTree(pid, s.tag()); err != nil {
		return nil, err
	}
	if w.tagOnly {
		w.config.Logger.Warn("a guest is watched by its tag alone", "pid", pid)
	} else if err := s.enclose(pid); err != nil {
		w.config.Logger.Warn("a guest is watched by its tag alone", "pid", pid, "error", err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if release != nil {
		if _, err := release.Write([]byte{'\n'}); err != nil {
			return nil, fmt.Errorf("release watched process %d: %w", pid, err)
		}
	}
	return s, nil
}

// guard lets the programs look at every call of the scope when it ends, for whether the scope is being ended.
func (s *Scope) guard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.countDoom()
}

// enclose moves the process into a control group of the scope.
func (s *Scope) enclose(pid int) (err error) {
	g, err := cgroup.Child(pid)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Remove(context.Background()))
		}
	}()
	id, err := cgroup.ID(g.Path())
	if err != nil {
		return err
	}
	if err := g.Add(pid); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.addGroup(id); err != nil {
		return err
	}
	s.group = g
	return nil
}

// Cgroup is the directory of the control group that was made for a guest, or "" if its tag is all there is.
func (s *Scope) Cgroup() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group == nil {
		return ""
	}
	return s.group.Path()
}

// openRing makes a ring of the scope's own, so that a guest that makes noise costs nobody else an event.
func (s *Scope) openRing() error {
	w := s.watcher
	own, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: uint32(w.config.GuestBytes)})
	if err != nil {
		return fmt.Errorf("make ring of events: %w", err)
	}
	ring, err := ringbuf.NewReader(own)
	if err != nil {
		return errors.Join(fmt.Errorf("open ring of events: %w", err), own.Close())
	}
	if err := w.kernel.Rings.Put(s.slot, uint32(own.FD())); err != nil {
		return errors.Join(fmt.Errorf("set ring of events: %w", err), ring.Close(), own.Close())
	}
	s.own, s.ring, s.read = own, ring, make(chan struct{})
	go s.readEvents()
	return nil
}

// readEvents waits for the receiver of the events: what comes meanwhile waits in the ring or is counted as lost there.
func (s *Scope) readEvents() {
	defer close(s.read)
	err := readRing(s.ring, func(r *record) {
		if r.slot != s.slot || r.generation != s.generation {
			return
		}
		s.deliver(r.event(s.boot))
	})
	if err != nil || !s.closing.Load() {
		s.watcher.stop(fmt.Errorf("%w: its reader of a guest's events has ended: %w", ErrClosed, orClosed(err)))
	}
}

func (s *Scope) deliver(e watch.Event) {
	select {
	case s.events <- e:
		return
	default:
	}
	select {
	case s.events <- e:
	case <-s.ended:
		s.late.Add(1)
	}
}

// endReader lets the reader come to the end of the ring, and waits for it. Closing a ring wakes a reader too, but loses
// what it has not read, and a deadline does not wake one that waits already.
func (s *Scope) endReader() error {
	s.closing.Store(true)
	if err := s.ring.Flush(); err != nil {
		_ = s.ring.Close() // ends the reader, if anything can
	}
	select {
	case <-s.read:
	case <-time.After(closeGrace): // nobody receives
	}
	close(s.ended)
	<-s.read
	return s.ring.Close()
}

package bpf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/watch"
)

// Scope is what belongs to one sandbox: a process and all that come from it. It is safe for concurrent use. Close it.
type Scope struct {
	watcher    *Watcher
	slot       uint32
	generation uint32
	boot       time.Time
	events     chan watch.Event
	late       atomic.Uint64 // events that the channel had no room for

	sockets link.Link // denies INET sockets to the group of a sandbox with a kernel of its own; nil without a group

	// Of a guest only.
	group *cgroup.Group // made for it
	own   *ebpf.Map     // its ring
	ring  *ringbuf.Reader
	read  chan struct{} // closed when the ring has been read to its end

	closing atomic.Bool
	ended   chan struct{} // closed when nobody receives any more

	sending sync.Mutex // closing events against sending to it
	mu      sync.Mutex
	closed  bool
	last    last   // what was known when it was closed
	group64 uint64 // id of a cgroup that is a way into the scope; 0: none
	dooming bool
}

// last is what the kernel had counted of a scope in its end.
type last struct {
	alarms    uint64
	first     watch.Event
	alarmsErr error
	counts    silkCounts
	countsErr error
}

// alarmKinds are what a sandbox's own kernel has no business with once it runs. A socket of the family AF_UNIX is none.
const alarmKinds = 1<<kindSocket | 1<<kindConnect | 1<<kindExecve | 1<<kindSetUID | 1<<kindCapSet | 1<<kindMount | 1<<kindSigSys | 1<<kindBlind

const allKinds = 1<<len(kinds) - 1

// guarded is GUARDED of silk.h.
const guarded = 1 << 31

// Room in the channel of events. Alarms are few: the kernel sends 16 of a scope and counts the others.
const (
	alarmRoom = 32
	guestRoom = 1024
)

// Watch begins to watch a process with all its threads and descendants, for alarms: see [Scope.Arm]. group is the
// directory of a control group of version 2 that belongs to the sandbox alone, or "". In that group no INET or INET6 socket
// can be made from then on: a sandbox's own kernel needs none.
//
// A descendant that has lost its parents before is not found; call Watch while the process has no children.
func (w *Watcher) Watch(pid int, group string) (_ *Scope, err error) {
	s, err := w.add(make(chan watch.Event, alarmRoom))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.setPolicy(silkPolicy{}); err != nil {
		return nil, err
	}
	if group != "" {
		id, err := cgroup.ID(group)
		if err != nil {
			return nil, err
		}
		if err := s.addGroup(id); err != nil {
			return nil, err
		}
		if s.sockets, err = denySockets(group); err != nil {
			return nil, err
		}
	}
	return s, w.tagTree(pid, s.tag())
}

// add makes a scope in a free slot.
func (w *Watcher) add(events chan watch.Event) (*Scope, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	if len(w.free) == 0 {
		return nil, ErrFull
	}
	slot := w.free[0]
	w.free = w.free[1:]
	if w.next++; w.next == 0 { // generation 0 is that of a slot without a scope
		w.next = 1
	}
	s := &Scope{watcher: w, slot: slot, generation: w.next, boot: bootTime(), events: events, ended: make(chan struct{})}
	w.scopes[slot] = s
	empty := make([]silkCounts, ebpf.MustPossibleCPU())
	err := errors.Join(w.kernel.Alarms.Put(slot, silkAlarm{}), w.kernel.Counters.Put(slot, empty))
	if err != nil {
		w.remove(s)
		return nil, fmt.Errorf("make scope: %w", err)
	}
	return s, nil
}

// remove gives a slot back. The caller holds w.mu.
func (w *Watcher) remove(s *Scope) {
	delete(w.scopes, s.slot)
	w.free = append(w.free, s.slot)
}

func (s *Scope) tag() silkTag { return silkTag{Slot: s.slot, Generation: s.generation} }

// setPolicy tells the programs what to do with calls of the scope.
func (s *Scope) setPolicy(p silkPolicy) error {
	p.Slot, p.Generation = s.slot, s.generation
	if err := s.watcher.kernel.Policies.Put(s.slot, p); err != nil {
		return fmt.Errorf("set policy of scope: %w", err)
	}
	return nil
}

// addGroup makes a cgroup a way into the scope.
func (s *Scope) addGroup(id uint64) error {
	w := s.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.kernel.Groups.Update(id, s.tag(), ebpf.UpdateNoExist); err != nil {
		return fmt.Errorf("watch control group %d: %w", id, err)
	}
	s.group64 = id
	w.groups++
	return w.kernel.GroupsUsed.Set(w.groups)
}

// Arm begins the alarm: from now on a call of the kinds socket (of any family but AF_UNIX), connect, execve, setuid,
// capset, mount, sigsys and blind in the scope is one. It is for a sandbox's own kernel that has finished its start.
func (s *Scope) Arm() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	p := silkPolicy{Alarm: alarmKinds}
	if s.watcher.config.Kill {
		p.Kill = alarmKinds
	}
	return s.setPolicy(p)
}

// Events returns the channel of what was seen, alarms among them. It is closed by Close.
func (s *Scope) Events() <-chan watch.Event { return s.events }

// Lost is closed when nobody watches any more, as [Watcher.Done]. A sandbox that must not run unwatched has to end then.
func (s *Scope) Lost() <-chan struct{} { return s.watcher.done }

// Alarms returns how many alarms the kernel has counted since the scope was made, and the first of them. It does not
// rest on what was read from the channel, so it is what decides how a sandbox ended: ask it when the sandbox is gone.
// After Close it is what there was until then. An error means that nobody knows, which is as bad as an alarm.
func (s *Scope) Alarms() (n uint64, first watch.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.last.alarms, s.last.first, s.last.alarmsErr
	}
	return s.watcher.alarms(s.slot, s.boot)
}

// Counts returns how many events there were, and how many were lost on the way; after Close, in the end.
func (s *Scope) Counts() (Counts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.last.counts, s.last.countsErr
	if !s.closed {
		n, err = s.watcher.counts(s.slot)
	}
	late := s.late.Load()
	return Counts{Delivered: n.Events - min(late, n.Events), Lost: n.Lost + late}, err
}

// offer puts an event into the channel if there is room, and counts it if there is none.
func (s *Scope) offer(e watch.Event) {
	s.sending.Lock()
	defer s.sending.Unlock()
	select {
	case <-s.ended: // the channel is closed or about to be
		s.late.Add(1)
		return
	default:
	}
	select {
	case s.events <- e:
	default:
		s.late.Add(1)
	}
}

// Close ends the watching. Processes of the sandbox that still live are no longer seen; end them before. A guest's
// events that have been seen are still put into the channel, for a second at most if nobody receives them; then it is
// closed.
func (s *Scope) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	w := s.watcher
	errs := []error{w.kernel.Policies.Put(s.slot, silkPolicy{})} // its tags mean nothing from now on
	if s.ring != nil {
		errs = append(errs, w.kernel.Rings.Delete(s.slot), s.endReader(), s.own.Close())
	}
	if s.ring == nil {
		close(s.ended)
	}
	if s.sockets != nil {
		errs = append(errs, s.sockets.Close())
	}
	s.sending.Lock()
	close(s.events)
	s.sending.Unlock()
	s.last.alarms, s.last.first, s.last.alarmsErr = w.alarms(s.slot, s.boot)
	s.last.counts, s.last.countsErr = w.counts(s.slot)
	w.mu.Lock()
	if s.group64 != 0 {
		w.groups--
		errs = append(errs, w.kernel.Groups.Delete(s.group64), w.kernel.GroupsUsed.Set(w.groups))
	}
	if s.dooming {
		w.dooms--
		errs = append(errs, w.kernel.Dooming.Set(w.dooms))
	}
	w.remove(s)
	w.mu.Unlock()
	if s.group != nil {
		errs = append(errs, s.group.Remove(context.Background())) // kills what is in it
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close scope: %w", err)
	}
	return nil
}

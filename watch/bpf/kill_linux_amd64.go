package bpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// killLimit bounds Kill if its context does not.
const killLimit = 10 * time.Second

// Kill ends every process of the scope, wherever it went, and returns when none is left. From its first moment on, a
// thread of the scope dies at its next system call, so that nothing can fork faster than it is killed.
func (s *Scope) Kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	if err := s.doom(); err != nil {
		return err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pids, err := s.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := s.kill(pid); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill sandbox: %d processes are left: %w", len(pids), context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// doom tells the programs to end what they see of the scope, and the kernel to end what is in its control group.
func (s *Scope) doom() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.setPolicy(silkPolicy{Report: s.reports(), Kill: ^uint32(0)}); err != nil {
		return err
	}
	if err := s.countDoom(); err != nil {
		return fmt.Errorf("kill sandbox: %w", err)
	}
	if s.group != nil {
		s.group.Kill()
	}
	return nil
}

// countDoom says, once for each scope, that the programs must look at the end of every call. The caller holds s.mu.
func (s *Scope) countDoom() error {
	if s.dooming {
		return nil
	}
	w := s.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dooms++
	if err := w.kernel.Dooming.Set(w.dooms); err != nil {
		w.dooms--
		return fmt.Errorf("watch the ends of calls: %w", err)
	}
	s.dooming = true
	return nil
}

// reports are the kinds that a scope of this sort reports.
func (s *Scope) reports() uint32 {
	switch {
	case s.ring == nil:
		return 0
	case s.watcher.config.Guarded:
		return allKinds | guarded
	}
	return allKinds
}

// kill ends a process that the kernel has listed, if it still is the one that was listed.
func (s *Scope) kill(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // gone
		return nil
	}
	if err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	pids, err := s.Processes()
	if err != nil {
		return err
	}
	if !slices.Contains(pids, pid) { // its number may be another's by now
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// Processes lists the processes of the scope that live, as the kernel knows them, by the host's numbers and in their
// order. None means that the sandbox is empty.
func (s *Scope) Processes() ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	members, err := readTasks(s.watcher.list)
	if err != nil {
		return nil, fmt.Errorf("list processes of scope: %w", err)
	}
	var pids []int
	for _, m := range members {
		if m.slot == s.slot && m.generation == s.generation {
			pids = append(pids, int(m.process))
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// member is struct member of silk.h.
type member struct{ slot, generation, process, thread uint32 }

const memberBytes = 16 // sizeof(struct member)

// readTasks lets the kernel walk over all its tasks with a program, and reads what that wrote.
func readTasks(walk *link.Iter) (members []member, err error) {
	r, err := walk.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if len(b)%memberBytes != 0 {
		return nil, fmt.Errorf("%d bytes are no list of tasks", len(b))
	}
	le := binary.LittleEndian
	for m := range slices.Chunk(b, memberBytes) {
		members = append(members, member{le.Uint32(m), le.Uint32(m[4:]), le.Uint32(m[8:]), le.Uint32(m[12:])})
	}
	return members, nil
}

package main

import (
	"errors"
	"fmt"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/silk-sandbox/silk/oci/container"
)

// obey carries out what another call of the runtime asks for.
func (m *monitor) obey(o container.Order) error {
	switch {
	case o.Start:
		return m.start()
	case o.Signal > 0:
		return m.signal(o.Signal)
	}
	return errors.New("nothing is asked for")
}

func (m *monitor) start() error {
	m.mu.Lock()
	status := m.state.Status
	if status == specs.StateCreated {
		m.state.Status = specs.StateRunning
		close(m.release)
	}
	m.mu.Unlock()
	if status != specs.StateCreated {
		return fmt.Errorf("cannot start a container in the %s state", status)
	}
	select {
	case <-m.started:
		return m.set(specs.StateRunning)
	case <-m.over:
	}
	select {
	case <-m.started: // and has ended since
		return nil
	default:
	}
	if m.relayed {
		return nil
	}
	return errors.New(m.outcome.Message)
}

// signal ends the run with SIGKILL, and before the program runs with whatever ends programs; else the program gets the signal.
func (m *monitor) signal(n int) error {
	select {
	case <-m.over:
		m.cancel(killedBy(n)) // it may wait for its start
		return fmt.Errorf("%w: %s", container.ErrNotRunning, m.container.ID)
	default:
	}
	running := true
	select {
	case <-m.started:
	default:
		running = false
	}
	switch {
	case n == int(syscall.SIGKILL) || !running && n == int(syscall.SIGTERM):
		m.cancel(killedBy(n))
	case running:
		select {
		case m.signals <- n:
		default:
			return errors.New("too many signals wait for the program")
		}
	default:
		return errors.New("the container's program does not run yet")
	}
	return nil
}

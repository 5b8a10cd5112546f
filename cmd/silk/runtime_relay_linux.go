package main

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/docker"
	"github.com/silk-sandbox/silk/driver/relay"
	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/run"
)

// A container that a silk of this host has asked the engine for (`silk run --driver docker/silk`) is none of the engine's users: what runs
// in it was decided there, and is recorded there. This process only has the driver, in the container's control group.

// called asks whether it is such a container. If it is none, job is nil.
func (m *monitor) called(undo *cleanup.Stack) (job func() error, err error) {
	sock, err := docker.Called("", m.container.ID)
	if err != nil || sock < 0 {
		return nil, err
	}
	errand, err := relay.Accept(sock, version)
	if err != nil {
		return nil, err
	}
	d, err := m.driver(errand.Spec, undo)
	if err == nil {
		err = m.bound(errand.Spec.MemoryBytes+errand.Spec.WorkspaceBytes, errand.Spec.Processes)
	}
	if err != nil {
		errand.Refuse(err)
		return nil, err
	}
	m.relayed = true
	return func() error {
		exit, err := errand.Run(m.ctx, d, relay.Hooks{Hold: m.hold, Started: func() { close(m.started) }, Signals: m.signals})
		m.outcome = relayedOutcome(exit, err)
		return err
	}, nil
}

// awaitStart waits until the engine has started the container, though its run has ended before: whoever asked may have changed his mind. An engine
// loses a container whose start fails while its process ends.
func (m *monitor) awaitStart() {
	select {
	case <-m.release:
	case <-m.ctx.Done(): // somebody else has ended it
	case <-time.After(ends):
	}
}

// driver is the one that keeps what a container's run was promised.
func (m *monitor) driver(spec driver.Spec, undo *cleanup.Stack) (driver.Driver, error) {
	h, err := m.app.openHost(spec.RequireWatch)
	if err != nil {
		return nil, err
	}
	undo.Push(func(context.Context) error { return h.close() })
	if err := m.list(h.home); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(h.tools.Drivers, func(d driver.Driver) bool { return d.Name() == "gvisor" })
	if at < 0 {
		return nil, errors.Join(errors.New("there is no sandbox kernel for the container"), h.tools.WhyNone)
	}
	return h.tools.Drivers[at], nil
}

// relayedOutcome is what the engine sees of the end of such a run. Its name is for who has asked.
func relayedOutcome(exit driver.Exit, err error) run.Outcome {
	code := exit.Code
	var by killedBy
	switch {
	case errors.As(err, &by):
		return run.Outcome{Kind: run.Canceled, Message: err.Error()}
	case err != nil:
		return run.Outcome{Kind: run.Error, Message: err.Error()}
	case exit.Violation != nil:
		return run.Outcome{Kind: run.Violated}
	case exit.OOM, exit.Killed:
		code = 128 + int(syscall.SIGKILL)
	case exit.Signal != 0:
		code = 128 + exit.Signal
	case code == 0:
		return run.Outcome{Kind: run.OK}
	}
	return run.Outcome{Kind: run.Failed, ExitCode: &code}
}

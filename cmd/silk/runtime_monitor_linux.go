package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/internal/detach"
	"github.com/silk-sandbox/silk/oci/container"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/run"
)

func init() {
	if filepath.Base(os.Args[0]) == monitorName {
		runtime.LockOSThread() // main's goroutine on the first thread: see detach.Network
	}
}

// monitor is the process of one container: it carries the run through the engine as `silk run` does, and engines see it as the
// container's first process. It lives as long as the container and ends with the program's status.
type monitor struct {
	app       *app
	flags     *runtimeFlags
	container *container.Container
	bundle    string
	console   string // socket for the main side of the terminal
	engine    int    // the process whose end ends the container

	mu    sync.Mutex
	state container.State

	ctx     context.Context // of the run
	cancel  context.CancelCauseFunc
	ready   chan struct{} // closed when the program waits for its start
	release chan struct{} // closed by the order to start
	started chan struct{} // closed when it runs
	over    chan struct{} // closed when the run has ended
	signals chan int
	outcome run.Outcome // when over
	relayed bool        // the run is another silk's: see called
}

// What ends a run from outside. The number of a signal is in the status.
type killedBy int

func (k killedBy) Error() string { return fmt.Sprintf("ended by signal %d from outside", int(k)) }

var errEngineGone = errors.New("the container engine is gone")

func (a *app) runtimeMonitorCommand(f *runtimeFlags) *cobra.Command {
	m := &monitor{
		app: a, flags: f, ready: make(chan struct{}), release: make(chan struct{}), started: make(chan struct{}), over: make(chan struct{}), signals: make(chan int, 64),
	}
	c := &cobra.Command{
		Use: "monitor ID", Hidden: true, Short: "Be the process of a container; create starts it", Args: needArgs(1, 1, "an id"),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			if filepath.Base(os.Args[0]) != monitorName {
				return usagef("silk runtime create starts it")
			}
			// All that this process is for goes on in other threads than this one, which is in a network namespace of its own.
			if err = detach.Network(); err == nil {
				done := make(chan error)
				go func() { done <- m.run(args[0]) }()
				err = <-done
			} else {
				err = m.report(err)
			}
			return err
		},
	}
	c.Flags().StringVar(&m.bundle, "bundle", "", "")
	c.Flags().StringVar(&m.console, "console-socket", "", "")
	c.Flags().IntVar(&m.engine, "engine", 0, "")
	return c
}

// report tells the caller of create how its container came along. The caller says it to the engine.
func (m *monitor) report(err error) error {
	w := os.NewFile(reportFD, "report")
	var said created
	if err != nil {
		said.Error = err.Error()
	}
	_ = json.NewEncoder(w).Encode(said) // who does not read any more learns it from our end
	_ = w.Close()
	if err != nil {
		return &endError{1}
	}
	return nil
}

// run is the whole life of the container.
func (m *monitor) run(id string) (err error) {
	m.container, err = container.At(m.flags.root, id)
	if err != nil {
		return m.report(err)
	}
	lock, err := m.container.Hold()
	if err != nil {
		return m.report(err)
	}
	defer lock.Leave()            // our end does it too, a moment later
	syscall.CloseOnExec(reportFD) // create waits until nobody has it
	signal.Ignore(syscall.SIGPIPE)
	m.ctx, m.cancel = context.WithCancelCause(m.app.ctx)
	defer m.cancel(nil)
	if m.state, err = m.container.State(); err != nil {
		return m.report(err)
	}
	m.state.PID, m.state.Run = os.Getpid(), ulid.MustNew(ulid.Now(), rand.Reader).String()
	if err := m.set(specs.StateCreating); err != nil {
		return m.report(err)
	}
	stop, err := m.container.Serve(m.obey)
	if err != nil {
		return m.report(err)
	}
	var undo cleanup.Stack
	undo.PushFunc(stop)
	job, err := m.prepare(&undo)
	if err != nil {
		return m.report(errors.Join(err, undo.Run(m.ctx)))
	}
	done := make(chan error, 1)
	go func() {
		defer close(m.over)
		done <- job()
	}()
	select {
	case <-m.ready:
	case <-m.over:
		err := <-done
		if m.outcome.Message != "" {
			err = errors.Join(errors.New(trimPrefix(string(m.outcome.Kind)+": ", m.outcome.Message)), err)
		}
		return m.report(errors.Join(err, undo.Run(m.ctx)))
	}
	if err := m.set(specs.StateCreated); err != nil {
		m.cancel(err)
		<-m.over
		return m.report(errors.Join(err, undo.Run(context.Background())))
	}
	_ = m.report(nil)
	go m.watchEngine()
	err = <-done
	if m.relayed {
		m.awaitStart()
	}
	err = errors.Join(err, undo.Run(context.Background()))
	m.say(err)
	if m.outcome.Kind == run.OOM {
		m.tellKernel()
	}
	if status := m.status(); status != 0 {
		return &endError{status}
	}
	return nil
}

// set writes what the container is now.
func (m *monitor) set(status specs.ContainerState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Status = status
	return m.container.Save(m.state)
}

func (m *monitor) status() int {
	var by killedBy
	if m.outcome.Kind == run.Canceled && errors.As(context.Cause(m.ctx), &by) {
		return 128 + int(by)
	}
	return m.outcome.ExitStatus()
}

// say writes to the container's stderr what the program itself cannot say.
func (m *monitor) say(err error) {
	if k := m.outcome.Kind; k != run.OK && k != run.Failed && k != run.Violated {
		m.app.errorf("%s", trimPrefix(string(k)+": ", m.outcome.Message))
	}
	if err != nil {
		m.app.errorf("after the run: %v", err)
	}
}

// watchEngine ends the run when the engine's own process for this container is gone: nobody reads its output any more, and nobody
// would end it. Whoever made it by hand and has ended has left it on purpose.
func (m *monitor) watchEngine() {
	maker := os.Getppid()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(ends)
	for os.Getppid() == maker && maker != m.engine { // until create has ended
		select {
		case <-tick.C:
		case <-late:
			return
		case <-m.over:
			return
		}
	}
	if os.Getppid() != m.engine {
		return
	}
	if detach.Gone(m.ctx, m.engine) == nil {
		m.cancel(errEngineGone)
	}
}

// prepare finds everything that the run needs, and returns what carries it through.
func (m *monitor) prepare(undo *cleanup.Stack) (job func() error, err error) {
	m.app.contained = true
	if m.state.CGroup != "" {
		m.app.group = filepath.Clean("/" + m.state.CGroup)
	}
	if job, err := m.called(undo); job != nil || err != nil {
		return job, err
	}
	wish, unreadable := m.read()
	h, err := m.app.openHost(wish.Request.RequireWatch)
	if err != nil {
		return nil, err
	}
	undo.Push(func(context.Context) error { return h.close() })
	if err := m.list(h.home); err != nil {
		return nil, err
	}
	engine, err := m.app.engine(h)
	if err != nil {
		return nil, err
	}
	undo.Push(func(context.Context) error { return engine.Leave() })
	deliveries, err := m.app.startDeliveries(h)
	if err != nil {
		return nil, err
	}
	undo.PushFunc(func() { deliveries.finish(m.outcome) })

	with := run.IO{Run: m.state.Run, OmitText: true, Signals: m.signals, Before: m.hold, OnStart: func(run.Started) { close(m.started) }}
	req, err := wish.Request, unreadable
	if err == nil {
		req, err = m.request(h, &wish)
	}
	if err == nil {
		err = m.connect(&with, wish, undo)
	}
	m.decide(&with, wish)
	if err != nil { // there is a record of it
		_, reason := classify(err)
		outcome, recordErr := engine.Refuse(m.ctx, req, with, reason, err)
		m.outcome = outcome
		return nil, errors.Join(errors.New(outcome.Message), recordErr)
	}
	return func() (err error) {
		m.outcome, err = engine.Run(m.ctx, req, with)
		return err
	}, nil
}

// hold keeps the program from running until the engine starts it.
func (m *monitor) hold() error {
	close(m.ready)
	select {
	case <-m.release:
		return nil
	case <-m.ctx.Done():
		return context.Cause(m.ctx)
	}
}

// monitorBytes is what this process may use besides the sandbox. Measured at 30 MiB.
const monitorBytes = 128 << 20

// sentryBytes and sentryThreads are what the sandbox's kernel may use, as driver/gvisor has it.
const (
	sentryBytes   = 192 << 20
	sentryThreads = 512
)

// limitGroup bounds the container's own control group: what the sandbox may use, its kernel and this process. The sandbox's own limits
// are in a group below it.
func (m *monitor) limitGroup(h *host, req policy.Request) error {
	plan, err := h.decide(req)
	if err != nil {
		return nil //nolint:nilerr // the engine will find that too, and record it
	}
	return m.bound(plan.Limits.MemoryBytes+plan.Limits.WorkspaceBytes, plan.Limits.Processes)
}

// bound is limitGroup for a program of so much memory, with its workspace, and so many processes.
func (m *monitor) bound(memoryBytes int64, processes int) error {
	if m.state.CGroup == "" {
		return nil
	}
	group, err := cgroup.FindNamed(filepath.Clean("/" + m.state.CGroup))
	if err != nil {
		return err
	}
	return group.Limit(cgroup.Limits{
		MemoryBytes: memoryBytes + sentryBytes + monitorBytes,
		Processes:   4*processes + 2*sentryThreads,
	})
}

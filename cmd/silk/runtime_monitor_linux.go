package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/internal/detach"
	"github.com/silk-sandbox/silk/oci"
	"github.com/silk-sandbox/silk/oci/container"
	"github.com/silk-sandbox/silk/oci/rootfs"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
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
			err = errors.New(trimPrefix(string(m.outcome.Kind)+": ", m.outcome.Message))
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
	err = errors.Join(<-done, undo.Run(context.Background()))
	m.say(err)
	if m.outcome.Kind == run.OOM {
		m.tellKernel()
	}
	if errors.Is(context.Cause(m.ctx), errEngineGone) { // nobody will ask for it again
		_ = m.container.Remove()
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
		return errors.New(m.outcome.Message)
	}
}

// signal ends the run with SIGKILL, and before the program runs with whatever ends programs; else the program gets the signal.
func (m *monitor) signal(n int) error {
	select {
	case <-m.over:
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

// list notes in silk's state directory that there is this container, for `silk gc`.
func (m *monitor) list(home string) error {
	dir := filepath.Join(home, containersDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("list container: %w", err)
	}
	sum := sha256.Sum256([]byte(m.container.Path()))
	file := filepath.Join(dir, hex.EncodeToString(sum[:])[:32]+".json")
	data, err := json.Marshal(listed{Root: filepath.Dir(m.container.Path()), ID: m.container.ID, CGroup: m.state.CGroup})
	if err == nil {
		err = atomicfile.Write(file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("list container: %w", err)
	}
	m.mu.Lock()
	m.state.Listed = file
	m.mu.Unlock()
	return m.set(specs.StateCreating)
}

// prepare finds everything that the run needs, and returns what carries it through.
func (m *monitor) prepare(undo *cleanup.Stack) (job func() error, err error) {
	m.app.contained = true
	if m.state.CGroup != "" {
		m.app.group = filepath.Clean("/" + m.state.CGroup)
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

// decide puts into the record where the run comes from, and what is held otherwise than its spec says.
func (m *monitor) decide(with *run.IO, wish oci.Wish) {
	with.Decisions = append(with.Decisions, record.Decision{What: "container", Text: m.container.ID})
	for _, note := range wish.Notes {
		with.Decisions = append(with.Decisions, record.Decision{What: "runtime", Text: note})
	}
}

// read is what the bundle asks for. With an error it is what could be read, for the record.
func (m *monitor) read() (oci.Wish, error) {
	_, spec, err := readBundle(m.bundle)
	if err != nil {
		return oci.Wish{Request: policy.Request{Client: policy.ClientRuntime}}, err
	}
	return oci.Translate(spec, oci.Config{Bundle: m.bundle, Profile: m.flags.profile, Stdin: !isNull(m.app.in)})
}

// request makes the request of a wish, whose image is made if it is new. What the request says of the profile decides about it.
func (m *monitor) request(h *host, wish *oci.Wish) (policy.Request, error) {
	for _, o := range wish.Overlays {
		overlay, err := readOverlay(o)
		if err != nil {
			return wish.Request, err
		}
		wish.Request.Overlays = append(wish.Request.Overlays, overlay)
	}
	prof, err := h.config.profiles.Lookup(wish.Request.Profile)
	var unknown *profile.UnknownError
	if errors.As(err, &unknown) && wish.Request.Profile == oci.DefaultProfile {
		prof, err = oci.Profile(), nil
	}
	if err != nil {
		return wish.Request, err
	}
	prof.ReadOnly = prof.ReadOnly || wish.ReadOnly
	if dir := wish.Request.Dir; dir != "" { // what it leads to must lie in a store
		if wish.Request.Dir, err = filepath.EvalSymlinks(dir); err != nil {
			return wish.Request, fmt.Errorf("find %s: %w", dir, err)
		}
	}
	req := wish.RequestFor(prof, h.config.grants)
	cache := rootfs.Cache{Images: h.images.Store, Dir: h.rootfsDir()}
	digest, made, err := cache.Image(m.ctx, wish.Root, rootfs.User(wish.User))
	if err != nil {
		return req, err
	}
	if made {
		wish.Notes = append(wish.Notes, "the image was made of the root file system")
	}
	prof.Image = digest
	h.lookup = func(policy.Request) (profile.Profile, error) { return prof, nil }
	return req, m.limitGroup(h, req)
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
	if m.state.CGroup == "" {
		return nil
	}
	plan, err := h.decide(req)
	if err != nil {
		return nil //nolint:nilerr // the engine will find that too, and record it
	}
	group, err := cgroup.FindNamed(filepath.Clean("/" + m.state.CGroup))
	if err != nil {
		return err
	}
	return group.Limit(cgroup.Limits{
		MemoryBytes: plan.Limits.MemoryBytes + plan.Limits.WorkspaceBytes + sentryBytes + monitorBytes,
		Processes:   4*plan.Limits.Processes + 2*sentryThreads,
	})
}

// readOverlay reads a file that the engine made for the container.
func readOverlay(o oci.Overlay) (policy.Overlay, error) {
	const most = 1 << 20 // policy refuses more
	f, err := os.Open(o.Source)
	if err != nil {
		return policy.Overlay{}, fmt.Errorf("open what is to be %s: %w", o.Path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return policy.Overlay{}, fmt.Errorf("read what is to be %s: %w", o.Path, err)
	}
	sum := sha256.Sum256(data)
	return policy.Overlay{Path: o.Path, Bytes: data, SHA256: hex.EncodeToString(sum[:])}, nil
}

// isNull says whether f is a device that nobody writes to: an engine's stdin for a container that has none.
func isNull(f *os.File) bool {
	info, err := f.Stat()
	return err != nil || info.Mode()&os.ModeCharDevice != 0 && !isTerminal(f)
}

// containersDir has a file for each container, in silk's state directory.
const containersDir = "containers"

// listed is one of those files.
type listed struct {
	Root   string `json:"root"`
	ID     string `json:"id"`
	CGroup string `json:"cgroup,omitempty"`
}

// deadContainers removes what is left of containers whose monitor has ended and whose engine has not removed them, or with dry only
// names them.
func deadContainers(home string, dry bool) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(home, containersDir, "*.json"))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, file := range files {
		data, err := os.ReadFile(file)
		var l listed
		if err == nil {
			err = json.Unmarshal(data, &l)
		}
		var c *container.Container
		if err == nil {
			c, err = container.At(l.Root, l.ID)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s: %w", file, err))
			continue
		}
		if c.Alive() {
			continue
		}
		if !dry {
			if err := dismantle(c, container.State{CGroup: l.CGroup, Listed: file}); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		names = append(names, c.Path())
	}
	return names, errors.Join(errs...)
}

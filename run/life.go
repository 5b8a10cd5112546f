package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/workspace"
)

// life is one run on its way through the engine. One goroutine owns it; what others touch says so.
type life struct {
	engine  *Engine
	req     policy.Request
	io      IO
	id      string
	arrived time.Time

	plan      policy.Plan
	decided   bool // plan is set
	driver    driver.Driver
	image     Image
	source    workspace.Source
	mounts    []driver.Mount
	decisions []record.Decision
	refusals  []driver.Refusal

	traffic *traffic    // nil: nothing leads out
	way     *egress.Way // as traffic
	wayLost error       // why there was no way out from some moment on

	streams   *streams
	stdin     *os.File // our end of the sandbox's stdin or terminal, nil if it has none
	draining  chan struct{}
	filled    chan struct{} // closed when manifest and filledAt are set
	filledAt  time.Time     // nothing but the start of the program comes after it
	waited    bool          // Wait of the sandbox has returned
	monitored string        // by what, once it has
	undo      cleanup.Stack

	// Set by Fill and Drain, which the driver calls from goroutines of its own, before Start and Wait return.
	manifest      workspace.Manifest
	collected     workspace.Collected
	collectErr    error
	compileFailed bool

	in      record.Input
	out     Outcome
	keeping keeping
}

// Run takes req through its whole life. The outcome is complete whatever happens. The error is about what surrounds it -
// a record that could not be written, a resource that could not be released - and the outcome stands nevertheless,
// except that a program's own end turns into [Error] when it could not be recorded.
//
// Cancelling ctx ends the sandbox with outcome [Canceled]. The time limit counts from the moment when the driver says
// that the program runs, so that a slow host does not eat the program's time.
func (e *Engine) Run(ctx context.Context, req policy.Request, io IO) (Outcome, error) {
	l := e.life(req, io)
	l.trace("request")
	l.live(ctx)

	// From here on the caller's context does not matter: what was acquired is released and recorded in any case.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
	defer cancel()
	errs := []error{l.undo.Run(end)}
	if l.out.Flags == nil {
		l.out.Flags = map[string]int64{}
	}
	errs = append(errs, l.keepOutput(), l.keepInput())
	l.complete()
	if err := l.finish(end); err != nil {
		err = fmt.Errorf("record run %s: %w", l.id, err)
		errs = append(errs, err, ErrUnrecorded)
		if l.out.Kind == OK || l.out.Kind == Failed { // a run without a record must not look like a good one
			l.out.Message = fmt.Sprintf("%v; the program itself ended with %s", err, l.out.Kind)
			l.out.Kind, l.out.Reason = Error, ReasonHost
		}
	}
	l.trace("end is recorded")
	errs = append(errs, l.raise(ctx))
	for _, c := range l.channels() {
		errs = append(errs, c.keep.close())
	}
	return l.out, errors.Join(errs...)
}

func (e *Engine) life(req policy.Request, io IO) *life {
	return &life{
		engine: e, req: req, io: io, id: cmp.Or(io.Run, newID()), arrived: time.Now(),
		decisions: slices.Clone(io.Decisions), draining: make(chan struct{}), filled: make(chan struct{}),
	}
}

// live sets the outcome, also when something below panics.
func (l *life) live(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			l.engine.cfg.Logger.Error("panic during a run", logkey.Run, l.id, logkey.Panic, p, logkey.Stack, string(debug.Stack()))
			l.out = Outcome{Kind: Error, Reason: ReasonHost, Message: fmt.Sprintf("silk has a bug: %v", p)}
		}
	}()
	if err := l.prepare(ctx); err != nil {
		l.refuse(ctx, err)
		return
	}
	sandbox, spec, err := l.start(ctx)
	if err != nil {
		l.refuse(ctx, err)
		return
	}
	l.watch(ctx, sandbox, spec)
}

func (l *life) refuse(ctx context.Context, err error) {
	l.out = refused(err, ctx.Err() != nil)
	if l.out.Kind == Denied {
		l.decisions = append(l.decisions, record.Decision{What: "denied", Text: l.out.Message})
	}
}

func (l *life) trace(step string) {
	if l.io.Trace != nil {
		l.io.Trace(step, time.Now())
	}
}

// prepare decides, and finds everything that the sandbox needs. Nothing has started yet but what a driver prepares.
func (l *life) prepare(ctx context.Context) error {
	plan, err := l.engine.cfg.Decide(l.req)
	if err != nil {
		var denial *policy.Denial
		if errors.As(err, &denial) {
			return err
		}
		return &fault{ReasonUsage, err}
	}
	l.plan, l.decided = plan, true
	l.trace("decided")
	if l.driver, err = l.engine.pick(plan); err != nil {
		return err
	}
	l.decisions = append(l.decisions, record.Decision{What: "driver", Text: l.driver.Name()})
	if plan.Skill != nil {
		l.decisions = append(l.decisions, record.Decision{What: "skill", Text: plan.Skill.Text()})
	}
	for _, grant := range plan.Grants {
		l.decisions = append(l.decisions, record.Decision{What: "grant", Text: grant})
	}
	if p, ok := l.driver.(Preparer); ok {
		l.undo.PushFunc(p.Prepare(ctx))
		l.trace("driver prepares")
	}
	if l.image, err = l.engine.cfg.Images.Open(ctx, plan.Image); err != nil {
		return fmt.Errorf("find image %s: %w", plan.Image, err)
	}
	l.undo.Push(func(context.Context) error { return l.image.Root.Close() })
	l.trace("image is open")
	if err := l.snapshots(ctx); err != nil {
		return err
	}
	l.source = sourceOf(plan)
	if err := l.source.Check(l.fillLimits()); err != nil {
		return err
	}
	if plan.Code != nil {
		l.in.CodeSHA256 = plan.Code.SHA256
		if plan.Code.Bytes != nil {
			sum := sha256.Sum256(plan.Code.Bytes)
			l.in.CodeSHA256 = hex.EncodeToString(sum[:])
		}
	}
	return nil
}

func (l *life) fillLimits() workspace.FillLimits {
	return workspace.FillLimits{Bytes: l.plan.Limits.WorkspaceBytes}
}

// snapshots packs the sources of mounts. Links are resolved here, where the file system can be asked, and what they lead
// to must lie in a store as well.
func (l *life) snapshots(ctx context.Context) error {
	for _, m := range l.plan.Mounts {
		source, err := workspace.CheckMount(m.Source, m.Target, l.engine.cfg.Stores)
		if err != nil {
			return err
		}
		if l.engine.cfg.Snapshot == nil {
			return &policy.Denial{Rule: policy.RuleMount, Detail: "this silk cannot mount"}
		}
		f, err := l.engine.cfg.Snapshot(ctx, source)
		if err != nil {
			return fmt.Errorf("snapshot %s: %w", source, err)
		}
		l.undo.Push(func(context.Context) error { return f.Close() })
		l.mounts = append(l.mounts, driver.Mount{Image: f, Target: m.Target})
		l.trace("mount is packed")
	}
	return nil
}

// start starts the sandbox. The start and the writing of its record overlap: Fill, without which no driver runs a first
// instruction, waits for the record.
func (l *life) start(ctx context.Context) (driver.Sandbox, *driver.Spec, error) {
	spec, err := specOf(l.id, l.plan)
	if err != nil {
		return nil, nil, err
	}
	spec.Image, spec.Trees, spec.Mounts, spec.Trace = l.image.Root, l.image.Trees, l.mounts, l.io.Trace
	l.streams = &streams{
		onFrame: l.io.OnFrame, first: func() { l.trace("first output") },
		stdout: newKeeper(l.plan.Limits.OutputBytes, l.outputFile("stdout")),
		stderr: newKeeper(l.plan.Limits.OutputBytes, l.outputFile("stderr")),
	}
	l.undo.PushFunc(l.streams.finish)

	begun := make(chan error, 1)
	go func() { begun <- l.begin(ctx) }()
	begin := sync.OnceValue(func() error { return <-begun })
	l.undo.PushFunc(func() { begin() }) // its owner waits for it, also after a panic

	ready, err := l.openEgress(&spec)
	if err == nil {
		err = l.connect(&spec)
	}
	if err != nil {
		return nil, nil, errors.Join(err, begin())
	}
	spec.Fill = func(w io.Writer) (err error) {
		if err := begin(); err != nil {
			return err
		}
		if err := ready(ctx); err != nil {
			return err
		}
		l.manifest, err = workspace.Fill(io.MultiWriter(w, l.keepWorkspace()), l.source, l.fillLimits())
		l.filledAt = time.Now()
		close(l.filled)
		l.trace("workspace is filled")
		return err
	}
	spec.Drain, spec.Events = l.drain, l.io.OnEvent
	l.trace("driver starts")
	sandbox, err := l.driver.Start(ctx, spec)
	if beginErr := begin(); beginErr != nil { // the reason for whatever the driver says
		if err == nil {
			sandbox.Kill(driver.KillNow)
			_, _ = sandbox.Wait()
		}
		return nil, nil, beginErr
	}
	if err != nil {
		return nil, nil, fmt.Errorf("start sandbox: %w", err)
	}
	l.undo.Push(func(context.Context) error { // after a panic
		if l.waited {
			return nil
		}
		sandbox.Kill(driver.KillNow)
		_, err := sandbox.Wait()
		return err
	})
	return sandbox, &spec, nil
}

// sayNotFound says on the program's behalf what a shell would.
func (l *life) sayNotFound(message string) {
	channel, keep, end := "stderr", l.streams.stderr, "\n"
	if l.plan.Terminal {
		channel, keep, end = "stdout", l.streams.stdout, "\r\n"
	}
	l.streams.emit(channel, keep, []byte("silk: "+message+end))
}

func (l *life) outputFile(channel string) func() (*os.File, error) {
	return func() (*os.File, error) { return record.CreateOutputFile(l.engine.cfg.Home, l.id, channel) }
}

// watch is with the sandbox until it is gone.
func (l *life) watch(ctx context.Context, sandbox driver.Sandbox, spec *driver.Spec) {
	started := time.Now()
	l.trace(StepRuns)
	l.engine.settle()
	l.streams.started(started)
	if err := l.closeLink(); err != nil {
		l.engine.cfg.Logger.Warn("close the sandbox's end of its way out", logkey.Run, l.id, logkey.Error, err)
	}

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, l.plan.Limits.Timeout, errTimeout)
	defer cancel()
	if l.leaveKills() {
		l.traffic.onRefused(func(egress.Decision) { fail(errRefused) })
	}
	finishInput := l.feed(ctx, sandbox, spec, fail)
	exit, err := supervise(ctx, sandbox, l.draining)
	l.waited = true
	cause, gone := context.Cause(ctx), time.Now()
	// The driver says that the program runs a moment after it does; and on a busy host this process may know that the workspace is filled
	// when the program has ended.
	if !l.filledAt.IsZero() && l.filledAt.Before(started) {
		started = l.filledAt
	}
	wall := gone.Sub(started)
	l.trace("sandbox is gone")
	if l.io.OnGone != nil {
		l.io.OnGone()
	}
	finishInput()
	l.streams.finish()
	if exit.NotFound {
		l.sayNotFound(exit.Message)
	}

	l.out = judge(exit, err, cause, l.plan.Limits)
	watched := "the sandbox's own kernel"
	if exit.Watched.Host {
		watched += " and the host's"
	}
	l.monitored = watched
	l.decisions = append(l.decisions, record.Decision{What: "watched", Text: watched})
	l.out.Watched, l.out.Dropped, l.out.Events = exit.Watched.Counts, exit.Watched.Dropped, exit.Watched.Last
	if n := len(l.out.Events); l.out.Kind == Violated && n > 0 {
		l.out.DeadAfterUs = gone.Sub(l.out.Events[n-1].At).Microseconds()
	}
	l.out.WallMs = wall.Milliseconds()
	l.out.Flags, l.out.Refused, l.refusals = flags(exit.Flags), refusedByRule(exit.Refused), exit.Refused
	l.out.Usage = Usage{CPUMs: exit.Usage.CPU.Milliseconds(), PeakMemoryBytes: exit.Usage.PeakMemoryBytes, Processes: exit.Usage.Processes}
	l.in.WorkspaceSHA256 = l.manifest.Hash()
	if l.plan.Compile && l.compileFailed && l.out.Kind == Failed {
		l.out.Phase, l.out.Message = "compile", "the compiler failed"
	}
	l.judgeWorkspace(exit)
}

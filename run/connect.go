package run

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/silk-sandbox/silk/display"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/internal/pipe"
	"github.com/silk-sandbox/silk/internal/pty"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/workspace"
)

// connect makes the descriptors of the sandbox: pipes, or a terminal.
func (l *life) connect(spec *driver.Spec) (err error) {
	if l.plan.Terminal {
		var size Size
		if l.io.Resize != nil {
			select {
			case size = <-l.io.Resize:
			default:
			}
		}
		l.stdin, spec.Terminal, err = l.streams.openTerminal(size)
		return err
	}
	if spec.Stdout, spec.Stderr, err = l.streams.openPipes(); err != nil {
		return err
	}
	if !l.plan.Stdin || l.io.Stdin == nil {
		return nil
	}
	if spec.Stdin, l.stdin, err = pipe.New(pipeBytes); err != nil {
		return err
	}
	l.streams.theirs = append(l.streams.theirs, spec.Stdin)
	l.undo.PushFunc(func() { l.stdin.Close() }) // closed at the end of the input already, if there was one
	return nil
}

// feed starts what goes into a running sandbox, input, terminal sizes and signals; the function that it returns ends all and
// waits. fail ends the run.
func (l *life) feed(ctx context.Context, sandbox driver.Sandbox, spec *driver.Spec, fail func(error)) (finish func()) {
	var sizes sync.WaitGroup // and signals
	gone := make(chan struct{})
	resizer, ok := sandbox.(driver.Resizer)
	if spec.Terminal != nil && l.io.Resize != nil && ok {
		sizes.Go(func() { l.resize(resizer, gone) })
	}
	if signaler, ok := sandbox.(driver.Signaler); ok && l.io.Signals != nil {
		sizes.Go(func() { l.signal(signaler, gone) })
	}
	in, err := l.startInput(spec, fail)
	if err != nil {
		fail(fmt.Errorf("%w: %w", errStdin, err))
	}
	return func() {
		close(gone)
		sizes.Wait()
		if in != nil {
			l.in.StdinBytes, l.in.StdinSHA256 = in.end()
		}
	}
}

func (l *life) startInput(spec *driver.Spec, fail func(error)) (*input, error) {
	switch {
	case l.stdin == nil || l.io.Stdin == nil:
		return nil, nil
	case spec.Terminal != nil: // it is not kept: when something was typed is not known
		const endOfFile = "\x04" // VEOF of a new terminal: termios(3)
		return startInput(l.io.Stdin, l.stdin, io.Discard, func() { io.WriteString(l.stdin, endOfFile) }, fail)
	}
	return startInput(l.io.Stdin, l.stdin, l.keepStdin(), func() { l.stdin.Close() }, fail)
}

// resize passes changes of the caller's terminal on.
func (l *life) resize(sandbox driver.Resizer, gone <-chan struct{}) {
	for {
		select {
		case <-gone:
			return
		case size, ok := <-l.io.Resize:
			if !ok {
				return
			}
			err := errors.Join(pty.Resize(l.stdin, size.Columns, size.Rows), sandbox.Resize(size.Columns, size.Rows))
			if err != nil {
				l.engine.cfg.Logger.Warn("resize terminal", logkey.Run, l.id, logkey.Error, err)
			}
		}
	}
}

// signal passes signals on.
func (l *life) signal(sandbox driver.Signaler, gone <-chan struct{}) {
	for {
		select {
		case <-gone:
			return
		case n, ok := <-l.io.Signals:
			if !ok {
				return
			}
			if err := sandbox.Signal(n); err != nil {
				l.engine.cfg.Logger.Warn("send signal", logkey.Run, l.id, logkey.Error, err)
			}
		}
	}
}

// drain reads the final workspace. It takes the stream to its end whatever is in it, and keeps its own error: a hostile
// stream must not look like a broken sandbox.
//
// A driver may call it as soon as the sandbox starts, before Fill has returned. What Fill wrote is needed only when there
// is a first byte, which the program must have run for.
func (l *life) drain(stream io.Reader) error {
	first := bufio.NewReader(stream)
	r := io.Reader(first)
	if _, err := first.Peek(1); err == nil {
		close(l.draining)
		l.trace("workspace arrives")
		<-l.filled
	}
	saw := func() bool { return false }
	if l.plan.Compile {
		r, saw = sawFile(r, policy.CompileFailed)
	}
	l.collected, l.collectErr = workspace.Collect(r, l.manifest, workspace.CollectConfig{
		Dir: l.io.Artifacts, Ignore: l.plan.Ignore,
		Display: display.Check, DisplayDir: display.Dir, DisplayBytes: display.MaxBytes, Displays: display.MaxResults,
	})
	_, err := io.Copy(io.Discard, r)
	l.compileFailed = saw()
	return err
}

// judgeWorkspace puts the artifacts into the outcome, results first, in the order of their names.
func (l *life) judgeWorkspace(exit driver.Exit) {
	for _, a := range l.collected.Artifacts {
		l.out.Artifacts = append(l.out.Artifacts, Artifact{
			Path: a.Path, PathB64: a.PathB64, Type: string(a.Type), Size: a.Size, SHA256: a.SHA256, MIME: a.MIME, Display: a.Display, Omitted: a.Omitted,
		})
	}
	slices.SortStableFunc(l.out.Artifacts, func(a, b Artifact) int {
		switch {
		case a.Display != "" && b.Display != "":
			return cmp.Compare(a.Path, b.Path)
		case a.Display != "":
			return -1
		case b.Display != "":
			return 1
		}
		return 0
	})
	if n := l.collected.Hidden; n > 0 {
		l.out.Flags["results_refused"] = int64(n)
	}
	if n := l.collected.Omitted + l.collected.More; n > 0 {
		l.out.Flags["artifacts_omitted"] = int64(n)
	}
	switch {
	case l.out.Kind == Violated: // the sandbox ended on the spot, its workspace with it
	case exit.DrainErr != nil:
		l.out.Flags["workspace_lost"] = 1
	case l.collectErr != nil && (l.out.Kind == OK || l.out.Kind == Failed):
		// The caller waits for files that are not there.
		l.out.Message = fmt.Sprintf("collect artifacts: %v; the program itself ended with %s", l.collectErr, l.out.Kind)
		l.out.Kind, l.out.Reason = Error, ReasonHost
	case l.collectErr != nil:
		l.out.Flags["workspace_lost"] = 1
	}
}

// keepOutput puts what was kept of the output into the outcome, and what is too large for the database into a file.
func (l *life) keepOutput() error {
	var errs []error
	for _, c := range l.channels() {
		errs = append(errs, c.keep.err)
		if c.keep.kept > record.InlineBytes && c.keep.err == nil {
			if err := c.keep.spill(); err != nil {
				errs = append(errs, fmt.Errorf("keep output: %w", err))
			}
		}
		var err error
		if *c.out, err = c.keep.channel(!l.io.OmitText); err != nil {
			errs = append(errs, err)
		}
		if lost := c.keep.total - c.keep.kept; lost > 0 {
			l.out.Flags["output_truncated"] += lost
		}
	}
	return errors.Join(errs...)
}

// complete gives the outcome the fields that every one has.
func (l *life) complete() {
	l.out.Run, l.out.Image = l.id, l.image.Digest
	l.out.Egress, l.out.EgressMore = l.traffic.destinations()
	l.judgeEgress()
	if l.driver != nil {
		l.out.Driver = l.driver.Name()
	}
	if l.out.Artifacts == nil {
		l.out.Artifacts = []Artifact{}
	}
	if l.streams == nil { // nothing ran, nothing was printed
		empty := newKeeper(0, func() (*os.File, error) { return nil, errors.New("nothing is kept") })
		nothing, _ := empty.channel(!l.io.OmitText)
		l.out.Stdout, l.out.Stderr = nothing, nothing
	}
}

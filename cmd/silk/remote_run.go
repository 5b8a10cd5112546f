package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/run"
)

const (
	cancelGrace = 15 * time.Second // for a server to take the wish to end a run
	submitGrace = 5 * time.Second  // for its answer to a request that was sent when Ctrl-C came: the run must be ended then
)

// remoteRun is `silk run` on a server: the same streams, sentences and exit status as on this host.
type remoteRun struct {
	*app
	flags  *runFlags
	client *client.Client
	config config
	req    policy.Request
	*streams

	id        string
	key       string // of the request, and of who follows it; "": it is only watched
	attached  bool   // it is somebody else's: Ctrl-C leaves it alone
	gaps      error  // output that got lost on the way
	lostBytes int64
	firstGap  string
	tails     [2]endOf // stdout, stderr
	reported  bool     // that it waits for the owner
}

// runRemote is run for a server.
func (a *app) runRemote(f *runFlags, cmd *cobra.Command, args []string) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	server, err := a.server()
	if err != nil {
		return err
	}
	defer server.Close()
	r := &remoteRun{app: a, flags: f, client: server, config: c}
	end, err := r.do(cmd, args)
	return r.finish(end, err)
}

// finish completes what is known of the end of a run, and says it. err is why nothing is.
func (r *remoteRun) finish(end api.Outcome, err error) error {
	a, f, c := r.app, r.flags, r.config
	var outcome run.Outcome
	if err != nil {
		outcome = r.refused(err)
	} else {
		outcome = r.complete(end)
	}
	var lost error
	if r.streams != nil {
		r.streams.close() // the terminal is the user's again before anything is said
		lost = r.streams.lost
	}
	plan := r.plan(outcome)
	if outcome.Kind == run.Violated && !c.alerts.quiet {
		r.alert(outcome, plan.Profile)
	}
	unsaid := a.show(f, outcome, told{plan: plan, guessed: f.guessed, remote: true, alerted: !c.alerts.quiet}, lost)
	if r.gaps != nil {
		a.errorf("the output is not whole: %v", r.gaps)
	}
	return exitAs(outcome, r.gaps, unsaid, lost)
}

// do asks for the run and follows it to its end. An error is why there is none, or why it is not known.
func (r *remoteRun) do(cmd *cobra.Command, args []string) (api.Outcome, error) {
	if err := r.flags.hostBound(); err != nil {
		return api.Outcome{}, err
	}
	if err := r.knowProfile(); err != nil {
		return api.Outcome{}, err
	}
	var err error
	if r.req, err = r.flags.request(r.app, r.config, cmd, args); err != nil {
		return api.Outcome{}, err
	}
	if err := r.readable(); err != nil {
		return api.Outcome{}, err
	}
	s, err := r.app.streams(r.flags, &r.req)
	if err != nil {
		return api.Outcome{}, err
	}
	r.streams = s
	wire, err := requestFor(r.req, r.flags, r.size())
	if err != nil {
		return api.Outcome{}, err
	}
	if err := r.submit(wire); err != nil {
		return api.Outcome{}, err
	}
	return r.follow(client.Cursor{})
}

// submit asks for the run. Once it may have been accepted, Ctrl-C does not keep its id from us.
func (r *remoteRun) submit(wire api.RunRequest) error {
	ctx, stop := after(r.streams.ctx, submitGrace)
	defer stop()
	r.key = rand.Text()
	accepted, err := r.client.SubmitFollowed(ctx, wire, r.key)
	if err != nil {
		if cause := context.Cause(r.streams.ctx); cause != nil && !errors.As(err, new(*api.Problem)) {
			return context.Canceled
		}
		return err
	}
	r.id = accepted.ID
	return nil
}

// after is a context that ends d after ctx has. stop releases it.
func after(ctx context.Context, d time.Duration) (_ context.Context, stop func()) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	quit := context.AfterFunc(ctx, func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(context.Cause(ctx))
		case <-later.Done():
		}
	})
	return later, func() { quit(); cancel(nil) }
}

// follow shows the run until it has ended, ends it when the user wants that, and passes stdin on.
func (r *remoteRun) follow(from client.Cursor) (api.Outcome, error) {
	ctx, give := context.WithCancelCause(context.WithoutCancel(r.streams.ctx))
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer give(nil) // which ends them
	helpers.Go(func() {
		select {
		case <-r.streams.ctx.Done():
			r.leave(ctx, give)
		case <-ctx.Done():
		}
	})
	if r.io.Stdin != nil {
		defer r.feed(ctx, give)()
	}
	if r.io.Resize != nil {
		helpers.Go(func() { r.resize(ctx) })
	}
	stream := r.client.Watch(r.id, from)
	if r.key != "" {
		stream = r.client.Follow(r.id, from, r.key)
	}
	for f, err := range stream.Frames(ctx) {
		if err != nil {
			return api.Outcome{}, err
		}
		if f.Type == api.FrameExit {
			return *f.Outcome, nil
		}
		if err := r.frame(ctx, f); err != nil {
			return api.Outcome{}, err
		}
	}
	return api.Outcome{}, client.ErrUnknown
}

// leave does what Ctrl-C means, and the end of whoever reads the output: the run is ended, but for one that is only watched.
func (r *remoteRun) leave(ctx context.Context, give context.CancelCauseFunc) {
	if r.attached {
		give(errDetached)
		return
	}
	if err := r.cancel(ctx); err != nil && ctx.Err() == nil {
		give(fmt.Errorf("the run could not be ended: %w; end it with silk runs kill %s", err, r.id))
	}
}

// feed passes stdin on. stop ends that, and waits for its end where a read that waits can be ended.
func (r *remoteRun) feed(ctx context.Context, give context.CancelCauseFunc) (stop func()) {
	in, interrupt := newFeeder(r.client, r.id, r.io.Stdin)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := in.feed(ctx); err != nil && ctx.Err() == nil {
			_ = r.cancel(ctx) // a program must not take a part of its input for all of it
			give(fmt.Errorf("pass stdin on: %w", err))
		}
	}()
	return func() {
		give(nil)
		if interrupt != nil {
			interrupt()
			<-ended
		}
	}
}

// cancel ends the run on the server. One that has ended is as well.
func (r *remoteRun) cancel(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, cancelGrace)
	defer stop()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		err := r.client.Cancel(ctx, r.id)
		var p *api.Problem
		if err == nil || errors.As(err, &p) && p.Status == http.StatusConflict {
			return nil
		}
		if p != nil && p.Status < 500 && p.Status != http.StatusTooManyRequests {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

// frame shows one frame.
func (r *remoteRun) frame(ctx context.Context, f api.Frame) error {
	switch f.Type {
	case api.FrameStarted:
		if r.io.OnStart != nil {
			r.io.OnStart(r.started(ctx))
		}
	case api.FrameOutput:
		return r.output(f)
	case api.FrameEgress:
		if r.io.OnEgress != nil {
			r.io.OnEgress(egress.Decision{Kind: f.Kind, Host: f.Host, Port: uint16(f.Port), Allowed: f.Allowed != nil && *f.Allowed, Rule: f.Rule, Reason: f.Detail, Count: 1})
		}
	case api.FrameGap:
		r.gap(f)
	case api.FrameApproval:
		r.approval(f)
	case api.FrameQueued:
		if f.Position > 1 && isTerminal(r.err) {
			r.say("run %s waits at place %d of the queue", r.id, f.Position)
		}
	}
	return nil
}

// output shows a piece of output as one of this host is shown.
func (r *remoteRun) output(f api.Frame) error {
	data, err := f.Bytes()
	if err != nil {
		return fmt.Errorf("read output: %w", err) // client has read it before
	}
	tail := &r.tails[0]
	if f.Channel == "stderr" {
		tail = &r.tails[1]
	}
	tail.add(data)
	if r.io.OnFrame == nil {
		return nil
	}
	frame := run.Frame{Seq: f.Seq, Channel: f.Channel, Offset: *f.Offset, Data: data}
	if f.AtMs != nil {
		frame.At = time.Duration(*f.AtMs) * time.Millisecond
	}
	r.io.OnFrame(frame)
	return nil
}

// gap remembers that output was lost, in one sentence however often it was.
func (r *remoteRun) gap(f api.Frame) {
	r.lostBytes += *f.To - *f.From
	if r.firstGap == "" {
		r.firstGap = fmt.Sprintf("from byte %d of %s on", *f.From, f.Channel)
	}
	r.gaps = fmt.Errorf("%s of it were lost on the way, %s, since silk did not take them in time, or the server did not keep them", sizeText(r.lostBytes), r.firstGap)
}

// approval says that the run waits for its owner, and what came of it.
func (r *remoteRun) approval(f api.Frame) {
	switch f.State {
	case "pending":
		r.reported = true
		r.say("run %s waits for the owner's approval: %s; the owner decides %s", r.id, oneLine(f.Detail), howToApprove(r.serverURL(), r.id))
	case "granted":
		if r.reported {
			r.say("run %s is approved", r.id)
		}
	}
}

// howToApprove says how the owner decides about a run that was asked for at server: what came over the socket is not decided
// over the socket.
func howToApprove(server, id string) string {
	if strings.HasPrefix(strings.ToLower(server), "unix:") {
		return "with an owner's token over the port: silk --server URL --token-file FILE runs approve " + id
	}
	return "with: silk runs approve " + id
}

// say is errorf, also while the terminal is in raw mode.
func (r *remoteRun) say(format string, args ...any) {
	_, _ = fmt.Fprintf(rawStderr{r.app}, "silk: "+format+"\n", args...) // as errorf
}

// resize passes the sizes of the terminal on until ctx ends.
func (r *remoteRun) resize(ctx context.Context) {
	for {
		select {
		case size := <-r.io.Resize:
			_ = r.client.Resize(ctx, r.id, api.Size{Columns: size.Columns, Rows: size.Rows}) // the next one counts
		case <-ctx.Done():
			return
		}
	}
}

// size is that of the terminal when the run is asked for; nil: it gets none.
func (r *remoteRun) size() *api.Size {
	if !r.flags.terminal {
		return nil
	}
	size := run.Size{Columns: 80, Rows: 24} // what a terminal that does not say has
	if r.io.Resize != nil {
		select {
		case size = <-r.io.Resize:
		case <-r.streams.ctx.Done():
		}
	}
	return &api.Size{Columns: max(1, size.Columns), Rows: max(1, size.Rows)}
}

// endOf keeps the last bytes of a stream.
type endOf struct{ tail []byte }

// tailBytes is what the outcome of a run has of the end of its output if the first part does not reach it.
const tailBytes = 4 << 10

func (l *endOf) add(p []byte) {
	if len(p) >= tailBytes {
		l.tail = append(l.tail[:0], p[len(p)-tailBytes:]...)
		return
	}
	l.tail = append(l.tail, p...)
	if over := len(l.tail) - tailBytes; over > 0 {
		l.tail = append(l.tail[:0], l.tail[over:]...)
	}
}

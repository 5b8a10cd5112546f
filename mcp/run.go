package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/logkey"
)

// maxWait bounds how long run_status waits: clients give up on a call after a minute.
const maxWait = 50 * time.Second

func (s *Server) runCode(ctx context.Context, call *sdk.CallToolRequest, in codeIn) (*sdk.CallToolResult, runAnswer, error) {
	req, err := in.request()
	if err != nil {
		return nil, runAnswer{}, err
	}
	return s.run(ctx, call, req, in.call)
}

func (s *Server) runFiles(ctx context.Context, call *sdk.CallToolRequest, in filesIn) (*sdk.CallToolResult, runAnswer, error) {
	req, err := in.request()
	if err != nil {
		return nil, runAnswer{}, err
	}
	return s.run(ctx, call, req, in.call)
}

// run runs a request: to its end, or in the background.
func (s *Server) run(ctx context.Context, call *sdk.CallToolRequest, req api.RunRequest, how call) (*sdk.CallToolResult, runAnswer, error) {
	if how.Background {
		return s.begin(ctx, s.lifetime(call), req, how)
	}
	ctx, stop := s.whileConnected(ctx, call)
	defer stop()
	l, err := s.start(ctx, req, false)
	if err != nil {
		return nil, runAnswer{}, err
	}
	s.follow(ctx, call, l, l.done, req.Limits.TimeoutMs)
	<-l.done // if the call is over, the run is being ended
	return s.ended(ctx, l, how.MaxOutput)
}

// begin begins a run and answers as soon as it has an id.
func (s *Server) begin(ctx, life context.Context, req api.RunRequest, how call) (*sdk.CallToolResult, runAnswer, error) {
	l, err := s.start(life, req, true)
	if err != nil {
		return nil, runAnswer{}, err
	}
	select {
	case <-l.known:
	case <-ctx.Done():
		l.cancel(context.Cause(ctx)) // nobody would know of it
		<-l.done
		return nil, runAnswer{}, context.Cause(ctx)
	}
	select {
	case <-l.done: // refused, or over already
		return s.ended(ctx, l, how.MaxOutput)
	default:
	}
	a := s.standing(l, how.MaxOutput)
	a.Hint = "it goes on in the background: run_status waits for its end, cancel_run ends it"
	return answer(a, nil), a, nil
}

// whileConnected returns a context that also ends with the session of a call, and with the connection over which it came: nobody
// could be told of the end.
func (s *Server) whileConnected(ctx context.Context, call *sdk.CallToolRequest) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	gone := func() { cancel(errGone) }
	stops := []func() bool{context.AfterFunc(s.lifetime(call), gone)}
	if call.Extra != nil && call.Extra.TokenInfo != nil {
		if conn, ok := call.Extra.TokenInfo.Extra[connection].(context.Context); ok {
			stops = append(stops, context.AfterFunc(conn, gone))
		}
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// progressEvery is how often a client hears of a run that prints or just takes its time.
const progressEvery = time.Second

// follow tells the client how a run goes, until done is closed or ctx ends.
func (s *Server) follow(ctx context.Context, call *sdk.CallToolRequest, l *live, done <-chan struct{}, timeoutMs int64) {
	token := call.Params.GetProgressToken()
	if token == nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
		return
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	begin, told := time.Now(), 0.0
	for {
		now := l.look()
		told = max(told+0.001, time.Since(begin).Seconds())
		p := &sdk.ProgressNotificationParams{ProgressToken: token, Progress: told, Message: l.progress(now)}
		if timeoutMs > 0 {
			p.Total = max(told, float64(timeoutMs)/1000)
		}
		if err := call.Session.NotifyProgress(ctx, p); err != nil && ctx.Err() == nil {
			s.cfg.Logger.DebugContext(ctx, "tell progress", logkey.Error, err)
		}
		for waiting := true; waiting; {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				waiting = false
			case <-l.changed:
				waiting = l.look().State == now.State // output waits for the tick
			}
		}
	}
}

// progress is how a run stands, in one line.
func (l *live) progress(r api.Run) string {
	switch {
	case r.State == api.StateQueued && r.Position > 0:
		return fmt.Sprintf("waits, place %d", r.Position)
	case r.State != api.StateRunning:
		return "waits"
	}
	text := fmt.Sprintf("runs for %.1f s", time.Since(time.UnixMilli(r.StartedAtMs)).Seconds())
	for _, name := range []string{"stdout", "stderr"} {
		b := l.channel(name)
		_, _, end := b.read(0, 0)
		if end == 0 {
			continue
		}
		last, _, end := b.read(max(0, end-200), 200)
		text += fmt.Sprintf(", %s %d bytes: %s", name, end, line(lastLine(last), 100))
	}
	return text
}

// lastLine is the last line of p that has something on it.
func lastLine(p []byte) string {
	end := len(p)
	for end > 0 && (p[end-1] == '\n' || p[end-1] == '\r') {
		end--
	}
	begin := end
	for begin > 0 && p[begin-1] != '\n' && p[begin-1] != '\r' {
		begin--
	}
	return string(p[begin:end])
}

// standing is how a run stands that has not ended.
func (s *Server) standing(l *live, most int) runAnswer {
	now := l.look()
	a := runAnswer{Run: now.ID, State: string(now.State), Profile: now.Profile, Waits: now.Position, Artifacts: []artifactOf{}}
	if now.State == api.StateRunning {
		a.WallMs = time.Since(time.UnixMilli(now.StartedAtMs)).Milliseconds()
	}
	a.show(&l.stdout, &l.stderr, most)
	return a
}

// ended is the answer to a run of this server that has ended.
func (s *Server) ended(ctx context.Context, l *live, most int) (*sdk.CallToolResult, runAnswer, error) {
	if l.err != nil {
		return nil, runAnswer{}, s.public(ctx, l.err)
	}
	a := answerOf(l.outcome, l.look().Profile)
	a.show(&l.stdout, &l.stderr, most)
	a.Stdout.count(l.outcome.Stdout)
	a.Stderr.count(l.outcome.Stderr)
	s.keep(a)
	return answer(a, s.shown(context.WithoutCancel(ctx), l.outcome)), a, nil
}

// answer is the result of a tool: text, images, and JSON besides.
func answer(a runAnswer, images []sdk.Content) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: a.broken(), Content: append([]sdk.Content{&sdk.TextContent{Text: a.text()}}, images...)}
}

// public is what a client is told of an error.
func (s *Server) public(ctx context.Context, err error) error {
	var unread *RequestError
	var problem *api.Problem
	switch {
	case errors.As(err, &unread), errors.As(err, &problem), errors.Is(err, ErrNotFound), errors.As(err, new(busyError)), ctx.Err() != nil:
		return err
	}
	s.cfg.Logger.ErrorContext(ctx, "call", logkey.Error, err)
	return fmt.Errorf("silk could not do it: %w", err)
}

// runIn names a run.
type runIn struct {
	Run       string `json:"run" jsonschema:"id of the run"`
	MaxOutput int    `json:"max_output_bytes,omitempty" jsonschema:"output in the answer, head and tail of it; default 16384"`
}

type statusIn struct {
	runIn
	WaitMs int64 `json:"wait_ms,omitempty" jsonschema:"wait so long for its end, at most 50000"`
}

func (s *Server) runStatus(ctx context.Context, call *sdk.CallToolRequest, in statusIn) (*sdk.CallToolResult, runAnswer, error) {
	if l, ok := s.lookup(in.Run); ok {
		if in.WaitMs > 0 {
			wait, cancel := context.WithTimeout(ctx, min(time.Duration(in.WaitMs)*time.Millisecond, maxWait))
			s.follow(wait, call, l, l.done, 0)
			cancel()
		}
		select {
		case <-l.done:
			return s.ended(ctx, l, in.MaxOutput)
		default:
			a := s.standing(l, in.MaxOutput)
			return answer(a, nil), a, ctx.Err()
		}
	}
	return s.kept(ctx, in.runIn)
}

// kept is how a run ended, or stands, that this server has not begun, or has forgotten.
func (s *Server) kept(ctx context.Context, in runIn) (*sdk.CallToolResult, runAnswer, error) {
	r, err := s.cfg.Engine.Look(ctx, in.Run)
	if err != nil {
		return nil, runAnswer{}, s.public(ctx, err)
	}
	if r.Outcome == nil {
		a := runAnswer{Run: r.ID, State: string(r.State), Profile: r.Profile, Waits: r.Position, Artifacts: []artifactOf{}, Hint: "another client has begun it; its output can be read when it has ended"}
		return answer(a, nil), a, nil
	}
	a := answerOf(*r.Outcome, r.Profile)
	var out [2]buffer
	for i, c := range []struct {
		name string
		api.Channel
	}{{"stdout", r.Outcome.Stdout}, {"stderr", r.Outcome.Stderr}} {
		if c.Bytes == 0 {
			continue
		}
		if err := s.fill(ctx, &out[i], r.ID, c.name); err != nil {
			return nil, runAnswer{}, s.public(ctx, err)
		}
	}
	a.show(&out[0], &out[1], in.MaxOutput)
	a.Stdout.count(r.Outcome.Stdout)
	a.Stderr.count(r.Outcome.Stderr)
	return answer(a, s.shown(ctx, *r.Outcome)), a, nil
}

// fill reads what is kept of a channel through a buffer, which keeps what an answer shows.
func (s *Server) fill(ctx context.Context, b *buffer, run, channel string) error {
	r, err := s.cfg.Engine.Output(ctx, run, channel)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(&appending{b: b}, r)
	return err
}

// appending writes at the end of a buffer.
type appending struct {
	b  *buffer
	at int64
}

func (a *appending) Write(p []byte) (int, error) {
	a.b.write(a.at, p)
	a.at += int64(len(p))
	return len(p), nil
}

func (s *Server) cancelRun(ctx context.Context, _ *sdk.CallToolRequest, in runIn) (*sdk.CallToolResult, runAnswer, error) {
	l, ok := s.lookup(in.Run)
	if !ok {
		r, err := s.cfg.Engine.Look(ctx, in.Run)
		switch {
		case err != nil:
			return nil, runAnswer{}, s.public(ctx, err)
		case r.Outcome == nil:
			return nil, runAnswer{}, errors.New("another client has begun this run, and only that one can end it here")
		}
		return s.kept(ctx, in) // it has ended by itself
	}
	l.cancel(context.Canceled)
	select {
	case <-l.done:
		return s.ended(ctx, l, in.MaxOutput)
	case <-ctx.Done():
		return nil, runAnswer{}, context.Cause(ctx)
	}
}

// connection is the key, in what is known of a token, of the context of the HTTP request that showed it.
const connection = "connection"

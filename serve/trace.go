package serve

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// Trace is a run that has ended, as those see it who follow work through several services: when each phase of it began and
// ended, and what came of it. Neither code nor environment, input or output is in it, but for Content.
type Trace struct {
	Run, Token, Session, Profile string

	// Traceparent and Tracestate are those of the request (W3C Trace Context), which nobody has looked at. They are in memory: a
	// run that waited while the server was started again has none.
	Traceparent, Tracestate string

	Began, Ended time.Time // from the request's arrival to the end's record
	Phases       []Phase   // in the order in which they began; none overlaps another
	Outcome      run.Outcome
	Content      *TraceContent // nil unless Config.TraceContent
}

// Phase is a part of a run's life: accept, approval, queue, image, "driver start", "sandbox boot", program, collect or record.
type Phase struct {
	Name         string
	Began, Ended time.Time
}

// TraceContent is what was asked for, as the JSON of the request, and what was printed: the first 64 KiB of each.
type TraceContent struct{ Request, Stdout, Stderr string }

const maxTraceContent = 64 << 10

// traces collects the lives of runs that have not ended. Without a receiver it does nothing. Safe for concurrent use.
type traces struct {
	to      func(Trace)
	content bool

	mu   sync.Mutex
	runs map[string]*tracing
}

// tracing is what is known of a run so far.
type tracing struct {
	Trace

	request string               // with traces.content: the row's is gone when the run has ended
	marks   map[string]time.Time // the first time of each
}

func newTraces(cfg Config) *traces {
	return &traces{to: cfg.Traces, content: cfg.TraceContent, runs: map[string]*tracing{}}
}

// parentKey is of contexts that carry a request's trace context.
type parentKey struct{}

// WithTraceparent returns a context for Submit that carries the headers traceparent and tracestate of a request.
func WithTraceparent(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		return ctx
	}
	return context.WithValue(ctx, parentKey{}, [2]string{parent, state})
}

// submit begins the trace of a run that is about to be accepted. What it returns is deferred: it forgets one that was not.
func (t *traces) submit(ctx context.Context, sub queue.Submission, profile string) func(existed *bool, err *error) {
	if t.to == nil {
		return func(*bool, *error) {}
	}
	parent, _ := ctx.Value(parentKey{}).([2]string)
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs[sub.Run] = &tracing{
		Trace:   Trace{Run: sub.Run, Token: sub.Token, Session: sub.Session, Profile: profile, Traceparent: parent[0], Tracestate: parent[1], Began: now},
		request: t.kept(sub.Request), marks: map[string]time.Time{"arrived": now},
	}
	return func(existed *bool, err *error) {
		if *existed || *err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.runs, sub.Run)
		}
	}
}

// accepted marks a run that has a row. One that an earlier server accepted begins its trace with that.
func (t *traces) accepted(e queue.Entry, profile string) {
	if t.to == nil {
		return
	}
	at := time.Now()
	if t.known(e) {
		at = e.AcceptedAt
	}
	t.mark(e.Run, "accepted")
	if e.State == queue.Pending {
		t.markAt(e.Run, "asked", at)
	} else {
		t.markAt(e.Run, "waits", at)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.runs[e.Run]; r != nil {
		r.Profile = profile
	}
}

// known makes sure that a run has a trace, which begins with its acceptance if that was another server's, and says whether it was.
func (t *traces) known(e queue.Entry) (elsewhere bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs[e.Run] != nil {
		return false
	}
	t.runs[e.Run] = &tracing{Trace: Trace{Run: e.Run, Token: e.Token, Session: e.Session, Began: e.AcceptedAt}, request: t.kept(e.Request), marks: map[string]time.Time{}}
	return true
}

// answered marks a run that the owner has decided about.
func (t *traces) answered(a approval.Approval) {
	t.mark(a.Run, "answered")
	if a.State == approval.Granted {
		t.mark(a.Run, "waits")
	}
}

// kept is what is kept of a request.
func (t *traces) kept(request []byte) string {
	if !t.content {
		return ""
	}
	return string(request[:min(len(request), maxTraceContent)])
}

// mark remembers when something happened to a run, the first time that it does.
func (t *traces) mark(runID, what string) { t.markAt(runID, what, time.Now()) }

func (t *traces) markAt(runID, what string, at time.Time) {
	if t.to == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.runs[runID]; r != nil {
		if _, ok := r.marks[what]; !ok {
			r.marks[what] = at
		}
	}
}

// steps is for run.IO of a run that a worker takes: it passes on what also hears.
func (t *traces) steps(e queue.Entry, also func(string, time.Time)) func(string, time.Time) {
	if t.to == nil {
		return also
	}
	if t.known(e) {
		t.markAt(e.Run, "waits", e.AcceptedAt)
	}
	now := time.Now()
	for _, what := range []string{"accepted", "waits", "taken"} { // a worker may be quicker than the one who is about to mark those
		t.markAt(e.Run, what, now)
	}
	return func(step string, at time.Time) {
		also(step, at)
		t.markAt(e.Run, step, at)
	}
}

// lost hands on the trace of a run that was running when its server ended.
func (t *traces) lost(e queue.Entry, kind run.Kind) {
	if t.to == nil {
		return
	}
	if t.known(e) {
		t.markAt(e.Run, "waits", e.AcceptedAt)
	}
	if !e.StartedAt.IsZero() {
		t.markAt(e.Run, "taken", e.StartedAt)
	}
	t.end(e.Run, run.Outcome{Kind: kind, Run: e.Run}, func() *TraceContent { return nil })
}

// forget drops a run whose end another server traces.
func (t *traces) forget(runID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, runID)
}

// end hands on the trace of a run that has ended.
func (t *traces) end(runID string, out run.Outcome, content func() *TraceContent) {
	if t.to == nil {
		return
	}
	t.mu.Lock()
	r := t.runs[runID]
	delete(t.runs, runID)
	t.mu.Unlock()
	if r == nil {
		return
	}
	r.Ended, r.Outcome = time.Now(), out
	r.Phases = phases(r.marks, r.Ended)
	if t.content {
		if r.Content = content(); r.Content != nil {
			r.Content.Request = r.request
		}
	}
	t.to(r.Trace)
}

// boundaries are where phases begin and end, in the order of a run: the first of the marks that there is. The steps are the
// engine's and its driver's; a driver that says nothing between its start and the program's has no boot of its own.
var boundaries = []struct {
	phase    string
	from, to []string
}{
	{"accept", []string{"arrived"}, []string{"accepted"}},
	{"approval", []string{"asked"}, []string{"answered"}},
	{"queue", []string{"waits"}, []string{"taken"}},
	{"image", []string{"decided"}, []string{"image is open"}},
	{"driver start", []string{"driver starts"}, []string{"request sent", "workspace is filled"}},
	{"sandbox boot", []string{"request sent"}, []string{"workspace is filled"}},
	{"program", []string{"workspace is filled"}, []string{"workspace arrives", "sandbox is gone"}},
	{"collect", []string{"workspace arrives"}, []string{"sandbox is gone"}},
	{"record", []string{"sandbox is gone"}, []string{"end is recorded"}},
}

// phases makes phases of marks. One that has begun and whose end nobody marked ended with the run.
func phases(marks map[string]time.Time, ended time.Time) (list []Phase) {
	first := func(names []string) (time.Time, bool) {
		for _, name := range names {
			if at, ok := marks[name]; ok {
				return at, true
			}
		}
		return ended, false
	}
	for _, b := range boundaries {
		began, ok := first(b.from)
		if !ok {
			continue
		}
		end, _ := first(b.to)
		if end.Before(began) { // marks of two goroutines
			began = end
		}
		list = append(list, Phase{b.phase, began, end})
	}
	return list
}

// traceContent reads what Config.TraceContent asks for.
func (s *Server) traceContent(runID string) func() *TraceContent {
	return func() *TraceContent {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		c := &TraceContent{}
		for channel, to := range map[string]*string{"stdout": &c.Stdout, "stderr": &c.Stderr} {
			out, err := record.Output(ctx, s.cfg.DB, s.cfg.Home, runID, channel)
			if err != nil {
				continue // there is none
			}
			text, _ := io.ReadAll(io.LimitReader(out, maxTraceContent)) // as much as can be read
			_ = out.Close()                                             // it was only read
			*to = string(text)
		}
		return c
	}
}

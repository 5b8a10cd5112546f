//go:build unix

package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/mcp"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// begun returns a channel that has an entry for each sandbox that starts.
func begun(s *servetest.Stand) chan string {
	started := make(chan string, 100)
	s.Fake.Started = func(spec driver.Spec) { started <- spec.ID }
	return started
}

func wait[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing for 20 s", what)
	}
	return v
}

// outcome is how a run ended, once it has.
func (s *stand) outcome(run string) string {
	s.Helper()
	for range 200 {
		got := structured[ran](s, s.call("run_status", args{"run": run, "wait_ms": 1000}))
		if got.State == "ended" {
			return got.Outcome
		}
	}
	s.T.Fatalf("run %s does not end", run)
	return ""
}

// TestProgressAndCancel: a client that asks for it hears how a run goes, and ends it by canceling its call.
func TestProgressAndCancel(t *testing.T) {
	each(t, func(s *stand) {
		started := begun(s.Stand)
		ctx, cancel := context.WithCancel(s.T.Context())
		answered := make(chan error, 1)
		p := &sdk.CallToolParams{Name: "run_files", Arguments: fake("print:step 1\\nstep 2\\n", "sleep").with("timeout_ms", 60_000)}
		p.SetProgressToken("mine")
		go func() { _, err := s.client.CallTool(ctx, p); answered <- err }()
		run := wait(s.T, started, "the start")
		last := 0.0
		for {
			n := wait(s.T, s.tell, "progress")
			if n.ProgressToken != "mine" || n.Progress <= last || n.Total < n.Progress {
				s.T.Errorf("progress %+v after %f", n, last)
			}
			last = n.Progress
			if strings.Contains(n.Message, "runs for") && strings.Contains(n.Message, "stdout 14 bytes: step 2") {
				break
			}
		}
		cancel()
		if err := wait(s.T, answered, "the answer"); !errors.Is(err, context.Canceled) {
			s.T.Errorf("the call ends with %v", err)
		}
		if got := s.outcome(run); got != "canceled" {
			s.T.Errorf("the run ends %s", got)
		}
		if n := s.Fake.Running(); n != 0 {
			s.T.Errorf("%d sandboxes are left", n)
		}
	})
}

// TestBackground: a run that goes on while its client does something else.
func TestBackground(t *testing.T) {
	each(t, func(s *stand) {
		started := begun(s.Stand)
		got := s.run(fake("print:so far", "sleep").with("background", true))
		if wait(s.T, started, "the start"); got.State == "ended" || got.Run == "" {
			s.T.Fatalf("answer %+v", got)
		}
		for range 1000 { // until the output has come
			if got = structured[ran](s, s.call("run_status", args{"run": got.Run})); got.Stdout.Text != "" {
				break
			}
		}
		if got.State != "running" || got.Stdout.Text != "so far" {
			s.T.Errorf("status %+v", got)
		}
		if said := text(s.call("read_output", args{"run": got.Run, "channel": "stdout", "offset": 3})); said != "bytes 3 to 6 of 6; the run has not ended\nfar" {
			s.T.Errorf("output %q", said)
		}
		if r := s.call("read_output", args{"run": got.Run, "artifact": "a"}); !r.IsError || !strings.Contains(text(r), "not ended") {
			s.T.Errorf("an artifact before the end: %s", text(r))
		}
		if got = structured[ran](s, s.call("cancel_run", args{"run": got.Run})); got.Outcome != "canceled" || got.Stdout.Text != "so far" {
			s.T.Errorf("canceled: %+v", got)
		}
		if again := structured[ran](s, s.call("cancel_run", args{"run": got.Run})); again.Outcome != "canceled" || again.Stdout.Text != "so far" {
			s.T.Errorf("canceled twice: %+v", again)
		}
		if got = s.run(fake("violate:file.accounts,openat,/etc/passwd").with("background", true)); got.Run == "" || s.outcome(got.Run) != "violated" {
			s.T.Errorf("one that ends soon: %+v", got)
		}
		if got = s.run(fake().with("background", true).with("memory_bytes", 64<<30)); got.Outcome != "denied" {
			s.T.Errorf("a refused one: %+v", got)
		}
	})
}

// TestClientGone: with the client its runs end, those in the background too.
func TestClientGone(t *testing.T) {
	for name, open := range engines {
		t.Run(name, func(t *testing.T) {
			engine, stand := open(t)
			started := begun(stand)
			r := newRaw(t, engine, mcp.Config{})
			call := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_files","arguments":{"profile":"test","files":[{"path":"a","text":""}],"command":["fake","sleep"],"background":%t}}}`
			r.send(fmt.Sprintf(call, 1, true))
			r.answer()
			r.send(fmt.Sprintf(call, 2, false))
			wait(t, started, "the first start")
			wait(t, started, "the second start")
			r.in.Close()
			err := wait(t, r.ended, "the end of the server")
			if r.ended <- err; err != nil {
				t.Errorf("the server says %v", err)
			}
			runs, err := engine.Runs(t.Context(), 10)
			if err != nil || len(runs) != 2 || stand.Fake.Running() != 0 {
				t.Fatalf("%d runs, %d sandboxes, %v", len(runs), stand.Fake.Running(), err)
			}
			for _, r := range runs {
				if r.Outcome == nil || r.Outcome.Kind != "canceled" {
					t.Errorf("run %+v", r)
				}
			}
		})
	}
}

// TestClose ends what runs, waits for it, and starts nothing more.
func TestClose(t *testing.T) {
	testenv.NoLeaks(t)
	engine, stand := localEngine(t)
	s := connectPlain(t, engine, stand)
	started := begun(stand)
	got := s.run(fake("sleep").with("background", true))
	wait(t, started, "the start")
	s.server.Close()
	if n := stand.Fake.Running(); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
	if r, err := engine.Look(t.Context(), got.Run); err != nil || r.Outcome == nil || r.Outcome.Kind != "canceled" {
		t.Errorf("the run: %+v, %v", r, err)
	}
	if r := s.call("run_files", fake("print:x")); !r.IsError {
		t.Errorf("after the end: %s", text(r))
	}
}

// TestManyAtOnce: fifty calls run two at a time, and all of them run.
func TestManyAtOnce(t *testing.T) {
	engine, stand := localEngine(t)
	var at, most atomic.Int64
	stand.Fake.Started = func(driver.Spec) {
		if n := at.Add(1); n > most.Load() {
			most.Store(n)
		}
	}
	s := connect(t, &counting{engine, &at}, stand, mcp.Config{Running: 2})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			got := structured[ran](s, s.call("run_files", fake(fmt.Sprintf("print:%d", i))))
			if got.Outcome != "ok" || got.Stdout.Text != fmt.Sprint(i) {
				t.Errorf("call %d: %+v", i, got)
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > 2 || n == 0 {
		t.Errorf("%d ran at once", n)
	}
}

// counting counts runs that have ended.
type counting struct {
	mcp.Engine

	at *atomic.Int64
}

func (e *counting) Run(ctx context.Context, req api.RunRequest, on func(api.Frame, []byte)) (api.Outcome, error) {
	out, err := e.Engine.Run(ctx, req, on)
	e.at.Add(-1)
	return out, err
}

// TestTooMany: what would wait behind too many others is refused at once, and told so; one that waits can be canceled.
func TestTooMany(t *testing.T) {
	engine, stand := localEngine(t)
	r := newRaw(t, engine, mcp.Config{Running: 1, Waiting: 1})
	started := begun(stand)
	call := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_files","arguments":{"profile":"test","files":[{"path":"a","text":""}],"command":["fake",%q],"background":%t},"_meta":{"progressToken":%d}}}`
	r.send(fmt.Sprintf(call, 1, "sleep", true, 1))
	first := r.ran()
	wait(t, started, "the start")
	r.send(fmt.Sprintf(call, 2, "print:second", false, 2))
	if line := r.line(); !strings.Contains(line, `"message":"waits"`) {
		t.Errorf("progress %s", line)
	}
	for i, background := range []bool{true, false} {
		r.send(fmt.Sprintf(call, 3+i, "print:third", background, 3))
		if a := r.answer(); !strings.Contains(string(a.Result), "too many") {
			t.Errorf("the third, in the background %t: %s", background, a.Result)
		}
	}
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	r.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"cancel_run","arguments":{"run":"` + first.Run + `"}}}`)
	r.answer()
	r.send(fmt.Sprintf(call, 6, "print:fourth", false, 6))
	if got := r.ran(); got.Outcome != "ok" {
		t.Errorf("the fourth: %+v", got)
	}
	if list, err := engine.Runs(t.Context(), 10); err != nil || len(list) != 2 {
		t.Errorf("%d runs, %v; want the first and the fourth", len(list), err)
	}
}

// broken is an engine with a bug.
type broken struct{ mcp.Engine }

func (broken) Look(context.Context, string) (api.Run, error) { panic("a bug") }

func (broken) Profiles(context.Context) ([]api.Profile, error) {
	return nil, errors.New("the disk is on fire")
}

// TestBug: one call's bug is one call's error.
func TestBug(t *testing.T) {
	engine, stand := localEngine(t)
	s := connect(t, broken{engine}, stand, mcp.Config{})
	if _, err := s.client.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_status", Arguments: args{"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}); err == nil || !strings.Contains(err.Error(), "bug") {
		t.Errorf("a panic: %v", err)
	}
	if r := s.call("list_profiles", args{}); !r.IsError || !strings.Contains(text(r), "on fire") {
		t.Errorf("an error: %s", text(r))
	}
	if got := s.run(fake("print:still here")); got.Outcome != "ok" {
		t.Errorf("after them: %+v", got)
	}
}

// raw is a client that writes lines of its own.
type raw struct {
	t     *testing.T
	in    io.WriteCloser
	out   *bufio.Reader
	ended chan error
}

func newRaw(t *testing.T, engine mcp.Engine, cfg mcp.Config) *raw {
	t.Helper()
	r := newUninitialized(t, engine, cfg)
	r.initialize()
	return r
}

func (r *raw) initialize() {
	r.t.Helper()
	r.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	r.answer()
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func newUninitialized(t *testing.T, engine mcp.Engine, cfg mcp.Config) *raw {
	t.Helper()
	cfg.Engine, cfg.Logger = engine, slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := mcp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &raw{t, inW, bufio.NewReaderSize(outR, 1<<20), make(chan error, 1)}
	go func() {
		err := server.Run(context.WithoutCancel(t.Context()), mcp.NewLines(inR, outW))
		server.Close()
		r.ended <- err
		outW.Close()
	}()
	t.Cleanup(func() {
		go io.Copy(io.Discard, outR) // what it has still to say
		inW.Close()
		wait(t, r.ended, "the end")
		r.ended <- nil
	})
	return r
}

func (r *raw) send(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// reply is an answer.
type reply struct {
	ID     any
	Result json.RawMessage
	Error  *struct{ Message string }
}

// line is the next line of the server.
func (r *raw) line() string {
	r.t.Helper()
	line, err := r.out.ReadString('\n')
	if err != nil {
		r.t.Fatalf("read: %v", err)
	}
	return line
}

// answer is the next line that is an answer.
func (r *raw) answer() (a reply) {
	r.t.Helper()
	for a.ID == nil {
		line := r.line()
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			r.t.Fatalf("%s: %v", line, err)
		}
	}
	return a
}

// ran is the next answer, to a run.
func (r *raw) ran() ran {
	r.t.Helper()
	a := r.answer()
	var out struct {
		StructuredContent ran `json:"structuredContent"`
	}
	if err := json.Unmarshal(a.Result, &out); err != nil {
		r.t.Fatalf("%s %v: %v", a.Result, a.Error, err)
	}
	return out.StructuredContent
}

// TestHostileLines: bytes that are not UTF-8, deep nesting and nonsense neither end the server nor start anything.
func TestHostileLines(t *testing.T) {
	engine, stand := localEngine(t)
	r := newRaw(t, engine, mcp.Config{})
	call := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_files","arguments":%s}}`
	files := `{"profile":"test","files":[{"path":"a.txt","text":"%s"}],"command":["fake","print:%s","read:a.txt"]}`
	r.send(fmt.Sprintf(call, 1, fmt.Sprintf(files, "\xff\xfe", "x")))
	if a := r.answer(); a.Error == nil && !strings.Contains(string(a.Result), "\ufffd") && !strings.Contains(string(a.Result), "isError") {
		t.Errorf("bytes that are not UTF-8: %s", a.Result)
	}
	r.send(fmt.Sprintf(call, 2, strings.Repeat("[", 900)+strings.Repeat("]", 900)))
	if a := r.answer(); a.Error == nil && !strings.Contains(string(a.Result), "isError") {
		t.Errorf("deep nesting: %.200s", a.Result)
	}
	r.send(fmt.Sprintf(call, 3, `{"profile":"test","files":[{"path":"\ud800","text":"x"}],"command":["fake","tree"]}`))
	r.answer() // half a surrogate pair is U+FFFD or refused
	r.send(fmt.Sprintf(call, 4, fmt.Sprintf(files, `\u0000\u202e`, `\\u001b[31mred\\u0007`)))
	if a := r.answer(); !strings.Contains(string(a.Result), `"outcome":"ok"`) || strings.Contains(string(a.Result), `\u001b`) || !strings.Contains(string(a.Result), "U+202E") {
		t.Errorf("control characters: %s %v", a.Result, a.Error)
	}
	r.send(`{"jsonrpc":"2.0","id":5,"method":"no/such"}`)
	if a := r.answer(); a.Error == nil {
		t.Error("an unknown method is taken")
	}
	r.send(fmt.Sprintf(call, 6, fmt.Sprintf(files, "x", "still here")))
	if a := r.answer(); !strings.Contains(string(a.Result), "still here") {
		t.Errorf("after it: %s %v", a.Result, a.Error)
	}
	if n := stand.Fake.Running(); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
}

// TestMessageWithoutEnd: one that is longer than the SDK reads ends the session that it is in, what runs in it, and nothing else.
func TestMessageWithoutEnd(t *testing.T) {
	engine, stand := localEngine(t)
	r := newRaw(t, engine, mcp.Config{})
	started := begun(stand)
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_files","arguments":{"profile":"test","files":[{"path":"a","text":""}],"command":["fake","sleep"]}}}`)
	wait(t, started, "the start")
	go io.Copy(io.Discard, r.out)
	go func() { // the server may stop reading in the middle
		_, _ = io.WriteString(r.in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"sh","code":"`+strings.Repeat("x", 17<<20)+`"}}}`+"\n")
	}()
	err := wait(t, r.ended, "the end of the session")
	r.ended <- err
	if n := stand.Fake.Running(); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
}

// TestWhatIsNoMessage: a line that is none is answered, and the session goes on.
func TestWhatIsNoMessage(t *testing.T) {
	engine, _ := localEngine(t)
	r := newRaw(t, engine, mcp.Config{})
	for _, test := range []struct{ line, want string }{
		{"garbage", `"code":-32700`}, {`{"id":1,"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", `"code":-32700`}, {`{"jsonrpc":`, `"code":-32700`}, {"42", `"code":-32600`}, {"", ""}, {"  \t", ""},
	} {
		r.send(test.line)
		if test.want == "" {
			continue
		}
		line, err := r.out.ReadString('\n')
		if err != nil || !strings.Contains(line, test.want) || !strings.Contains(line, `"id":null`) {
			t.Errorf("%q is answered with %q, %v, want %s", test.line, line, err, test.want)
		}
	}
	r.send(`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`)
	if line, err := r.out.ReadString('\n'); err != nil || !strings.Contains(line, `"id":5`) {
		t.Errorf("after that: %q, %v", line, err)
	}
}

package serve_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// pair is two servers, A and B, with homes of their own, that share a database.
type pair struct {
	a, b *servetest.Stand

	mu   sync.Mutex
	dead map[string]bool
}

func newPair(t *testing.T, idleA bool) *pair {
	t.Helper()
	p := &pair{dead: map[string]bool{}}
	cfg := queue.Config{Own: true, Alive: func(id string) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.dead[id]
	}}
	p.a = servetest.New(t, servetest.Config{Server: "A", Queue: cfg, Idle: idleA})
	p.b = servetest.New(t, servetest.Config{Server: "B", Queue: cfg, Store: p.a.Home})
	return p
}

func (p *pair) die(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead[id] = true
}

// waitEnded waits until a server says that a run has ended.
func waitEnded(t *testing.T, s *servetest.Stand, run string) api.Run {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		r, err := s.Server.Run(t.Context(), servetest.Owner, run)
		if err != nil {
			t.Fatal(err)
		}
		if r.State == api.StateEnded {
			return r
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("run %s is still %s", run, r.State)
		}
	}
}

// Each server runs what it has accepted; the other one sees it, cancels it and decides about it, and says where the rest is.
func TestTwoServers(t *testing.T) {
	p := newPair(t, false)
	const long = 2 * record.InlineBytes
	r := submit(t, p.a, servetest.Runner, program("print:up\\n", "write:made=x", "sleep"))
	waitRunning(t, p.a, r.ID)
	_, err := p.b.Server.Stream(t.Context(), servetest.Runner, r.ID, broker.Cursor{})
	_, input := p.b.Server.Input(t.Context(), servetest.Runner, r.ID, api.Input{Data: "x"})
	_, follow := p.b.Server.Follow(t.Context(), servetest.Runner, r.ID, broker.Cursor{}, "key")
	resize := p.b.Server.Resize(t.Context(), servetest.Runner, r.ID, api.Size{Columns: 1, Rows: 1})
	for what, err := range map[string]error{"stream": err, "input": input, "follow": follow, "resize": resize} {
		if !errors.Is(err, serve.ErrElsewhere) {
			t.Errorf("%s at the other server: %v", what, err)
		}
	}
	if err := p.b.Server.Cancel(t.Context(), servetest.Runner, r.ID); err != nil {
		t.Fatal(err)
	}
	if out := end(t, p.a, r.ID); out.Kind != "canceled" {
		t.Errorf("canceled at the other server, it ends as %s", out.Kind)
	}

	r = submit(t, p.a, servetest.Runner, program(fmt.Sprint("flood:", long), "write:made=x"))
	end(t, p.a, r.ID)
	if got := waitEnded(t, p.b, r.ID); got.Outcome == nil || got.Outcome.Kind != "ok" || got.Outcome.Stdout.Bytes != long {
		t.Errorf("the other server knows of it %+v", got.Outcome)
	}
	if _, err := p.b.Server.Output(t.Context(), servetest.Runner, r.ID, "stdout"); !errors.Is(err, serve.ErrElsewhere) {
		t.Errorf("its output there: %v", err)
	}
	if got := output(t, p.b, r.ID, "stderr"); got != "" {
		t.Errorf("stderr there: %q", got)
	}
	if _, _, err := p.b.Server.Artifact(t.Context(), servetest.Runner, r.ID, "made"); !errors.Is(err, serve.ErrElsewhere) {
		t.Errorf("its artifact there: %v", err)
	}
	if got := output(t, p.a, r.ID, "stdout"); len(got) != long {
		t.Errorf("output %d bytes", len(got))
	}

	// The owner answers at the other server: a grant is carried out here, a denial is heard of here.
	granted, denied := submit(t, p.a, servetest.Runner, wide("print:x")), submit(t, p.a, servetest.Runner, wide("print:y"))
	for r, grant := range map[*api.Run]bool{&granted: true, &denied: false} {
		if _, err := p.b.Server.Decide(t.Context(), servetest.Owner, r.ID, api.DecisionRequest{Hash: r.Hash, Grant: grant}); err != nil {
			t.Fatal(err)
		}
	}
	if out := end(t, p.a, granted.ID); out.Kind != "ok" {
		t.Errorf("granted at the other server, it ends as %s", out.Kind)
	}
	if out := end(t, p.a, denied.ID); out.Kind != "denied" {
		t.Errorf("denied at the other server, it ends as %s", out.Kind)
	}
	if report, err := audit.Verify(t.Context(), p.b.DB); err != nil || report.Seq < 8 {
		t.Errorf("the trail has %d events, %v", report.Seq, err)
	}
}

// A server that starts, or looks at the table, leaves alone what the other one runs; once that is dead it ends what ran there,
// and runs what waited there.
func TestServerDies(t *testing.T) {
	p := newPair(t, false)
	running := submit(t, p.a, servetest.Runner, program("print:up\\n", "sleep"))
	waitRunning(t, p.a, running.ID)
	waiting := submit(t, p.a, servetest.Runner, wide("print:x"))
	if err := p.b.Server.Recover(t.Context()); err != nil { // as when it starts
		t.Fatal(err)
	}
	for _, r := range []api.Run{running, waiting} {
		if got, err := p.b.Server.Run(t.Context(), servetest.Owner, r.ID); err != nil || got.State == api.StateEnded {
			t.Fatalf("the other server ended it: %+v, %v", got, err)
		}
	}
	if entry, err := p.b.Server.Record(t.Context(), servetest.Owner, running.ID); err != nil || entry.Record.Outcome.Kind != "" {
		t.Fatalf("its record has an end: %+v, %v", entry.Record.Outcome, err)
	}

	p.die("A") // it is cut off, and goes on
	if got := waitEnded(t, p.b, running.ID); got.Outcome == nil || got.Outcome.Kind != "error" || !strings.Contains(got.Outcome.Message, "restarted") {
		t.Errorf("what ran there ended as %+v", got.Outcome)
	}
	if out := end(t, p.a, running.ID); out.Kind != "error" {
		t.Errorf("its viewers there hear of %+v", out)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for { // it has a stream at B once B has taken it over
		if _, err := p.b.Server.Stream(t.Context(), servetest.Runner, waiting.ID, broker.Cursor{}); err == nil {
			break
		} else if !errors.Is(err, serve.ErrElsewhere) && !errors.Is(err, broker.ErrUnknownRun) {
			t.Fatal(err)
		}
		<-tick.C
	}
	if _, err := p.b.Server.Decide(t.Context(), servetest.Owner, waiting.ID, api.DecisionRequest{Hash: waiting.Hash, Grant: true}); err != nil {
		t.Fatal(err)
	}
	if out := end(t, p.b, waiting.ID); out.Kind != "ok" {
		t.Errorf("what waited there ended as %s", out.Kind)
	}
	if report, err := audit.Verify(t.Context(), p.b.DB); err != nil {
		t.Errorf("the trail has %d events, %v", report.Seq, err)
	}
	// What it still runs is ended by its owner; the record keeps its end.
	p.a.Close()
	if entry, err := p.b.Server.Record(t.Context(), servetest.Owner, running.ID); err != nil || entry.Record.Outcome.Kind != "error" {
		t.Errorf("in the end its record says %+v, %v", entry.Record.Outcome, err)
	}
}

// waitRunning waits until a run has printed up.
func waitRunning(t *testing.T, s *servetest.Stand, run string) {
	t.Helper()
	v, err := s.Server.Stream(t.Context(), servetest.Owner, run, broker.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		text, err := v.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"output"`) {
			return
		}
	}
}

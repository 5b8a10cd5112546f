//go:build unix

package telemetry_test

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
	"github.com/silk-sandbox/silk/telemetry"
)

// hidden is in everything that a run has and prints.
const hidden = "h1dd3n-c0ntent"

func request(ops ...string) api.RunRequest {
	stdin, text := hidden, hidden
	return api.RunRequest{
		Profile: servetest.Profile, Args: append([]string{"fake", "print:" + hidden, "eprint:" + hidden, "cat", "write:" + hidden + ".txt=" + hidden}, ops...),
		Env: []string{"A=" + hidden}, Stdin: &stdin, Files: []api.File{{Path: hidden + ".in", Text: &text}},
	}
}

// TestRuns: runs of a whole service, each with the phases that it had, and nothing of what was run.
func TestRuns(t *testing.T) {
	for _, content := range []bool{false, true} {
		c := collect(t)
		e, count := start(t, telemetry.Config{Endpoint: c.url})
		s := servetest.New(t, servetest.Config{Serve: serve.Config{Traces: e.Run, TraceContent: content}})
		ctx := serve.WithTraceparent(t.Context(), "00-"+traceID+"-"+spanID+"-01", "")
		submit := func(in api.RunRequest) string {
			r, _, err := s.Server.Submit(ctx, servetest.Runner, in, "")
			if err != nil {
				t.Fatal(err)
			}
			return r.ID
		}
		started := []string{"accept", "queue", "image", "driver start", "program", "collect", "record"}
		want := map[string]struct {
			outcome, rule string
			phases        []string
		}{
			submit(request()): {"ok", "", started},
			submit(request("violate:file.accounts,openat," + hidden)): {"violated", "file.accounts", started},
		}
		wide := request("exit:3")
		wide.Limits.TimeoutMs = 2 * time.Hour.Milliseconds()
		approved := submit(wide)
		wide.Env = append(wide.Env, "B=2")
		denied := submit(wide)
		for run, grant := range map[string]bool{approved: true, denied: false} {
			a, err := s.Server.Approval(t.Context(), servetest.Owner, run)
			if err != nil {
				t.Fatal(err)
			}
			d := api.DecisionRequest{Grant: grant, Hash: a.Hash, Reason: hidden}
			if _, err := s.Server.Decide(t.Context(), servetest.Owner, run, d); err != nil {
				t.Fatal(err)
			}
		}
		want[approved] = struct {
			outcome, rule string
			phases        []string
		}{"failed", "", append([]string{"approval"}, started...)}
		want[denied] = struct {
			outcome, rule string
			phases        []string
		}{"denied", "approval", []string{"accept", "approval"}}
		refused := request()
		refused.Network = "allowlist" // which nobody can approve
		refused.Hosts, refused.Isolation = []string{hidden + ":1"}, "microvm"
		if _, _, err := s.Server.Submit(ctx, servetest.Runner, refused, ""); err == nil {
			t.Error("a request that policy refuses is accepted")
		}
		roots, below := c.roots(len(want) + 1)
		for _, root := range roots {
			a := attributes(root)
			w, ok := want[a["silk.run"].(string)]
			if !ok { // the one that policy refused
				w.outcome, w.rule, w.phases = "denied", a["silk.rule"].(string), []string{"accept"}
			}
			if rule, _ := a["silk.rule"].(string); a["silk.outcome"] != w.outcome || rule != w.rule || a["gen_ai.tool.name"] != servetest.Profile {
				t.Errorf("attributes %v, want %+v", a, w)
			}
			if hex.EncodeToString(root.TraceId) != traceID || hex.EncodeToString(root.ParentSpanId) != spanID {
				t.Errorf("trace %x below %x", root.TraceId, root.ParentSpanId)
			}
			if now := uint64(time.Now().UnixNano()); root.StartTimeUnixNano < now-uint64(time.Minute) || root.EndTimeUnixNano < root.StartTimeUnixNano || root.EndTimeUnixNano > now {
				t.Errorf("from %d to %d", root.StartTimeUnixNano, root.EndTimeUnixNano)
			}
			phases := below[string(root.SpanId)]
			for _, name := range w.phases {
				p := phases[name]
				if p == nil {
					t.Errorf("%s has no phase %s: %v", w.outcome, name, phases)
				} else if p.StartTimeUnixNano < root.StartTimeUnixNano || p.EndTimeUnixNano > root.EndTimeUnixNano {
					t.Errorf("phase %s is not within its run", name)
				}
				delete(phases, name)
			}
			if len(phases) != 0 {
				t.Errorf("%s also has phases %v", w.outcome, phases)
			}
			if content && ok && w.outcome == "ok" && (a["gen_ai.tool.call.result"] != hidden+hidden || !strings.Contains(a["gen_ai.tool.call.arguments"].(string), `"env":["A=`+hidden) || a["silk.stderr"] != hidden) {
				t.Errorf("content %v", a)
			}
		}
		closeNow(t, e, 10*time.Second)
		if found := bytes.Contains(c.bytes, []byte(hidden)); found != content {
			t.Errorf("content %t: what was run is in what was sent: %t", content, found)
		}
		if count("sent") != float64(len(want)+1) {
			t.Errorf("sent %v", count("sent"))
		}
	}
}

// TestLost: a run that was running when its server ended is told of by the next one.
func TestLost(t *testing.T) {
	c := collect(t)
	e, _ := start(t, telemetry.Config{Endpoint: c.url})
	first := servetest.New(t, servetest.Config{Idle: true})
	r, _, err := first.Server.Submit(t.Context(), servetest.Runner, request(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.DB.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE requests SET state = 'running', worker = 'w', started_at = accepted_at + 1 WHERE run = ?", r.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	first.Close()
	servetest.New(t, servetest.Config{Home: first.Home, Stream: first.Stream, Idle: true, Serve: serve.Config{Traces: e.Run}})
	roots, below := c.roots(1)
	if a := attributes(roots[0]); a["silk.run"] != r.ID || a["silk.outcome"] != "error" || below[string(roots[0].SpanId)]["queue"] == nil {
		t.Errorf("attributes %v, phases %v", a, below)
	}
	closeNow(t, e, 10*time.Second)
}

// TestWaits: what waited while the server was started again begins with its acceptance, and what ends while it waits has no more.
func TestWaits(t *testing.T) {
	c := collect(t)
	e, _ := start(t, telemetry.Config{Endpoint: c.url})
	first := servetest.New(t, servetest.Config{Idle: true, Serve: serve.Config{Traces: e.Run}})
	var ids []string
	for range 2 {
		r, _, err := first.Server.Submit(t.Context(), servetest.Runner, request(), "")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	first.Close()
	s := servetest.New(t, servetest.Config{Home: first.Home, Stream: first.Stream, Idle: true, Serve: serve.Config{Traces: e.Run}})
	if err := s.Server.Cancel(t.Context(), servetest.Runner, ids[0]); err != nil {
		t.Fatal(err)
	}
	s.Work()
	roots, below := c.roots(2)
	for _, root := range roots {
		a, phases := attributes(root), below[string(root.SpanId)]
		queue := phases["queue"]
		if queue == nil || queue.StartTimeUnixNano != root.StartTimeUnixNano {
			t.Errorf("%v has waited %v", a, queue)
		}
		if wanted := map[any]int{ids[0]: 1, ids[1]: 6}[a["silk.run"]]; len(phases) != wanted {
			t.Errorf("%v has phases %v", a["silk.outcome"], phases)
		}
	}
	closeNow(t, e, 10*time.Second)
}

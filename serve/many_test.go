//go:build unix

package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// sessionOf makes a session, and says how to ask for a run in it.
func sessionOf(t *testing.T, s *servetest.Stand) (session string, ask func(ops ...string) string) {
	t.Helper()
	made, err := s.Server.NewSession(t.Context(), servetest.Runner, api.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID, func(ops ...string) string {
		t.Helper()
		in := program(ops...)
		in.Session = made.ID
		return submit(t, s, servetest.Runner, in).ID
	}
}

// nextOf reads one frame, or is not ok if there is none for a moment.
func nextOf(t *testing.T, v *serve.SessionStream, patience time.Duration) (f api.Frame, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := v.Next(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return f, false
	}
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f, true
}

// ended waits for the end of a run of which the broker keeps nothing.
func ended(t *testing.T, s *servetest.Stand, run string) {
	t.Helper()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(long)
	for {
		r, err := s.Server.Run(t.Context(), servetest.Runner, run)
		if err != nil {
			t.Fatal(err)
		}
		if r.State == api.StateEnded {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("run %s does not end: %+v", run, r)
		}
	}
}

const long = 20 * time.Second

// TestSessionResumes: what runs at the cut goes on from where it was, what came meanwhile comes from its begin, ended or not,
// also from a record; what has ended before does not come again; bytes that are gone are a gap.
func TestSessionResumes(t *testing.T) {
	s := servetest.New(t, servetest.Config{Broker: broker.Config{Keep: -1}, Queue: queue.Config{Running: 8, TokenRunning: 8}}) // what has ended is in its record only
	session, ask := sessionOf(t, s)
	before := ask("print:before")
	ended(t, s, before)
	running := ask("print:0123456789", "sleep")
	large := ask("flood:12000000") // of which the record has 10 MiB
	ended(t, s, large)
	done := ask("print:abcdef", "eprint:xyz")
	ended(t, s, done)
	living := ask("print:living", "sleep")
	other := submit(t, s, servetest.Runner, program("print:of no session"))
	ended(t, s, other.ID)
	beyond := ask("print:12345")
	ended(t, s, beyond)

	v, err := s.Server.SessionStream(t.Context(), servetest.Runner, session, &serve.Resume{After: running, At: map[string]broker.Cursor{
		running: {Stdout: 4}, done: {Stdout: 2, Stderr: 3}, beyond: {Stdout: 100}, other.ID: {},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	late := ask("print:late")
	type got struct {
		text         string
		hellos, gaps int
		lost         int64
		end          bool
	}
	runs := map[string]*got{}
	for _, run := range []string{before, running, large, done, living, other.ID, beyond, late} {
		runs[run] = &got{}
	}
	for !runs[large].end || !runs[done].end || !runs[beyond].end || !runs[late].end || runs[running].text == "" || runs[living].text == "" {
		f, ok := nextOf(t, v, long)
		if !ok {
			t.Fatalf("nothing more comes: %+v", runs)
		}
		r := runs[f.Run]
		switch f.Type {
		case api.FrameHello:
			r.hellos++
		case api.FrameOutput:
			if f.Run != large {
				r.text += f.Data
			}
		case api.FrameGap:
			r.gaps++
			r.lost += *f.To - *f.From
		case api.FrameExit:
			r.end = true
		}
	}
	runs[beyond].text = "" // as long as the broker has it, its tail comes: less than the viewer has
	for run, want := range map[string]got{
		running: {"456789", 1, 0, 0, false}, living: {"living", 1, 0, 0, false}, done: {"cdef", 1, 0, 0, true}, beyond: {"", 1, 0, 0, true},
		late: {"late", 1, 0, 0, true}, other.ID: {}, large: {"", 1, 1, 12_000_000 - 10<<20, true},
	} {
		if *runs[run] != want {
			t.Errorf("%s: got %+v, want %+v", run, *runs[run], want)
		}
	}
	for _, run := range []string{running, living} {
		if err := s.Server.Cancel(t.Context(), servetest.Runner, run); err != nil {
			t.Error(err)
		}
	}
	// Much later nothing of that comes again, but for what the viewer says it has not got.
	after := ulid.MustNew(ulid.Timestamp(time.Now().Add(time.Minute)), ulid.DefaultEntropy()).String()
	again, err := s.Server.SessionStream(t.Context(), servetest.Runner, session, &serve.Resume{After: after, At: map[string]broker.Cursor{done: {Stdout: 6, Stderr: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for range 3 { // hello, z, exit
		if f, ok := nextOf(t, again, long); !ok || f.Run != done || f.Type == api.FrameOutput && f.Data != "z" {
			t.Errorf("much later comes %+v, %t", f, ok)
		}
	}
}

// TestSessionOfManyRuns: more runs than one viewer has at once wait for room, and none is forgotten.
func TestSessionOfManyRuns(t *testing.T) {
	const runs = 300
	s := servetest.New(t, servetest.Config{Idle: true, Queue: queue.Config{Queued: 2 * runs, TokenQueued: 2 * runs}})
	session, ask := sessionOf(t, s)
	v, err := s.Server.SessionStream(t.Context(), servetest.Runner, session, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for i := range runs {
		ask(fmt.Sprintf("print:%d", i))
	}
	s.Work()
	ends := map[string]bool{}
	for len(ends) < runs {
		f, ok := nextOf(t, v, long)
		if !ok {
			t.Fatalf("nothing more comes after %d ends", len(ends))
		}
		if f.Type == api.FrameExit {
			if ends[f.Run] {
				t.Errorf("%s ends twice", f.Run)
			}
			ends[f.Run] = true
		}
	}
}

//go:build unix

package serve_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// TestEndIsWrittenLater: while somebody else holds the database, or the disk is full, a run's end cannot be written. Its viewers
// hear of it, and its record gets an end with its output when there is room again, without a restart.
func TestEndIsWrittenLater(t *testing.T) {
	for _, last := range []string{"exit:0", "exit:3", "violate:file.accounts,openat,/etc/shadow"} {
		t.Run(last, func(t *testing.T) { t.Parallel(); endIsWrittenLater(t, last) })
	}
}

func endIsWrittenLater(t *testing.T, last string) {
	s := servetest.New(t, servetest.Config{})
	started, held := make(chan struct{}), make(chan struct{})
	s.Fake.Started = func(driver.Spec) { close(started); <-held }
	r := submit(t, s, servetest.Runner, program("print:kept\\n", last))
	<-started
	other, err := storetest.Open(t.Context(), filepath.Join(s.Home, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	close(held)
	if out := end(t, s, r.ID); out.Kind != "error" || out.Reason != "host" || out.Rule != "" || out.ExitCode != nil || strings.Contains(out.Message, s.Home) {
		t.Errorf("viewers hear of %+v", out)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		got, err := s.Server.Run(t.Context(), servetest.Runner, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.State == api.StateEnded {
			if got.Outcome.Kind != "error" {
				t.Errorf("outcome %+v", got.Outcome)
			}
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("still %s", got.State)
		}
	}
	if got := output(t, s, r.ID, "stdout"); got != "kept\n" {
		t.Errorf("output %q", got)
	}
}

// TestOneEnd: a run that is canceled, denied and out of time at once ends once.
func TestOneEnd(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	for range 10 {
		r := submit(t, s, servetest.Runner, wide("print:x"))
		done := make(chan error)
		go func() { done <- s.Server.Cancel(t.Context(), servetest.Runner, r.ID) }()
		go func() {
			_, err := s.Server.Decide(t.Context(), servetest.Owner, r.ID, api.DecisionRequest{Hash: r.Hash})
			done <- err
		}()
		<-done // one of them may be refused: it was too late
		<-done
		end(t, s, r.ID)
		var ends int
		if err := s.DB.QueryRowContext(t.Context(), "SELECT count(*) FROM audit_events WHERE intent_id = ? AND event LIKE 'sandbox_%'", r.ID).Scan(&ends); err != nil || ends != 1 {
			t.Errorf("%d ends, %v", ends, err)
		}
	}
}

// TestAnnouncedLate: a run that is over before its acceptance is announced is accepted all the same, and stays over.
func TestAnnouncedLate(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	r := submit(t, s, servetest.Runner, program("print:x"))
	end(t, s, r.ID)
	e, err := s.Queue.Get(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Server.Announce(e); err != nil {
		t.Error(err)
	}
	if out := end(t, s, r.ID); out.Kind != "ok" {
		t.Errorf("outcome %+v", out)
	}
}

// TestTracesEnd: each run that was accepted is handed on once, what was not is forgotten, and nothing is left.
func TestTracesEnd(t *testing.T) {
	traces := make(chan serve.Trace, 10)
	s := servetest.New(t, servetest.Config{Serve: serve.Config{Traces: func(t serve.Trace) { traces <- t }}})
	var first api.Run
	for i := range 3 {
		r, existed, err := s.Server.Submit(t.Context(), servetest.Runner, program("print:x"), "key")
		if err != nil || existed != (i > 0) {
			t.Fatalf("existed %t, %v", existed, err)
		}
		if first = r; i == 0 {
			end(t, s, r.ID)
		}
	}
	if _, _, err := s.Server.Submit(t.Context(), servetest.Runner, program("print:y"), "key"); err == nil {
		t.Error("the key is taken for another request")
	}
	if got := <-traces; got.Run != first.ID || got.Token != servetest.Runner.Token || got.Ended.Before(got.Began) {
		t.Errorf("trace %+v", got)
	}
	if n := s.Server.Tracing(); n != 0 || len(traces) != 0 {
		t.Errorf("%d are left, and %d more came", n, len(traces))
	}
}

package serve_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// TestOwnerLists has runs of every kind: some that wait, one that has ended, one of the command line, which was never asked for here.
func TestOwnerLists(t *testing.T) {
	first := servetest.New(t, servetest.Config{})
	ended := submit(t, first, servetest.Other, program("print:x")).ID
	end(t, first, ended)
	local := "7ZZZZZZZZZ0000000000000000" // newer than all that come for a while
	r := record.Record{Run: local, Client: "cli", Profile: servetest.Profile, StartedAtMs: time.Now().UnixMilli(), Outcome: record.Outcome{Kind: "failed"}}
	sealed, err := record.Seal(record.Entry{Record: r}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.DB.Update(t.Context(), func(tx *sql.Tx) error { return record.Finish(t.Context(), tx, sealed) }); err != nil {
		t.Fatal(err)
	}
	s := servetest.New(t, servetest.Config{Store: first.Home, Server: "x", Idle: true})
	waits := submit(t, s, servetest.Runner, program("print:x")).ID
	for _, test := range []struct {
		id     auth.Identity
		filter serve.Filter
		want   []string
	}{
		{servetest.Owner, serve.Filter{}, []string{local, waits, ended}},
		{servetest.Owner, serve.Filter{State: api.StateQueued}, []string{waits}},
		{servetest.Owner, serve.Filter{State: api.StateEnded}, []string{local, ended}},
		{servetest.Owner, serve.Filter{State: api.StateRunning}, nil},
		{servetest.Owner, serve.Filter{Outcome: "failed"}, []string{local}},
		{servetest.Owner, serve.Filter{Profile: servetest.Profile}, []string{local, ended}},
		{servetest.Runner, serve.Filter{}, []string{waits}},
		{servetest.Other, serve.Filter{State: api.StateEnded}, []string{ended}},
		{servetest.Other, serve.Filter{State: api.StateQueued}, nil},
	} {
		for _, limit := range []int{1, 2, 50} {
			var got []string
			f := test.filter
			for f.Limit = limit; ; {
				page, err := s.Server.Runs(t.Context(), test.id, f)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Items {
					got = append(got, r.ID)
				}
				if f.Cursor = page.Next; f.Cursor == "" {
					break
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%s with %+v in pages of %d: %s, want %s", test.id.Name, test.filter, limit, strings.Join(got, " "), strings.Join(test.want, " "))
			}
		}
	}
}

// TestListOfOneMoment lists a run again and again while it starts and ends: it is always there, and once.
func TestListOfOneMoment(t *testing.T) {
	s := servetest.New(t, servetest.Config{Queue: queue.Config{Running: 2}})
	for range 100 {
		r := submit(t, s, servetest.Runner, program("print:x"))
		for ended := false; !ended; {
			page, err := s.Server.Runs(t.Context(), servetest.Owner, serve.Filter{Limit: 300})
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, item := range page.Items {
				if item.ID == r.ID {
					found++
					ended = item.State == api.StateEnded
				}
			}
			if found != 1 {
				t.Fatalf("run %s is listed %d times", r.ID, found)
			}
		}
	}
}

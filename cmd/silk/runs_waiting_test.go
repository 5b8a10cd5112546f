//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// TestRunsThatWait: `silk runs` of the server's own host knows what waits there, and says the same as on the server.
func TestRunsThatWait(t *testing.T) {
	s := newRemoteStandOf(t, servetest.Config{Idle: true})
	ask := func(in api.RunRequest) string {
		r, _, err := s.Stand.Server.Submit(t.Context(), servetest.Runner, in, "")
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	code := "echo hello"
	queued := ask(api.RunRequest{Profile: servetest.Profile, Args: []string{"fake", "print:x"}})
	pending := ask(api.RunRequest{Profile: servetest.Profile, Code: &code, Name: "x.sh", Limits: api.Limits{TimeoutMs: 7200_000}})
	local := func(args ...string) said {
		t.Helper()
		out := &syncBuffer{}
		a, err := s.app("", out)
		a.env = func(name string) string { return map[string]string{"SILK_HOME": s.Stand.Home, "HOME": s.dir}[name] }
		status := a.main(args)
		return said{status, out.String(), err.String()}
	}
	lines := func(text string) (rows []string) {
		for line := range strings.Lines(text) {
			rows = append(rows, strings.Join(strings.Fields(line), " "))
		}
		return rows[1:]
	}
	for name, silk := range map[string]func(...string) said{"here": local, "on the server": func(args ...string) said { return s.start(auth.Owner, "", args...).wait() }} {
		got := silk("runs", "ls")
		if rows := lines(got.out); got.status != 0 || len(rows) != 2 || !strings.HasPrefix(rows[0], pending+" ") || !strings.Contains(rows[0], " test pending ") ||
			!strings.Contains(rows[1], " test queued ") || !strings.HasSuffix(rows[1], " fake print:x") {
			t.Errorf("%s: ls: %+v", name, got)
		}
		for _, test := range []struct {
			args []string
			want string
		}{
			{[]string{"--outcome", "queued"}, queued},
			{[]string{"--outcome", "pending"}, pending},
			{[]string{"--limit", "1"}, pending},
			{[]string{"--before", pending}, queued},
			{[]string{"--outcome", "ok"}, ""},
			{[]string{"-p", "lab:text"}, ""},
			{[]string{"--since", "1ns"}, ""},
		} {
			got := silk(append([]string{"runs", "ls"}, test.args...)...)
			rows := lines(got.out)
			if test.want == "" && len(rows) != 0 || test.want != "" && (len(rows) != 1 || !strings.HasPrefix(rows[0], test.want)) {
				t.Errorf("%s: ls %v: %+v", name, test.args, got)
			}
		}
		if got := silk("runs", "show", queued); got.status != 0 || !strings.Contains(got.out, "queued: it waits for its turn; silk runs attach "+queued) {
			t.Errorf("%s: show: %+v", name, got)
		}
		if got := silk("runs", "show", pending); got.status != 0 || !strings.Contains(got.out, "pending: it waits for the owner; silk runs approve "+pending) {
			t.Errorf("%s: show: %+v", name, got)
		}
		var rec record.Record
		if got := silk("runs", "show", queued, "--json"); json.Unmarshal([]byte(got.out), &rec) != nil || rec.Run != queued || rec.Outcome.Kind != "queued" {
			t.Errorf("%s: show --json: %+v", name, got)
		}
	}
	common := 0
	for queued[common] == pending[common] {
		common++
	}
	if got := local("runs", "show", queued[:common]); got.status != 125 || !strings.Contains(got.err, "more than one run begins with") {
		t.Errorf("the begin of both: %+v", got)
	}
	if got := local("runs", "show", "7"); got.status == 0 || !strings.Contains(got.err, "there is no run 7") {
		t.Errorf("none: %+v", got)
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/store"
)

// waiting are the runs that a server of this state directory has accepted and not started, the newest first. They have no record
// yet; the server need not run.
func waiting(ctx context.Context, db *store.DB) (runs []api.Run, err error) {
	rows, err := db.QueryContext(ctx, "SELECT run, state, accepted_at, request FROM requests WHERE state IN ('pending', 'queued') ORDER BY run DESC")
	if err != nil {
		return nil, fmt.Errorf("list runs that wait: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r := api.Run{Client: string(policy.ClientAPI)}
		var request string
		if err := rows.Scan(&r.ID, &r.State, &r.AcceptedAtMs, &request); err != nil {
			return nil, fmt.Errorf("list runs that wait: %w", err)
		}
		r.Profile, r.Command = asked(request)
		runs = append(runs, r)
	}
	return runs, rows.Err()
}

// asked is what a request asks for, as its record will say.
func asked(request string) (profile, command string) {
	var in api.RunRequest
	if json.Unmarshal([]byte(request), &in) != nil {
		return "", "" // the server ends such a run
	}
	req := policy.Request{Client: policy.ClientAPI, Profile: in.Profile, Language: in.Language, Args: in.Args}
	if in.Code != nil || in.CodeB64 != nil {
		req.Code = &policy.Code{Name: in.Name}
		if in.Name == "" {
			req.Code = &policy.Code{Name: "main", Given: "code"}
		}
	}
	return policy.ProfileFor(req), run.CommandOf(req)
}

// withWaiting puts the runs that wait among the others, the newest first, as far as the filter wants them.
func withWaiting(entries []record.Entry, runs []api.Run, f record.Filter) []record.Entry {
	for _, r := range runs {
		switch {
		case f.Outcome != "" && f.Outcome != string(r.State),
			f.Profile != "" && f.Profile != r.Profile,
			!f.Since.IsZero() && r.AcceptedAtMs < f.Since.UnixMilli(),
			f.Before != "" && r.ID >= strings.ToUpper(f.Before):
			continue
		}
		entries = append(entries, record.Entry{Record: recordFor(r)})
	}
	slices.SortStableFunc(entries, func(a, b record.Entry) int { return strings.Compare(b.Record.Run, a.Record.Run) })
	return entries[:min(len(entries), f.Limit)]
}

// isWaiting says whether outcome is a state in which a run has none.
func isWaiting(outcome string) bool {
	return outcome == string(api.StatePending) || outcome == string(api.StateQueued)
}

// findWaiting finds a run that waits by the begin of its id.
func findWaiting(ctx context.Context, db *store.DB, id string) (r api.Run, ok bool, err error) {
	runs, err := waiting(ctx, db)
	for _, w := range runs {
		if id == "" || !strings.HasPrefix(w.ID, strings.ToUpper(id)) {
			continue
		}
		if ok {
			return r, false, usagef("more than one run begins with %s; give more of its id", printable(id))
		}
		r, ok = w, true
	}
	return r, ok, err
}

// printWaiting says what is known of a run that waits.
func (a *app) printWaiting(r api.Run) error {
	if a.json {
		return a.printJSON(recordFor(r))
	}
	state, next := "it waits for its turn", "silk runs attach "+r.ID+" follows it"
	if r.State == api.StatePending {
		state, next = "it waits for the owner", "silk runs approve "+r.ID+" shows what it asks for"
	}
	return a.table([][]string{
		{"run", r.ID},
		{"accepted", timeText(r.AcceptedAtMs)},
		{"command", oneLine(r.Command)},
		{"profile", r.Profile},
		{"state", string(r.State) + ": " + state + "; " + next},
	})
}

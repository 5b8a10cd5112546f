//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/store"
)

// What is listed.
const (
	listedRuns = 10_000
	listPage   = 500
	listRounds = 5
)

// listed is how long it takes to page through runs, and the same by the bare query.
type listed struct {
	what          string
	runs          int
	service, bare time.Duration // the median
}

// fillRuns puts finished runs into the store of a service that has not started: copies of the one run that it has had.
func fillRuns(ctx context.Context, home string) (err error) {
	db, err := store.Open(ctx, filepath.Join(home, store.FileName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	model, err := record.List(ctx, db, record.Filter{Limit: 1})
	if err != nil || len(model) != 1 {
		return fmt.Errorf("%d runs to copy: %w", len(model), err)
	}
	now := time.Now().Add(-time.Hour)
	return db.Update(ctx, func(tx *sql.Tx) error {
		for i := range listedRuns {
			e := model[0]
			at := now.Add(time.Duration(i) * time.Millisecond)
			e.Record.Run = ulid.MustNew(ulid.Timestamp(at), rand.Reader).String()
			if i%10 == 0 {
				e.Record.Outcome.Kind = "failed"
			}
			sealed, err := record.Seal(e, nil)
			if err != nil {
				return err
			}
			if err := record.Finish(ctx, tx, sealed); err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO requests (run, token, session, hash, request, state, cancel, worker, accepted_at, queued_at, started_at, ended_at)
				VALUES (?, 'local', '', '', '', 'ended', 0, '', ?, ?, ?, ?)`, e.Record.Run, at.UnixMilli(), at.UnixMilli(), at.UnixMilli(), at.UnixMilli())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// measureLists pages through all runs, and through some, by the service and by the bare query for the same columns.
func (r *report) measureLists(ctx context.Context, s *service) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.home, store.FileName)+"?mode=ro")
	if err != nil {
		return err
	}
	defer db.Close()
	for _, one := range []struct {
		what, query, where string
		least              int
	}{
		{"all", "", "TRUE", listedRuns},
		{"those that failed", "&outcome=failed", "r.outcome = 'failed'", listedRuns / 10},
	} {
		var service, bare []time.Duration
		for range listRounds {
			n, took, err := s.list(ctx, one.query)
			service = append(service, took)
			if err != nil || n < one.least {
				return fmt.Errorf("list %d runs, at least %d: %w", n, one.least, err)
			}
			start := time.Now()
			m, err := bareList(ctx, db, one.where)
			bare = append(bare, time.Since(start))
			if err != nil || m != n {
				return fmt.Errorf("the bare query finds %d runs, the service %d: %w", m, n, err)
			}
		}
		r.lists = append(r.lists, listed{one.what, one.least, median(service), median(bare)})
	}
	progress("lists")
	return nil
}

// list pages through runs and says how long their answers were awaited.
func (s *service) list(ctx context.Context, query string) (n int, took time.Duration, err error) {
	for next := ""; ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://localhost/v1/runs?limit=%d%s&cursor=%s", listPage, query, next), nil)
		if err != nil {
			return n, took, err
		}
		start := time.Now()
		resp, err := s.client.Do(req)
		if err != nil {
			return n, took, err
		}
		text, err := io.ReadAll(resp.Body)
		took += time.Since(start)
		var page api.Page[api.Run]
		if err = errors.Join(err, resp.Body.Close()); err == nil {
			err = json.Unmarshal(text, &page)
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			return n, took, fmt.Errorf("list runs: %d, %w", resp.StatusCode, err)
		}
		if n += len(page.Items); page.Next == "" {
			return n, took, nil
		}
		next = page.Next
	}
}

func bareList(ctx context.Context, db *sql.DB, where string) (n int, err error) {
	for next := "~"; ; {
		rows, err := db.QueryContext(ctx, `SELECT q.run, q.session, q.hash, q.state, q.accepted_at, q.started_at, q.ended_at, r.record
			FROM requests q JOIN runs r ON r.id = q.run WHERE `+where+" AND q.run < ? ORDER BY q.run DESC LIMIT ?", next, listPage)
		if err != nil {
			return n, err
		}
		page := 0
		for rows.Next() {
			var session, hash, state, record string
			var accepted, started, ended int64
			if err := rows.Scan(&next, &session, &hash, &state, &accepted, &started, &ended, &record); err != nil {
				return n, errors.Join(err, rows.Close())
			}
			page++
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return n, err
		}
		if n += page; page < listPage {
			return n, nil
		}
	}
}

func (r report) writeLists(b *strings.Builder) {
	fmt.Fprintf(b, "%d finished runs, listed in pages of %d by a client of the service and by the bare query for the same columns with the same database; median of %d.\n\n"+
		"| | runs | bare query, ms | silk serve, ms | x bare |\n|---|---:|---:|---:|---:|\n", listedRuns, listPage, listRounds)
	for _, l := range r.lists {
		fmt.Fprintf(b, "| %s | %d | %.0f | %.0f | %s |\n", l.what, l.runs, ms(l.bare), ms(l.service), ratio(l.service, l.bare))
	}
	b.WriteString("\n")
}

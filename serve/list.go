package serve

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/record"
)

// Filter chooses runs of a list.
type Filter struct {
	State   api.State
	Outcome string
	Profile string
	Session string
	Cursor  string // id of the last run of the page before
	Limit   int    // at most; 0: 50
}

// Bounds of a page.
const (
	defaultPage = 50
	largestPage = 500
)

// Runs lists runs, the newest first: those of id, or of all if it may see them, with those of the command line, which have a
// record and no request.
func (s *Server) Runs(ctx context.Context, id auth.Identity, f Filter) (api.Page[api.Run], error) {
	if !id.Can(auth.ActView) {
		return api.Page[api.Run]{}, auth.ErrForbidden
	}
	limit := min(f.Limit, largestPage)
	if limit <= 0 {
		limit = defaultPage
	}
	var all []api.Run
	err := s.cfg.DB.View(ctx, func(tx *sql.Tx) (err error) { // of one moment: a run gets its record between two queries
		all, err = s.find(ctx, tx, id, f, limit+1)
		return err
	})
	if err != nil {
		return api.Page[api.Run]{}, fmt.Errorf("list runs: %w", err)
	}
	page := api.Page[api.Run]{Items: all}
	if len(all) > limit {
		page.Items, page.Next = all[:limit], all[limit-1].ID
	}
	return page, nil
}

// conditions is a WHERE clause in the making.
type conditions struct {
	text string
	args []any
}

// add adds one, unless it asks for the empty text.
func (c *conditions) add(cond, arg string) {
	if arg != "" {
		c.text, c.args = c.text+" AND "+cond, append(c.args, arg)
	}
}

// What is said twice is the condition of an index: without it SQLite walks the runs that have ended, on every page.
const (
	notEnded  = "q.state <> 'ended' AND q.state IN ('pending', 'queued', 'running')" // requests_open
	ofSession = "q.session <> '' AND q.session = ?"                                  // requests_session
)

// find returns the newest runs, limit of each kind at least.
func (s *Server) find(ctx context.Context, tx *sql.Tx, id auth.Identity, f Filter, limit int) ([]api.Run, error) {
	where := conditions{text: "TRUE"}
	if !id.Can(auth.ActViewAll) {
		where.add("q.token = ?", id.Token)
	}
	where.add(ofSession, f.Session)
	where.add("r.outcome = ?", f.Outcome)
	where.add("r.profile = ?", f.Profile)
	if !id.Can(auth.ActViewAll) || f.Session != "" {
		where.add("q.state = ?", string(f.State))
		where.add("q.run < ?", f.Cursor)
		return s.read(ctx, tx, "requests q LEFT JOIN runs r ON r.id = q.run WHERE "+where.text+" ORDER BY q.run DESC", where.args, limit)
	}
	where.add("coalesce(q.state, CASE r.outcome WHEN '' THEN 'running' ELSE 'ended' END) = ?", string(f.State))
	where.add("r.id < ?", f.Cursor)
	all, err := s.read(ctx, tx, "runs r LEFT JOIN requests q ON q.run = r.id WHERE "+where.text+" ORDER BY r.id DESC", where.args, limit)
	if err != nil || f.Outcome != "" || f.Profile != "" {
		return all, err
	}
	// What has no record yet has not ended, and of that there are few.
	where = conditions{text: notEnded + " AND r.id IS NULL"}
	where.add("q.state = ?", string(f.State))
	where.add("q.run < ?", f.Cursor)
	waiting, err := s.read(ctx, tx, "requests q LEFT JOIN runs r ON r.id = q.run WHERE "+where.text+" ORDER BY q.run DESC", where.args, limit)
	all = append(all, waiting...)
	slices.SortFunc(all, func(a, b api.Run) int { return strings.Compare(b.ID, a.ID) })
	return all, err
}

// read returns runs of the tables requests, as q, and runs, as r: of the former there is nothing for a run of the command line, of the
// latter for one that has not started.
func (s *Server) read(ctx context.Context, tx *sql.Tx, from string, args []any, limit int) (all []api.Run, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT coalesce(q.run, ''), coalesce(q.session, ''), coalesce(q.hash, ''), coalesce(q.request, ''), coalesce(q.state, ''),
		coalesce(q.accepted_at, 0), coalesce(q.started_at, 0), coalesce(q.ended_at, 0), coalesce(`+record.BriefColumn+", '') FROM "+from+" LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all = []api.Run{}
	for rows.Next() {
		var e queue.Entry
		var accepted, started, ended int64
		var text string
		if err := rows.Scan(&e.Run, &e.Session, &e.Hash, &e.Request, &e.State, &accepted, &started, &ended, &text); err != nil {
			return nil, err
		}
		e.AcceptedAt, e.StartedAt, e.EndedAt = fromMs(accepted), fromMs(started), fromMs(ended)
		if text == "" {
			all = append(all, s.describe(e, nil))
			continue
		}
		brief, err := record.ReadBrief(text)
		if err != nil {
			return nil, err
		}
		if e.Run == "" {
			all = append(all, RunFromRecord(brief))
		} else {
			all = append(all, s.describe(e, &brief))
		}
	}
	return all, rows.Err()
}

func fromMs(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

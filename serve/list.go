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
	all, err := s.requested(ctx, id, f, limit+1)
	if err != nil {
		return api.Page[api.Run]{}, fmt.Errorf("list runs: %w", err)
	}
	if id.Can(auth.ActViewAll) {
		more, err := s.unrequested(ctx, f, limit+1)
		if err != nil {
			return api.Page[api.Run]{}, fmt.Errorf("list runs: %w", err)
		}
		all = append(all, more...)
		slices.SortFunc(all, func(a, b api.Run) int { return strings.Compare(b.ID, a.ID) })
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

// requested lists runs that were asked for here.
func (s *Server) requested(ctx context.Context, id auth.Identity, f Filter, limit int) ([]api.Run, error) {
	where := conditions{text: "TRUE"}
	if !id.Can(auth.ActViewAll) {
		where.add("q.token = ?", id.Token)
	}
	where.add("q.state = ?", string(f.State))
	where.add("q.session = ?", f.Session)
	where.add("r.outcome = ?", f.Outcome)
	where.add("r.profile = ?", f.Profile)
	where.add("q.run < ?", f.Cursor)
	return s.read(ctx, `SELECT q.run, q.session, q.hash, q.request, q.state, q.accepted_at, coalesce(q.started_at, 0), coalesce(q.ended_at, 0), coalesce(`+record.BriefColumn+`, '')
		FROM requests q LEFT JOIN runs r ON r.id = q.run WHERE `+where.text+" ORDER BY q.run DESC LIMIT ?", append(where.args, limit),
		func(rows *sql.Rows) (api.Run, error) {
			var e queue.Entry
			var accepted, started, ended int64
			var text string
			if err := rows.Scan(&e.Run, &e.Session, &e.Hash, &e.Request, &e.State, &accepted, &started, &ended, &text); err != nil {
				return api.Run{}, err
			}
			e.AcceptedAt, e.StartedAt, e.EndedAt = fromMs(accepted), fromMs(started), fromMs(ended)
			if text == "" {
				return s.describe(e, nil), nil
			}
			brief, err := record.ReadBrief(text)
			return s.describe(e, &brief), err
		})
}

// unrequested lists runs of the command line.
func (s *Server) unrequested(ctx context.Context, f Filter, limit int) ([]api.Run, error) {
	where := conditions{text: "NOT EXISTS (SELECT 1 FROM requests q WHERE q.run = r.id)"}
	switch {
	case f.Session != "" || f.State == api.StatePending || f.State == api.StateQueued:
		return nil, nil
	case f.State == api.StateRunning:
		where.text += " AND r.outcome = ''"
	case f.State == api.StateEnded:
		where.text += " AND r.outcome <> ''"
	}
	where.add("r.outcome = ?", f.Outcome)
	where.add("r.profile = ?", f.Profile)
	where.add("r.id < ?", f.Cursor)
	return s.read(ctx, "SELECT "+record.BriefColumn+" FROM runs r WHERE "+where.text+" ORDER BY r.id DESC LIMIT ?", append(where.args, limit),
		func(rows *sql.Rows) (api.Run, error) {
			var text string
			if err := rows.Scan(&text); err != nil {
				return api.Run{}, err
			}
			brief, err := record.ReadBrief(text)
			return runFromRecord(brief), err
		})
}

func (s *Server) read(ctx context.Context, query string, args []any, one func(*sql.Rows) (api.Run, error)) (all []api.Run, err error) {
	rows, err := s.cfg.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all = []api.Run{}
	for rows.Next() {
		r, err := one(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

func fromMs(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

package approval

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Querier is what reads: a *store.DB, or the *sql.Tx of one, which sees what it has written itself.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Get returns the approval of a run, or [ErrNotFound].
func Get(ctx context.Context, q Querier, run string) (Approval, error) {
	a, err := scan(q.QueryRowContext(ctx, "SELECT "+columns+" FROM approvals WHERE run = ?", run))
	if errors.Is(err, sql.ErrNoRows) {
		return Approval{}, ErrNotFound
	}
	if err != nil {
		return Approval{}, fmt.Errorf("read approval of run %q: %w", run, err)
	}
	return a, nil
}

// Filter chooses approvals. Its zero value chooses the newest 100.
type Filter struct {
	State   State  // in this one only
	Token   string // asked for by this one only
	Subject string // of this one only
	Before  string // only runs before this one: pass the last Run of a page to get the next
	Limit   int    // at most; 0, or more than 1000: 100
}

// List returns approvals, the newest first, without code, files and plan: [Get] has them.
func List(ctx context.Context, q Querier, f Filter) ([]Approval, error) {
	if f.Limit <= 0 || f.Limit > 1000 {
		f.Limit = 100
	}
	where, args := []string{"1 = 1"}, []any{}
	for _, c := range []struct{ cond, value string }{
		{"state = ?", string(f.State)},
		{"token = ?", f.Token},
		{"subject = ?", f.Subject},
		{"run < ?", f.Before},
	} {
		if c.value != "" {
			where, args = append(where, c.cond), append(args, c.value)
		}
	}
	all, err := list(ctx, q, "WHERE "+strings.Join(where, " AND ")+" ORDER BY run DESC LIMIT ?", append(args, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	return all, nil
}

// Previous returns the version of the subject of a that was granted last before a was decided about, or until now, whoever
// asked for it: what [Diff] compares a with. It says whether there is one.
func Previous(ctx context.Context, q Querier, a Approval) (Approval, bool, error) {
	until := int64(math.MaxInt64)
	if !a.Decided.IsZero() {
		until = a.Decided.UnixMilli()
	}
	before, err := scan(q.QueryRowContext(ctx, "SELECT "+columns+` FROM approvals
		WHERE subject = ? AND state = 'granted' AND run <> ? AND decided_at <= ? ORDER BY decided_at DESC, run DESC LIMIT 1`, a.Subject, a.Run, until))
	if errors.Is(err, sql.ErrNoRows) {
		return Approval{}, false, nil
	}
	if err != nil {
		return Approval{}, false, fmt.Errorf("look for the version that was granted before run %q: %w", a.Run, err)
	}
	return before, true, nil
}

// columns are those that scan reads, light those of a list.
const (
	columns = "run, hash, code_sha256, subject, token, rule, detail, plan, code, omitted, files, state, requested_at, expires_at, decided_at, decided_by, reason, valid_until"
	light   = "run, hash, code_sha256, subject, token, rule, detail, '', '', omitted, '', state, requested_at, expires_at, decided_at, decided_by, reason, valid_until"
)

func list(ctx context.Context, q Querier, rest string, args ...any) (all []Approval, err error) {
	rows, err := q.QueryContext(ctx, "SELECT "+light+" FROM approvals "+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		a, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, rows.Err()
}

func scan(row interface{ Scan(...any) error }) (a Approval, err error) {
	var requested, expires int64
	var decided, until sql.NullInt64
	var plan, files string
	err = row.Scan(&a.Run, &a.Hash, &a.CodeSHA256, &a.Subject, &a.Token, &a.Rule, &a.Detail, &plan, &a.Code, &a.Omitted, &files, &a.State,
		&requested, &expires, &decided, &a.DecidedBy, &a.Reason, &until)
	a.Requested, a.Expires = time.UnixMilli(requested), time.UnixMilli(expires)
	a.Decided, a.ValidUntil = timeOf(decided), timeOf(until)
	if plan != "" {
		a.Plan = []byte(plan)
	}
	if err == nil {
		a.Files, err = decodeFiles(files)
	}
	return a, err
}

func nullMs(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

func timeOf(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64)
}

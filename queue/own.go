package queue

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/silk-sandbox/silk/internal/logkey"
)

// owner is the worker of a row that this server accepts: with Config.Own it is bound to it from then on.
func (q *Queue) owner() string {
	if q.cfg.Own {
		return q.cfg.Worker
	}
	return ""
}

// others says whether another server that lives is to run e, or ends it.
func (q *Queue) others(e Entry) bool {
	return e.Worker != "" && e.Worker != q.cfg.Worker && q.cfg.Alive(e.Worker)
}

const othersRows = notEnded + " AND state <> 'running' AND worker NOT IN ('', ?) ORDER BY run"

// adopt takes over what waits for servers that are dead.
func (q *Queue) adopt(ctx context.Context) error {
	if !q.cfg.Own {
		return nil
	}
	waiting, err := entries(ctx, q.db, "WHERE "+othersRows, q.cfg.Worker)
	if err != nil {
		return fmt.Errorf("look for runs of dead servers: %w", err)
	}
	for _, e := range waiting {
		if q.others(e) {
			continue
		}
		took := false
		err := q.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
			res, err := tx.ExecContext(ctx, "UPDATE requests SET worker = ? WHERE run = ? AND worker = ? AND state IN ('pending', 'queued')", q.cfg.Worker, e.Run, e.Worker)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			took = n == 1 // else another server was faster, or it lives after all
			return err
		})
		if err != nil {
			return fmt.Errorf("take over run %s: %w", e.Run, err)
		}
		if took {
			q.cfg.Logger.Warn("took over a run that waited for a server that is gone", logkey.Run, e.Run, "server", e.Worker)
			e.Worker = q.cfg.Worker
			if q.cfg.Adopt != nil {
				q.cfg.Adopt(ctx, e)
			}
		}
	}
	return nil
}

// Shares says whether other servers may use the table: Config.Own.
func (q *Queue) Shares() bool { return q.cfg.Own }

// Elsewhere says whether another server was to run e, or has run it: what is on a host of it is on another one.
func (q *Queue) Elsewhere(e Entry) bool {
	return q.cfg.Own && e.Worker != "" && e.Worker != q.cfg.Worker
}

// Open lists all runs that have not ended.
func (q *Queue) Open(ctx context.Context) (runs []string, err error) {
	rows, err := q.db.QueryContext(ctx, "SELECT run FROM requests WHERE state <> 'ended'")
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var run string
		if err := rows.Scan(&run); err != nil {
			return nil, fmt.Errorf("read requests: %w", err)
		}
		runs = append(runs, run)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	return runs, nil
}

package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/silk-sandbox/silk/internal/logkey"
)

// recover makes the stream agree with the table: what is queued and not in the stream is published, what is in the stream
// and not queued is dropped. What a stream that cannot be written keeps from being done now, settleLoop does later.
func (q *Queue) recover(ctx context.Context) error {
	if err := q.seed(ctx); err != nil {
		return err
	}
	rows, err := q.queued(ctx)
	if err != nil {
		return err
	}
	most := map[string]int{}
	for _, r := range rows {
		most[r.token]++
	}
	q.perToken = perToken(q.cfg.TokenQueued, q.cfg.TokenRunning)
	for _, n := range most {
		q.perToken = max(q.perToken, perToken(n, q.cfg.TokenRunning))
	}
	listed, err := q.cfg.Stream.List(ctx)
	if err != nil {
		return fmt.Errorf("list the stream: %w", err)
	}
	for _, r := range rows {
		q.schedule.add(r.token, r.run, r.limit)
		if listed[r.run] == r.token {
			q.schedule.sent(r.token, r.run)
			delete(listed, r.run)
			continue
		}
		q.unsent = append(q.unsent, sending{r.token, r.run})
	}
	for run := range listed {
		q.undone[run] = true
	}
	if len(q.unsent)+len(q.undone) > 0 {
		q.cfg.Logger.Info("the queue's stream differs from the table", "unsent", len(q.unsent), "undone", len(q.undone))
	}
	for run := range q.undone { // first, so that there is room, and nothing that is dropped is what is published
		if err := q.cfg.Stream.Drop(ctx, run); err != nil {
			q.cfg.Logger.Warn("the queue's stream drops nothing now", logkey.Run, run, logkey.Error, err)
			break
		}
		delete(q.undone, run)
	}
	if !q.settleOnce(ctx) {
		ring(q.settle)
	}
	return nil
}

// recent is how many of the newest rows the first estimate is made from.
const recent = 50

// seed learns from the past how long runs take.
func (q *Queue) seed(ctx context.Context) error {
	rows, err := q.db.QueryContext(ctx, `SELECT ended_at - started_at FROM (SELECT * FROM requests ORDER BY run DESC LIMIT ?) AS newest
		WHERE state = 'ended' AND started_at IS NOT NULL ORDER BY run`, recent)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var ms int64
		if err := rows.Scan(&ms); err != nil {
			return fmt.Errorf("read requests: %w", err)
		}
		q.average.add(time.Duration(ms) * time.Millisecond)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	return nil
}

// row is what the schedule needs of a queued row.
type row struct {
	token, run string
	limit      int
}

// queued lists the rows that wait for their turn here, in the order in which they got there.
func (q *Queue) queued(ctx context.Context) (all []row, err error) {
	rows, err := q.db.QueryContext(ctx, "SELECT token, run, max_running FROM requests WHERE state = 'queued' AND state <> 'ended' AND cancel = 0 AND worker IN ('', ?) ORDER BY queued_at, run", q.cfg.Worker)
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.token, &r.run, &r.limit); err != nil {
			return nil, fmt.Errorf("read requests: %w", err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	return all, nil
}

const lostRows = notEnded + " AND (state = 'running' OR cancel = 1) ORDER BY run"

// Lost returns the runs that nobody ends unless the caller does, by Done: those in [Running] whose worker is gone, and
// those that were canceled while they waited. A service calls it when it starts, before it lets anybody cancel; later
// Config.End gets them.
func (q *Queue) Lost(ctx context.Context) ([]Entry, error) {
	all, err := entries(ctx, q.db, "WHERE "+lostRows)
	if err != nil {
		return nil, fmt.Errorf("find lost runs: %w", err)
	}
	lost := all[:0]
	for _, e := range all {
		q.mu.Lock()
		active := q.active[e.Run] != nil
		q.mu.Unlock()
		if !active && !q.others(e) {
			lost = append(lost, e)
		}
	}
	return lost, nil
}

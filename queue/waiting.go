package queue

import "context"

const waitingRows = notEnded + " AND state <> 'running' AND worker IN ('', ?) ORDER BY run"

// Waiting returns the runs that have not started and are this server's to start, those that wait for an approval included, in
// the order of acceptance. A service that starts gives them their streams again.
func (q *Queue) Waiting(ctx context.Context) ([]Entry, error) {
	return entries(ctx, q.db, "WHERE "+waitingRows, q.cfg.Worker)
}

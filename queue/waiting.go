package queue

import "context"

// Waiting returns the runs that have not started, those that wait for an approval included, in the order of acceptance. A
// service that starts gives them their streams again.
func (q *Queue) Waiting(ctx context.Context) ([]Entry, error) {
	return entries(ctx, q.db, "WHERE state IN ('pending', 'queued') ORDER BY run")
}

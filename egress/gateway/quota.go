package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// limit is what has ended a connection that was allowed.
type limit struct{ rule, reason string }

func (l *limit) Error() string { return l.reason }

// errQuota ends the connections of a sandbox that has had its bytes.
var errQuota = &limit{"bytes", "the sandbox has sent and received as much as it may"}

// quota is what a sandbox may send and receive, all of its connections together.
type quota struct {
	left atomic.Int64
	rate int64 // bytes a second; 0: any

	mu   sync.Mutex
	next time.Time // when all that has passed was due
}

// burst is how far a sandbox may be ahead of its rate, after it was silent.
const burst = 100 * time.Millisecond

// take waits until n more bytes may pass. Those who wait do so in the order in which they came, so that no connection has all.
func (g *gateway) take(ctx context.Context, n int) error {
	q := &g.quota
	if q.left.Add(-int64(n)) < 0 {
		return errQuota
	}
	if q.rate == 0 {
		return nil
	}
	now := time.Now()
	q.mu.Lock()
	if early := now.Add(-burst); q.next.Before(early) {
		q.next = early
	}
	q.next = q.next.Add(time.Duration(float64(n) / float64(q.rate) * float64(time.Second)))
	wait := q.next.Sub(now)
	q.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// firstOf is the first error that there is, as it is: readers compare with io.EOF.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/silk-sandbox/silk/api"
)

const (
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
)

// backoff is how long to wait before another attempt: twice as long each time, and half of it by chance, so that many clients of
// one server do not come back in step. The zero value has not waited yet.
type backoff struct{ attempts int }

// next is the wait before the next attempt.
func (b *backoff) next() time.Duration {
	d := firstWait << min(b.attempts, 10)
	b.attempts++
	d = min(d, mostWait)
	return d/2 + rand.N(d/2+1)
}

// wait waits for the next attempt, at least as long as the server asked for in err. An error is the end of ctx.
func (b *backoff) wait(ctx context.Context, err error) error {
	d := b.next()
	var p *api.Problem
	if errors.As(err, &p) {
		d = max(d, time.Duration(p.RetryAfterMs)*time.Millisecond)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

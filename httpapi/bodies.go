package httpapi

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// bodyRoom is how much of long request bodies is worked on at once. What is made of one - text, values, a row - takes some
	// six times as much memory for a moment.
	bodyRoom = 2 * maxBodyBytes
	// shortBody is what does not count.
	shortBody = 256 << 10
	// bodyWait is how long a long body waits for room.
	bodyWait = 10 * time.Second
)

// bodies bounds the memory of long request bodies.
type bodies struct{ room *semaphore.Weighted }

func newBodies() bodies { return bodies{semaphore.NewWeighted(bodyRoom)} }

// enter waits for room for the body of r. It is not ok if there was none in time; else leave gives it back.
func (b bodies) enter(ctx context.Context, r *http.Request) (leave func(), ok bool) {
	size := r.ContentLength
	if size < 0 || size > maxBodyBytes { // unknown, or refused when it has come that far
		size = maxBodyBytes
	}
	if size <= shortBody {
		return func() {}, true
	}
	ctx, cancel := context.WithTimeout(ctx, bodyWait)
	defer cancel()
	if b.room.Acquire(ctx, size) != nil {
		return nil, false
	}
	return func() { b.room.Release(size) }, true
}

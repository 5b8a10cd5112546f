package queue

import (
	"context"
	"time"
)

// notifyEvery is how often watchers hear of changes at most.
const notifyEvery = 100 * time.Millisecond

// Position is how many runs start before this one, itself included, if they are as they are now; eta is when that will
// be about, negative if nothing is known of how long runs take. ok is false if the run does not wait for its turn.
func (q *Queue) Position(run string) (position int, eta time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.schedule.ring {
		place, ahead := q.schedule.place(l.token, run)
		if place == 0 {
			continue
		}
		eta = q.average.wait(place-q.schedule.room.slots, q.cfg.Running)
		if own := q.average.wait(ahead+1-(l.limit-l.active), l.limit); eta >= 0 && own > eta {
			eta = own
		}
		return place, eta, true
	}
	return 0, 0, false
}

// watcher hears of changes of one run's position.
type watcher struct{ c chan struct{} }

// Watch returns a channel that gets a value when the position of a run may have changed, at most ten times a second, and
// is closed when the run has been taken by this server or will not start any more. Look at the run after Watch: if it is
// past waiting then, nothing comes. The caller calls stop.
func (q *Queue) Watch(run string) (changes <-chan struct{}, stop func()) {
	w := &watcher{c: make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.active[run]; q.closed || a != nil && a.taken {
		close(w.c)
		return w.c, func() {}
	}
	if q.watchers[run] == nil {
		q.watchers[run] = map[*watcher]bool{}
	}
	q.watchers[run][w] = true
	return w.c, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.watchers[run], w)
		if len(q.watchers[run]) == 0 {
			delete(q.watchers, run)
		}
	}
}

// unwatch tells the watchers of a run that it waits no longer. q.mu is held.
func (q *Queue) unwatch(run string) {
	for w := range q.watchers[run] {
		close(w.c)
	}
	delete(q.watchers, run)
}

// notifyLoop tells watchers of changes.
func (q *Queue) notifyLoop(ctx context.Context) {
	for {
		select {
		case <-q.dirty:
		case <-ctx.Done():
			return
		}
		q.mu.Lock()
		for _, all := range q.watchers {
			for w := range all {
				ring(w.c)
			}
		}
		q.mu.Unlock()
		timer := time.NewTimer(notifyEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

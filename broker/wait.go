package broker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	crowd     = 8                // so many viewers are woken by the writer itself
	crowdWait = time.Millisecond // more of them are woken together, that much later
)

// waitList has the viewers of one stream that have read everything. Its lock is taken after that of the stream. A
// viewer adds itself while it shares the lock of the stream, which the writer has alone when it publishes: so none
// misses a frame.
type waitList struct {
	mu      sync.Mutex
	viewers []*Viewer
	count   atomic.Int32 // of viewers
	timer   *time.Timer  // nil: never needed; only the writer uses it
	armed   atomic.Bool
}

func (l *waitList) add(v *Viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !v.waits {
		v.waits = true
		l.viewers = append(l.viewers, v)
		l.count.Add(1)
	}
}

func (l *waitList) remove(v *Viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.viewers, v); i >= 0 {
		l.viewers = slices.Delete(l.viewers, i, i+1)
		l.count.Add(-1)
	}
	v.waits = false
}

// wake calls the viewers. A few are called at once. More than crowd are called together and a little later, by a timer's
// goroutine: the program is not to pay for each of a thousand viewers at each line. The stream's lock is held.
func (l *waitList) wake() {
	n := l.count.Load()
	switch {
	case n == 0:
	case n <= crowd:
		l.wakeAll()
	case l.armed.Swap(true):
	case l.timer == nil:
		l.timer = time.AfterFunc(crowdWait, l.wakeCrowd)
	default:
		l.timer.Reset(crowdWait)
	}
}

func (l *waitList) wakeCrowd() {
	l.armed.Store(false) // first: what is published from here on arms it again
	l.wakeAll()
}

func (l *waitList) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, v := range l.viewers {
		v.waits = false
		v.wake()
		l.viewers[i] = nil
	}
	l.viewers = l.viewers[:0]
	l.count.Store(0)
}

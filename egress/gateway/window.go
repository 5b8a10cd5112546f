package gateway

import "sync"

// What a connection buffers, its window: as much to the sandbox, and twice as much from it, half of which the stack offers. All of a sandbox's
// connections together have spareWindows beyond the least that each has: with 256 of them that is 72 MiB at most, and about ten
// connections are as fast as one. The link is memory, whose delay is below a millisecond.
const (
	leastWindow  = 64 << 10 // a packet
	maxWindow    = 512 << 10
	spareWindows = 8 << 20

	maxHeader = 40 + 40 // of IPv6 and TCP with options that the stack uses, in bytes; so that what is passed on at once is one packet
)

// windows are what a sandbox's connections have.
type windows struct {
	mu   sync.Mutex
	left int // bytes beyond leastWindow of each
}

// take gives a connection its window: an eighth of what is left, so that there is always some for the next one.
func (w *windows) take() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	more := min(w.left/8, maxWindow-leastWindow)
	w.left -= more
	return leastWindow + more
}

// put takes a window back.
func (w *windows) put(window int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left += max(window-leastWindow, 0)
}

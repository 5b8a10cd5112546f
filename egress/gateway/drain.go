package gateway

import (
	"context"
	"net"
	"sync"
	"time"
)

// A program that says something and ends at once expects it to arrive, as the kernel of a host sees to. What a sandbox has sent is in its link or in
// the stack when it ends: afterSilence is how long its connections wait for more of it, afterEnd for the hosts to take it.
const (
	afterSilence = 100 * time.Millisecond
	afterEnd     = time.Second
)

// drain waits until the connections of a sandbox that is gone have passed on what it said.
func (g *gateway) drain(ctx context.Context) {
	limit := time.NewTimer(afterEnd)
	defer limit.Stop()
	select {
	case <-g.open.none():
	case <-limit.C:
	case <-ctx.Done():
	}
}

// count is a number of things that come and go. Its zero value is ready to use.
type count struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed at zero; nil if nobody waits
}

func (c *count) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n += n; c.n == 0 && c.zero != nil {
		close(c.zero)
		c.zero = nil
	}
}

// none is closed as soon as there is none. It is called once.
func (c *count) none() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	none := make(chan struct{})
	if c.zero = none; c.n == 0 {
		close(none)
		c.zero = nil
	}
	return none
}

func (g *gateway) hasLeft() bool {
	select {
	case <-g.left:
		return true
	default:
		return false
	}
}

// whenLeft ends the patience of connections when the sandbox is gone, unless stop is called before.
func (g *gateway) whenLeft(conns ...net.Conn) (stop func()) {
	stopped := make(chan struct{})
	g.work.Go(func() {
		select {
		case <-g.left:
			for _, c := range conns {
				_ = c.SetReadDeadline(time.Now().Add(afterSilence))
			}
		case <-stopped:
		}
	})
	return func() { close(stopped) }
}

package vsock

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// exchange connects the guest's streams with what they lead to on the host. take is called by one goroutine, with the guest's packets;
// what the guest is to receive comes from next.
type exchange struct {
	dial func(port uint32) (net.Conn, error)

	mu      sync.Mutex
	changed *sync.Cond
	conns   map[ports]*conn
	replies []header // to the guest, without bytes: bounded, see reply
	closed  bool
	running sync.WaitGroup
}

// ports are the guest's and the host's of one stream.
type ports struct{ guest, host uint32 }

// conn is one stream.
type conn struct {
	at   ports
	peer net.Conn

	toHost  []byte // from the guest, not yet written
	over    bool   // the guest sends no more
	dead    bool   // reset, or given up
	written uint32 // bytes for the host, since the beginning
	told    uint32 // of which the guest knows

	space, taken uint32 // the guest's buffer, and what it has read, as it says
	sent         uint32
	toGuest      []byte // read from the host, at most chunk bytes
	hostOver     bool   // the host sends no more
	saidOver     bool
}

// chunk is how much goes to the guest in one packet: a Linux guest has buffers of 4 KiB less the header for it, and larger ones since 6.
const chunk = 3 << 10

// maxReplies bounds what is owed to a guest that does not take it.
const maxReplies = 256

func newExchange(dial func(port uint32) (net.Conn, error)) *exchange {
	x := &exchange{dial: dial, conns: map[ports]*conn{}}
	x.changed = sync.NewCond(&x.mu)
	return x
}

// reply owes the guest a packet without bytes. x.mu is held.
func (x *exchange) reply(at ports, op uint16, flags uint32, c *conn) error {
	if len(x.replies) >= maxReplies {
		return broken("it does not take what it is sent")
	}
	h := header{fromCID: HostCID, toCID: CID, fromPort: at.host, toPort: at.guest, kind: typeStream, op: op, flags: flags, space: window}
	if c != nil {
		h.forwarded = c.written
		c.told = c.written
	}
	x.replies = append(x.replies, h)
	x.changed.Broadcast()
	return nil
}

// take is called with a packet of the guest's.
func (x *exchange) take(p []byte) error {
	h, body, err := parse(p)
	if err != nil {
		return err
	}
	at := ports{h.fromPort, h.toPort}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.conns[at]
	switch {
	case h.kind != typeStream, h.toCID != HostCID, h.fromCID != CID:
		return x.reply(at, opReset, 0, nil)
	case c == nil && h.op == opRequest:
		return x.open(at, h)
	case c != nil && !c.dead:
	case h.op == opReset:
		return nil
	default: // of a stream that there is not, or is no more: what it has sent before may still be on its way to the host
		return x.reply(at, opReset, 0, nil)
	}
	if c.sent-h.forwarded > c.sent-c.taken {
		return broken("it says that it has read more than was sent, or less than before")
	}
	c.space, c.taken = h.space, h.forwarded
	x.changed.Broadcast()
	switch h.op {
	case opData:
		if c.over || uint32(len(c.toHost)+len(body)) > window {
			return broken("it sends more than it may")
		}
		c.toHost = append(c.toHost, body...)
	case opShutdown:
		if h.flags&2 != 0 { // VIRTIO_VSOCK_SHUTDOWN_SEND: it sends no more
			c.over = true
		}
		if h.flags&3 == 3 {
			c.hostOver, c.saidOver, c.toGuest = true, true, nil
			return x.reply(at, opReset, 0, c)
		}
	case opReset:
		c.over, c.dead = true, true
	case opCreditRequest:
		return x.reply(at, opCredit, 0, c)
	case opRequest:
		return broken("it opens a stream again")
	}
	return nil
}

// open connects a stream of the guest's. x.mu is held.
func (x *exchange) open(at ports, h header) error {
	if len(x.conns) >= maxConns || x.closed {
		return x.reply(at, opReset, 0, nil)
	}
	peer, err := x.dial(at.host) // a Unix socket: it does not wait
	if err != nil {
		return x.reply(at, opReset, 0, nil)
	}
	c := &conn{at: at, peer: peer, space: h.space, taken: h.forwarded}
	if c.taken != 0 {
		return errors.Join(broken("it has read before anything was sent"), peer.Close())
	}
	x.conns[at] = c
	x.running.Go(func() { x.writeHost(c) })
	x.running.Go(func() { x.readHost(c) })
	return x.reply(at, opResponse, 0, c)
}

// writeHost passes on what the guest sends.
func (x *exchange) writeHost(c *conn) {
	for {
		x.mu.Lock()
		for len(c.toHost) == 0 && !c.over && !c.dead && !x.closed {
			x.changed.Wait()
		}
		b := c.toHost
		stop := len(b) == 0 && (c.over || c.dead) || x.closed
		x.mu.Unlock()
		if stop {
			break
		}
		if _, err := c.peer.Write(b); err != nil {
			break
		}
		x.mu.Lock()
		c.toHost = append(c.toHost[:0:0], c.toHost[len(b):]...)
		c.written += uint32(len(b))
		if c.written-c.told >= window/4 && !c.dead {
			if x.reply(c.at, opCredit, 0, c) != nil { // a guest that takes nothing has no need of more
				c.dead = true
			}
		}
		x.mu.Unlock()
	}
	x.drop(c)
}

// readHost takes what the host sends, one chunk at a time.
func (x *exchange) readHost(c *conn) {
	buf := make([]byte, chunk)
	for {
		n, err := c.peer.Read(buf)
		x.mu.Lock()
		c.toGuest = buf[:n]
		c.hostOver = c.hostOver || err != nil
		x.changed.Broadcast()
		for len(c.toGuest) > 0 && !c.dead && !c.saidOver && !x.closed {
			x.changed.Wait()
		}
		stop := err != nil || c.dead || x.closed || c.saidOver
		x.mu.Unlock()
		if stop {
			return
		}
	}
}

// drop forgets a stream.
func (x *exchange) drop(c *conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c.dead = true
	if x.conns[c.at] == c {
		delete(x.conns, c.at)
	}
	_ = c.peer.Close() // its reader ends
	x.changed.Broadcast()
}

// next waits for the next packet to the guest. ok is false when there will be none.
func (x *exchange) next() (p []byte, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		if x.closed {
			return nil, false
		}
		if len(x.replies) > 0 {
			h := x.replies[0]
			x.replies = append(x.replies[:0:0], x.replies[1:]...)
			return h.packet(nil), true
		}
		for _, c := range x.conns {
			h := header{fromCID: HostCID, toCID: CID, fromPort: c.at.host, toPort: c.at.guest, kind: typeStream, space: window, forwarded: c.written}
			room := c.space - min(c.space, c.sent-c.taken)
			switch n := min(len(c.toGuest), int(min(room, chunk))); {
			case c.dead:
			case n > 0:
				h.op = opData
				p = h.packet(c.toGuest[:n])
				c.toGuest, c.sent, c.told = c.toGuest[n:], c.sent+uint32(n), c.written
				x.changed.Broadcast()
				return p, true
			case len(c.toGuest) == 0 && c.hostOver && !c.saidOver:
				c.saidOver = true
				h.op, h.flags = opShutdown, 3
				return h.packet(nil), true
			}
		}
		x.changed.Wait()
	}
}

// close ends every stream and waits for those who work on them.
func (x *exchange) close() {
	x.mu.Lock()
	x.closed = true
	for _, c := range x.conns {
		_ = c.peer.Close()
	}
	x.changed.Broadcast()
	x.mu.Unlock()
	x.running.Wait()
}

// stopOn closes c when ctx is done.
func stopOn(ctx context.Context, c io.Closer) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.Close() })
}

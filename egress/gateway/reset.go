package gateway

import (
	"context"
	"net"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// cut breaks a connection off. Its other end hears of a reset, as if it were connected to the one that failed: an ordinary end would make it take
// what has come for all there is.
func cut(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = c.Close()
}

// guestConn is the sandbox's side of a connection.
type guestConn struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
	window   int // of those that the sandbox has; 0 for none
}

// SetLinger is that of [net.TCPConn]: with 0, Close throws away what is not sent yet and resets the connection.
func (g *guestConn) SetLinger(seconds int) error {
	g.endpoint.SocketOptions().SetLinger(tcpip.LingerOption{Enabled: seconds == 0})
	return nil
}

// SetLinger is that of the connection below, where it has one.
func (s *spoken) SetLinger(seconds int) error {
	if l, ok := s.Conn.(interface{ SetLinger(seconds int) error }); ok {
		return l.SetLinger(seconds)
	}
	return nil
}

// leave closes a connection and waits until the sandbox has acknowledged all of it, for a while: what it does not take costs memory, and it could have
// thousands of such connections one after the other.
func (g *gateway) leave(ctx context.Context, c *guestConn) {
	_ = c.Close()
	defer g.windows.put(c.window)
	timer := time.NewTimer(0)
	defer timer.Stop()
	begun := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		switch tcp.EndpointState(c.endpoint.State()) {
		case tcp.StateFinWait1, tcp.StateClosing, tcp.StateLastAck: // RFC 9293 section 3.3.2: our end is not acknowledged
		default:
			return
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			begun = time.Time{}
		case <-g.left: // nobody acknowledges anything any more
			begun = time.Time{}
		}
		if time.Since(begun) > g.cfg.Dial {
			c.endpoint.Abort()
			return
		}
		timer.Reset(wait)
	}
}

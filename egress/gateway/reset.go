package gateway

import (
	"net"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
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

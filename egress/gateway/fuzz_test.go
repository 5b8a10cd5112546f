package gateway

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/link"
)

// FuzzPacket: whatever passes is read by the stack as the filter has read it, and neither of them fails on it.
func FuzzPacket(f *testing.F) {
	at := netip.AddrPortFrom(egress.Gateway4, 53)
	f.Add(segment(1, at, header.TCPFlagSyn))
	f.Add(segment(1, at, header.TCPFlagAck|header.TCPFlagFin))
	f.Add(datagram(1, at, queryFor(f, "a.example.")))
	v6 := make([]byte, 60)
	v6[0], v6[5], v6[6], v6[7] = 0x60, 20, protocolTCP, 64
	f.Add(v6)
	for _, next := range []byte{0, 43, 44, 51, 58, 60} {
		b := append([]byte(nil), v6...)
		b[6] = next
		f.Add(b)
	}
	endpoint := channel.New(512, egress.MTU, "")
	endpoint.LinkEPCapabilities = link.Capabilities
	s, err := newStack(endpoint)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { endpoint.Close(); s.Close(); s.Wait() })
	f.Fuzz(func(t *testing.T, b []byte) {
		if !passes(b) {
			return
		}
		protocol := ipv4.ProtocolNumber
		if b[0]>>4 == 6 {
			protocol = ipv6.ProtocolNumber
			if next := b[6]; next != protocolTCP && next != protocolUDP {
				t.Errorf("%x passes, and has protocol %d", b, next)
			}
		} else if ip := header.IPv4(b); ip.HeaderLength() != 20 || ip.FragmentOffset() != 0 || ip.More() || ip.Protocol() != protocolTCP && ip.Protocol() != protocolUDP {
			t.Errorf("%x passes", b)
		}
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
		endpoint.InjectInbound(protocol, p)
		p.DecRef()
		for p := endpoint.Read(); p != nil; p = endpoint.Read() {
			p.DecRef()
		}
	})
}

// FuzzQueryStream: what comes to the resolver by TCP is answered, or ends the connection.
func FuzzQueryStream(f *testing.F) {
	query := queryFor(f, "a.example.")
	f.Add(append([]byte{0, byte(len(query))}, query...))
	f.Add([]byte{0xff, 0xff})
	g := &gateway{cfg: Config{}.withDefaults(), table: egress.New(egress.Config{Rules: rules(f, "a.example:443")}), reports: newReports(func(Decision) {})}
	f.Fuzz(func(_ *testing.T, said []byte) {
		c := &scripted{said: said}
		for g.query(context.Background(), c) {
		}
	})
}

// scripted is a connection that says what it is told to, and hears nothing.
type scripted struct {
	net.Conn
	said []byte
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.said) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.said)
	s.said = s.said[n:]
	return n, nil
}

func (*scripted) Write(b []byte) (int, error) { return len(b), nil }

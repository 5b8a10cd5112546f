package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/silk-sandbox/silk/egress"
)

// queryWait is how long a connection to the resolver is kept without a query.
const queryWait = 10 * time.Second

// maxQuery bounds a query: a name, a question and its options.
const maxQuery = 4 << 10

// datagrams takes what a sandbox sends by UDP and not to its resolver: all of it is dropped.
func (g *gateway) datagrams(ctx context.Context, r *udp.ForwarderRequest) bool {
	id := r.ID()
	at := addrPort(id.LocalAddress, id.LocalPort)
	host := at.Addr().String()
	if name, ok := g.table.Name(at.Addr()); ok {
		host = name
	}
	err := g.table.InForce(&egress.Refusal{Rule: egress.RefusedUDP, Reason: "nothing but DNS to the sandbox's own resolver goes by UDP"})
	if err == nil {
		return g.passOn(ctx, r)
	}
	g.refused(Decision{Kind: "udp", Host: host, Port: at.Port(), At: time.Now()}, err)
	return true // handled: no ICMP either
}

// resolve answers queries by UDP, at both addresses, by one socket each: one for each of a sandbox's ports would be its to fill this process with.
func (g *gateway) resolve(ctx context.Context) error {
	for protocol, addr := range map[tcpip.NetworkProtocolNumber]netip.Addr{ipv4.ProtocolNumber: egress.Gateway4, ipv6.ProtocolNumber: egress.Gateway6} {
		c, err := gonet.DialUDP(g.stack, &tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFromSlice(addr.AsSlice()), Port: dnsPort}, nil, protocol)
		if err != nil {
			return fmt.Errorf("open resolver's socket: %w", err)
		}
		g.work.Go(func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			buf := make([]byte, maxQuery)
			for {
				n, from, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				select {
				case g.lookups <- struct{}{}:
				default:
					continue
				}
				query := bytes.Clone(buf[:n])
				g.work.Go(func() {
					defer func() { <-g.lookups }()
					if reply := g.answer(ctx, query); reply != nil {
						_, _ = c.WriteTo(reply, from) // whoever does not hear it asks again
					}
				})
			}
		})
	}
	return nil
}

// queries answers queries by TCP (RFC 7766).
func (g *gateway) queries(ctx context.Context, r *tcp.ForwarderRequest) {
	select {
	case g.queriers <- struct{}{}:
		defer func() { <-g.queriers }()
	default:
		r.Complete(true)
		return
	}
	c, err := accept(r)
	if err != nil {
		return
	}
	defer g.leave(ctx, c)
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for {
		if c.SetDeadline(time.Now().Add(queryWait)) != nil || !g.query(ctx, c) {
			return
		}
	}
}

func (g *gateway) query(ctx context.Context, c net.Conn) bool {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return false
	}
	n := binary.BigEndian.Uint16(size[:])
	if n > maxQuery {
		return false
	}
	query := make([]byte, n)
	if _, err := io.ReadFull(c, query); err != nil {
		return false
	}
	reply := g.answer(ctx, query)
	if reply == nil {
		return false
	}
	_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
	return err == nil
}

func (g *gateway) answer(ctx context.Context, query []byte) []byte {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Dial)
	defer cancel()
	reply, l := g.table.Answer(ctx, query)
	if l.Refused != nil {
		if d := (Decision{Kind: "dns", Host: l.Name, At: time.Now()}); !g.reports.counterpart(l.Name, l.Type) {
			g.refused(d, l.Refused)
		}
	}
	return reply
}

package gateway

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/silk-sandbox/silk/egress"
)

// queryWait is how long the sandbox's side of a resolver's socket is kept without a query.
const queryWait = 10 * time.Second

// datagrams answers what a sandbox sends by UDP, which is nothing but queries to its resolver: all else is dropped.
func (g *gateway) datagrams(ctx context.Context, r *udp.ForwarderRequest) bool {
	id := r.ID()
	at := addrPort(id.LocalAddress, id.LocalPort)
	if !isResolver(at) {
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
	var queue waiter.Queue
	endpoint, err := r.CreateEndpoint(&queue)
	if err != nil {
		return true
	}
	c := gonet.NewUDPConn(&queue, endpoint)
	g.work.Go(func() {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
		query := make([]byte, egress.MTU)
		for {
			if c.SetReadDeadline(time.Now().Add(queryWait)) != nil {
				return
			}
			n, err := c.Read(query)
			if err != nil {
				return
			}
			if reply := g.answer(ctx, query[:n]); reply != nil {
				if _, err := c.Write(reply); err != nil {
					return
				}
			}
		}
	})
	return true
}

// queries answers queries by TCP (RFC 7766).
func (g *gateway) queries(ctx context.Context, r *tcp.ForwarderRequest) {
	c, err := accept(r)
	if err != nil {
		return
	}
	defer c.Close()
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
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
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
		g.refused(Decision{Kind: "dns", Host: l.Name, At: time.Now()}, l.Refused)
	}
	return reply
}

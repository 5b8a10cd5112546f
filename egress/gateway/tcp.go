package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/silk-sandbox/silk/egress"
)

// dnsPort is where the gateway answers queries.
const dnsPort = 53

func isResolver(at netip.AddrPort) bool {
	return at.Port() == dnsPort && (at.Addr() == egress.Gateway4 || at.Addr() == egress.Gateway6)
}

// connection takes one of a sandbox from its first packet to its end. settled says that the end of the sandbox need not wait for it.
func (g *gateway) connection(ctx context.Context, r *tcp.ForwarderRequest, settled func()) {
	id := r.ID()
	at := addrPort(id.LocalAddress, id.LocalPort)
	if isResolver(at) {
		settled()
		g.queries(ctx, r)
		return
	}
	d := Decision{Kind: "tcp", Host: at.Addr().String(), Port: at.Port(), At: time.Now(), Count: 1, Conn: g.conns.Add(1)}
	target, err := g.table.Destination(at)
	if name, ok := g.table.Name(at.Addr()); ok {
		d.Host = name
	}
	if err == nil {
		select {
		case g.slots <- struct{}{}:
			defer func() { <-g.slots }()
		default: // those that end count until the sandbox has acknowledged it, see leave
			err = g.table.InForce(&egress.Refusal{Rule: egress.RefusedConnections, Reason: fmt.Sprintf("the sandbox has %d connections already", g.cfg.Connections)})
		}
	}
	if err != nil {
		r.Complete(true)
		g.refused(d, err)
		return
	}
	if g.cfg.Life > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.cfg.Life, &limit{"life", fmt.Sprintf("the connection has lasted for %v, as long as one may", g.cfg.Life)})
		defer cancel()
	}
	if target.Protocol == egress.TCP {
		g.plain(ctx, r, target, d)
		return
	}
	guest, err := g.accept(r)
	if err != nil {
		g.ended(d, err)
		return
	}
	defer g.leave(ctx, guest)
	defer context.AfterFunc(ctx, func() { _ = guest.Close() })()
	defer g.whenLeft(guest)()
	said, hello, err := g.sniff(guest)
	switch {
	case errors.Is(err, errNothing):
		return
	case err != nil:
	case target.Protocol != egress.Any && hello.Protocol != target.Protocol:
		err = &egress.Refusal{Rule: egress.RefusedProtocol, Reason: fmt.Sprintf("the client speaks %s, and the rule for %s is %s", hello.Protocol, target.Host(), target.Protocol)}
	case hello.Protocol == egress.TLS && hello.Name != target.Name:
		err = &egress.Refusal{Rule: egress.RefusedName, Reason: fmt.Sprintf("the client asks %s for the server %s", target.Host(), hello.Name)}
	}
	secrets := g.secrets(target)
	if err == nil && len(secrets) > 0 && hello.Protocol == egress.HTTP && !g.table.Plain(target) {
		// The program chose to speak so: whoever listens on the way, or says that he is the host, would have the secret.
		err = &egress.Refusal{Rule: egress.RefusedProtocol, Reason: fmt.Sprintf("a secret for %s goes by HTTPS only; a rule http:%s:%d lets it go in the clear", target.Host(), target.Host(), target.Port)}
	}
	if err = g.table.InForce(err); err != nil {
		g.refused(d, err)
		return
	}
	if err := guest.SetReadDeadline(time.Time{}); err != nil { // sniff's
		g.ended(d, err)
		return
	}
	client := &spoken{Conn: guest, said: said}
	if hello.Protocol == egress.HTTP || len(secrets) > 0 {
		g.web.serve(ctx, client, target, hello.Protocol, secrets, d, settled)
		return
	}
	host, err := g.dial(ctx, target, &d)
	if err != nil {
		g.failed(d, err)
		return
	}
	g.begun(d)
	g.join(ctx, client, host, d)
}

// plain makes a connection whose client need not speak first: what it asks for is refused or there before it is answered.
func (g *gateway) plain(ctx context.Context, r *tcp.ForwarderRequest, target egress.Target, d Decision) {
	host, err := g.dial(ctx, target, &d)
	if err != nil {
		r.Complete(true)
		g.failed(d, err)
		return
	}
	g.begun(d)
	guest, err := g.accept(r)
	if err != nil {
		g.ended(d, errors.Join(err, host.Close()))
		return
	}
	defer g.leave(ctx, guest)
	g.join(ctx, guest, host, d)
}

// accept answers the sandbox, with a window that leave gives back.
func (g *gateway) accept(r *tcp.ForwarderRequest) (*guestConn, error) {
	c, err := accept(r)
	if err == nil {
		c.window = g.windows.take()
		c.endpoint.SocketOptions().SetSendBufferSize(int64(c.window), true)
		c.endpoint.SocketOptions().SetReceiveBufferSize(2*int64(c.window), true)
	}
	return c, err
}

func accept(r *tcp.ForwarderRequest) (*guestConn, error) {
	var queue waiter.Queue
	endpoint, err := r.CreateEndpoint(&queue)
	if err != nil {
		r.Complete(true)
		return nil, fmt.Errorf("answer sandbox: %s", err)
	}
	r.Complete(false)
	endpoint.SocketOptions().SetKeepAlive(true)
	return &guestConn{TCPConn: gonet.NewTCPConn(&queue, endpoint), endpoint: endpoint}, nil
}

// errNothing is of a client that has asked for nothing: it has looked whether somebody is there, it had another connection to the same host that was
// faster (RFC 8305), or the sandbox has ended. There is nothing to refuse, and nothing to tell.
var errNothing = errors.New("the client said nothing")

// sniff reads until it is known what the client speaks. The error is a [*egress.Refusal], or errNothing.
func (g *gateway) sniff(guest net.Conn) (said []byte, h egress.Hello, err error) {
	if err := guest.SetReadDeadline(time.Now().Add(g.cfg.Dial)); err != nil {
		return nil, h, fmt.Errorf("bound the wait for the client: %w", err)
	}
	buf := make([]byte, 4<<10)
	for {
		n, readErr := guest.Read(buf)
		said = append(said, buf[:n]...)
		h, err = egress.Sniff(said)
		switch {
		case err == nil:
			return said, h, nil
		case !errors.Is(err, egress.ErrMore):
			return said, h, &egress.Refusal{Rule: egress.RefusedProtocol, Reason: err.Error()}
		case readErr != nil && (errors.Is(readErr, io.EOF) && len(said) == 0 || g.hasLeft()):
			return said, h, errNothing
		case readErr != nil:
			return said, h, &egress.Refusal{Rule: egress.RefusedProtocol, Reason: fmt.Sprintf("the client did not say in %v what it speaks; where the server speaks first the rule is tcp:host:port", g.cfg.Dial)}
		}
	}
}

// dial connects to a target.
func (g *gateway) dial(ctx context.Context, target egress.Target, d *Decision) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Dial)
	defer cancel()
	addrs, err := g.table.Addresses(ctx, target)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, addr := range addrs {
		c, err := g.cfg.dialer(ctx, addr)
		if err == nil {
			d.Addr = addr.Addr()
			return c, nil
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// join passes bytes both ways until both sides have said all, one has failed, or a limit is reached.
func (g *gateway) join(ctx context.Context, guest, host net.Conn, d Decision) {
	defer g.whenLeft(guest, host)()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { // whoever waits for one of them goes on
		if errors.Is(context.Cause(ctx), context.Canceled) { // the sandbox is gone, and has said all
			_, _ = guest.Close(), host.Close()
			return
		}
		cut(guest)
		cut(host)
	})()
	idle := time.AfterFunc(g.cfg.Idle, func() { cancel(&limit{"idle", fmt.Sprintf("no byte came for %v", g.cfg.Idle)}) })
	defer idle.Stop()
	way := func(to, from net.Conn, n *int64) error {
		err := g.pass(ctx, to, from, n, idle)
		if err != nil {
			cancel(err)
		}
		return err
	}
	back := make(chan error, 1)
	go func() { back <- way(guest, host, &d.Taken) }()
	err := way(host, guest, &d.Sent)
	if other := <-back; err != nil || other != nil {
		err = context.Cause(ctx) // which was first
	}
	_, _ = guest.Close(), host.Close()
	g.ended(d, err)
}

// pass copies from one side to the other and says there that it was all.
func (g *gateway) pass(ctx context.Context, to, from net.Conn, n *int64, idle *time.Timer) error {
	buf := make([]byte, bufferBytes)
	for {
		if g.hasLeft() {
			if err := from.SetReadDeadline(time.Now().Add(afterSilence)); err != nil {
				return err
			}
		}
		got, err := from.Read(buf)
		if got > 0 {
			if err := g.take(ctx, got); err != nil {
				return err
			}
			if _, err := to.Write(buf[:got]); err != nil {
				return err
			}
			*n += int64(got)
			idle.Reset(g.cfg.Idle)
		}
		var timeout net.Error
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), g.hasLeft() && errors.As(err, &timeout) && timeout.Timeout():
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				return half.CloseWrite()
			}
			return to.Close()
		default:
			return err
		}
	}
}

// refused tells that something was.
func (g *gateway) refused(d Decision, err error) {
	d.Rule, d.Reason = "host", err.Error()
	if r, ok := errors.AsType[*egress.Refusal](err); ok {
		d.Rule = r.Rule
	}
	g.reports.refused(clipped(d))
}

// clipped bounds the words of the sandbox's choice in a decision: a Host header may have 64 KiB.
func clipped(d Decision) Decision {
	d.Host, d.Reason = clip(d.Host, maxHost), clip(d.Reason, maxReason)
	return d
}

// Bounds of what a decision says.
const (
	maxHost   = 255 // of a name, RFC 1035 section 2.3.4
	maxReason = 1 << 10
)

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// failed tells of a connection that did not come about: the address was refused, or the host's network did not get there.
func (g *gateway) failed(d Decision, err error) {
	if _, ok := errors.AsType[*egress.Refusal](err); ok {
		g.refused(d, err)
		return
	}
	g.ended(d, err)
}

// begun tells of a connection that has come about, which [gateway.ended] tells of again.
func (g *gateway) begun(d Decision) {
	d.Allowed = true
	g.cfg.Begun(clipped(d))
}

// ended tells of a connection that was allowed.
func (g *gateway) ended(d Decision, err error) {
	d.Allowed, d.Lasted = true, time.Since(d.At)
	if l, ok := errors.AsType[*limit](err); ok {
		d.Rule, d.Reason = l.rule, l.reason
	} else if err != nil && d.Sent+d.Taken == 0 {
		d.Reason = err.Error()
	}
	g.cfg.Decided(clipped(d))
}

// spoken is a connection of which something was read already.
type spoken struct {
	net.Conn
	said []byte
}

func (s *spoken) Read(b []byte) (int, error) {
	if len(s.said) > 0 {
		n := copy(b, s.said)
		s.said = s.said[n:]
		return n, nil
	}
	return s.Conn.Read(b)
}

// CloseWrite says that it was all. Below may be a connection of the stack, or one that speaks TLS by it.
func (s *spoken) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return s.Conn.Close()
}

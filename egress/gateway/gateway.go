// Package gateway is the network that a sandbox sees: a router and a resolver, in a stack of our own, behind its only link.
//
// Whatever a packet says, what happens is decided by an [egress.Table] before anything is dialled: connections are ended here, by gVisor's
// tcpip, and made anew on the host's side by an ordinary dial. No packet of a sandbox reaches the host's network, and none of that
// network's a sandbox. One process can serve many sandboxes; if it dies, they have no network.
//
// # Confinement
//
// The process has the host's network and what secrets it was given, and reads what strangers write. [Confine] takes the rest away, in layers that
// hold one without the other (TestIntruder):
//
//   - its own user on the host, where silk is root (package egress/process); an ordinary user's gateway is that user's process;
//   - no new privileges, no capabilities, not dumpable: other processes of that user may not trace it or read its memory;
//   - Landlock: below the folders of the resolver's files and of the host's certificates it may read, and has nothing else of the file system; no TCP
//     port of its own, no signal to others, none of their abstract sockets. Where the kernel has none, the next layer is alone;
//   - a filter of system calls: files are opened to be read, sockets are of IP and connect, memory is not executed. No bind, no listen, no UNIX
//     sockets, no program, no other process. What is unknown is not permitted, what only an intruder calls ends the process;
//   - limits: no core dump, no file written, memory (1 GiB that the collector holds to, 4 GiB that the kernel does), descriptors;
//   - no environment, and no descriptor but the engine's socket, standard error and the sandboxes' links.
package gateway

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/link"
)

// Config is how much of the network a sandbox gets. Zero values mean the defaults.
type Config struct {
	egress.Limits

	Dial time.Duration // for a connection to come about, and for a client to say what it speaks; default 10 s
	Idle time.Duration // without a byte, after which a connection ends; default 5 min

	Secrets   []egress.Secret   // for hosts of the table's rules
	Authority *egress.Authority // the sandbox trusts it; needed for Secrets of hosts that speak TLS
	Roots     *x509.CertPool    // whom to trust where this gateway stands in for a host; nil: the host's own

	// Decided is told what was decided: an allowed connection when it has ended, a refusal at once. It is called from many
	// goroutines. nil tells nobody.
	Decided func(Decision)

	// Begun is told of each connection to a host when it has come about, with the number (Conn) that Decided hears at its end. nil tells nobody.
	Begun func(Decision)

	dialer func(ctx context.Context, to netip.AddrPort) (net.Conn, error) // tests
}

func (c Config) withDefaults() Config {
	if c.Connections == 0 {
		c.Connections = 256
	}
	if c.Bytes == 0 {
		c.Bytes = 10 << 30
	}
	if c.Dial == 0 {
		c.Dial = 10 * time.Second
	}
	if c.Idle == 0 {
		c.Idle = 5 * time.Minute
	}
	if c.Decided == nil {
		c.Decided = func(Decision) {}
	}
	if c.Begun == nil {
		c.Begun = func(Decision) {}
	}
	if c.dialer == nil {
		c.dialer = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", to.String())
		}
	}
	return c
}

// gateway serves one sandbox.
type gateway struct {
	cfg     Config
	table   *egress.Table
	stack   *stack.Stack
	reports *reports
	web     *web
	conns   atomic.Uint64 // so far

	slots    chan struct{} // one for each connection
	queriers chan struct{} // one for each connection with queries
	lookups  chan struct{} // one for each query by UDP
	quota    quota
	windows  windows
	work     sync.WaitGroup

	ending sync.Mutex
	over   bool // nothing begins any more

	left chan struct{} // closed when nothing more comes from the sandbox
	open count         // connections with something to pass on
}

// begin says whether a connection may begin, which then says g.work.Done. The stack calls in goroutines of its own.
func (g *gateway) begin() bool {
	g.ending.Lock()
	defer g.ending.Unlock()
	if !g.over {
		g.work.Add(1)
	}
	return !g.over
}

// Bounds of what a sandbox has of this process, besides its connections: a sandbox that wants all of it must not have the memory of all.
const (
	maxInFlight = 512                    // connections that are neither made nor refused yet
	maxQueriers = 16                     // connections to the resolver
	maxLookups  = 32                     // queries by UDP that are not answered yet; others are dropped, as a resolver does that has too much to do
	bufferBytes = egress.MTU - maxHeader // what is passed on at once: a packet

	queuePackets = 128 // to a sandbox that has not taken them; others are lost, as on any link

	// How long the stack keeps a connection that it has ended. Nothing is late on a link of memory.
	timeWait  = time.Second
	finWaiter = 5 * time.Second
)

// Serve serves the sandbox at the other end of a link, a SOCK_SEQPACKET socket of which each message is one IP packet, until that end is gone or the
// socket is shut down, which is no error; where ctx ends, the caller shuts it down. When Serve returns nothing is left: every connection is closed,
// every decision told, and the socket is the caller's to close.
func Serve(ctx context.Context, sock int, table *egress.Table, cfg Config) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg = cfg.withDefaults()
	g := &gateway{
		cfg: cfg, table: table, slots: make(chan struct{}, cfg.Connections), queriers: make(chan struct{}, maxQueriers), lookups: make(chan struct{}, maxLookups), left: make(chan struct{}),
		reports: newReports(cfg.Decided),
	}
	g.windows.left = spareWindows
	g.quota.left.Store(cfg.Bytes)
	g.quota.rate = cfg.Rate
	g.web = newWeb(g)
	endpoint := link.New(sock, egress.MTU, queuePackets)
	if g.stack, err = newStack(endpoint); err != nil {
		return err
	}
	forwarder := tcp.NewForwarder(g.stack, 2*leastWindow, maxInFlight, func(r *tcp.ForwarderRequest) {
		if !g.begin() {
			r.Complete(true)
			return
		}
		defer g.work.Done()
		g.open.add(1)
		settled := sync.OnceFunc(func() { g.open.add(-1) })
		defer settled()
		g.connection(ctx, r, settled)
	})
	g.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, forwarder.HandlePacket)
	g.stack.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(g.stack, func(r *udp.ForwarderRequest) bool {
		return g.datagrams(ctx, r)
	}).HandlePacket)
	if err := g.resolve(ctx); err != nil {
		g.web.close()
		g.stack.Close()
		g.stack.Wait()
		return err
	}

	g.work.Go(endpoint.Send)
	err = endpoint.Receive(passes)
	close(g.left)
	g.drain(ctx)
	cancel()
	endpoint.Close()
	g.stack.Close() // ends every connection on the sandbox's side
	g.web.close()
	g.ending.Lock()
	g.over = true
	g.ending.Unlock()
	g.work.Wait()
	g.stack.Wait()
	g.reports.end()
	return err
}

// nic is the number of the stack's only network interface.
const nic = 1

// newStack makes a stack that has every address.
func newStack(endpoint stack.LinkEndpoint) (*stack.Stack, error) {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	sack, wait, linger := tcpip.TCPSACKEnabled(true), tcpip.TCPTimeWaitTimeoutOption(timeWait), tcpip.TCPLingerTimeoutOption(finWaiter)
	set := func(o tcpip.SettableTransportProtocolOption) tcpip.Error {
		return s.SetTransportProtocolOption(tcp.ProtocolNumber, o)
	}
	for _, err := range []tcpip.Error{
		s.CreateNIC(nic, endpoint), s.SetPromiscuousMode(nic, true), s.SetSpoofing(nic, true), set(&sack), set(&wait), set(&linger),
		set(&tcpip.TCPSendBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: leastWindow, Max: leastWindow}),
		set(&tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: 2 * leastWindow, Max: 2 * maxWindow}), // Max is the largest window that can be offered
		own(s, ipv4.ProtocolNumber, egress.Gateway4), own(s, ipv6.ProtocolNumber, egress.Gateway6),
	} {
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("make network stack: %s", err)
		}
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic}})
	return s, nil
}

// own gives the stack an address at which it is itself, and not in somebody's name.
func own(s *stack.Stack, protocol tcpip.NetworkProtocolNumber, addr netip.Addr) tcpip.Error {
	return s.AddProtocolAddress(nic, tcpip.ProtocolAddress{Protocol: protocol, AddressWithPrefix: tcpip.AddrFromSlice(addr.AsSlice()).WithPrefix()}, stack.AddressProperties{})
}

// addrPort is an address of the stack's.
func addrPort(a tcpip.Address, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(a.AsSlice())
	return netip.AddrPortFrom(addr, port)
}

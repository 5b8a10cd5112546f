package gateway

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/link"
)

// sandbox is the other end of a gateway's link: a stack as the Sentry's is.
type sandbox struct {
	t     testing.TB
	stack *stack.Stack
	link  packets

	mu        sync.Mutex
	decisions []Decision
	want      func([]byte) bool // of packets that the stack is not given
	wanted    chan []byte
	end       func()
}

// watch takes packets from the gateway that are wanted, before the sandbox's stack has them.
func (s *sandbox) watch(want func([]byte) bool) <-chan []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want, s.wanted = want, make(chan []byte, 16)
	return s.wanted
}

// packets is a sandbox's end of a link, to be written to around its stack.
type packets int

func (p packets) Write(b []byte) (int, error) { return unix.Write(int(p), b) }

// pairOf makes a link.
func pairOf(t testing.TB) [2]int {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range pair {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20); err != nil { // as egress/process has it
			t.Fatal(err)
		}
	}
	return pair
}

// enter starts a gateway with its sandbox. Names lead to the addresses of hosts; whatever is dialled arrives at the port it was
// dialled with, on this host's loopback.
func enter(t testing.TB, cfg egress.Config, limits Config) *sandbox {
	t.Helper()
	pair := pairOf(t)
	s := &sandbox{t: t, link: packets(pair[0])}
	limits.Decided = func(d Decision) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.decisions = append(s.decisions, d)
	}
	if limits.dialer == nil {
		limits.dialer = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port()).String())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, pair[1], egress.New(cfg), limits) }()

	leave := s.settle(pair[0])
	s.end = sync.OnceFunc(func() {
		_ = unix.Shutdown(pair[0], unix.SHUT_RDWR)
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the gateway does not end with its link")
		}
		cancel()
		_ = unix.Shutdown(pair[1], unix.SHUT_RDWR)
		leave()
		_, _ = unix.Close(pair[0]), unix.Close(pair[1])
	})
	t.Cleanup(s.end)
	return s
}

// settle gives the sandbox a stack, at its end of a link. leave takes it away when that is shut down.
func (s *sandbox) settle(sock int) (leave func()) {
	s.t.Helper()
	t := s.t
	endpoint := link.New(sock, egress.MTU, 512)
	s.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	if err := s.stack.CreateNIC(1, endpoint); err != nil {
		t.Fatal(err)
	}
	for protocol, addr := range map[tcpip.NetworkProtocolNumber]netip.Addr{ipv4.ProtocolNumber: egress.Sandbox4, ipv6.ProtocolNumber: egress.Sandbox6} {
		if err := s.stack.AddProtocolAddress(1, tcpip.ProtocolAddress{Protocol: protocol, AddressWithPrefix: tcpip.AddrFromSlice(addr.AsSlice()).WithPrefix()}, stack.AddressProperties{}); err != nil {
			t.Fatal(err)
		}
	}
	s.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}, {Destination: header.IPv6EmptySubnet, NIC: 1}})
	var pumps sync.WaitGroup
	pumps.Go(endpoint.Send)
	pumps.Go(func() {
		_ = endpoint.Receive(func(first []byte) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.want == nil || !s.want(first) {
				return true
			}
			select {
			case s.wanted <- bytes.Clone(first):
			default:
			}
			return false
		})
	})
	return func() {
		endpoint.Close()
		s.stack.Close()
		pumps.Wait()
	}
}

func (s *sandbox) dial(to netip.AddrPort) (*gonet.TCPConn, error) {
	protocol := ipv4.ProtocolNumber
	if to.Addr().Is6() {
		protocol = ipv6.ProtocolNumber
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return gonet.DialContextTCP(ctx, s.stack, tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFromSlice(to.Addr().AsSlice()), Port: to.Port()}, protocol)
}

// connect connects to a name, looked up as a program does.
func (s *sandbox) connect(name string, port uint16) (*gonet.TCPConn, error) {
	s.t.Helper()
	addr, rcode := s.lookup(name, dnsmessage.TypeA)
	if rcode != dnsmessage.RCodeSuccess {
		s.t.Fatalf("%s: %v", name, rcode)
	}
	return s.dial(netip.AddrPortFrom(addr, port))
}

func (s *sandbox) lookup(name string, typ dnsmessage.Type) (addr netip.Addr, rcode dnsmessage.RCode) {
	s.t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 1, RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: typ, Class: dnsmessage.ClassINET}}}
	query, err := m.Pack()
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := gonet.DialUDP(s.stack, nil, &tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFromSlice(egress.Gateway4.AsSlice()), Port: 53}, ipv4.ProtocolNumber)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := c.Write(query); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		s.t.Fatalf("no answer for %s: %v", name, err)
	}
	var reply dnsmessage.Message
	if err := reply.Unpack(b[:n]); err != nil {
		s.t.Fatal(err)
	}
	for _, a := range reply.Answers {
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			addr = netip.AddrFrom4(body.A)
		case *dnsmessage.AAAAResource:
			addr = netip.AddrFrom16(body.AAAA)
		}
	}
	return addr, reply.RCode
}

// decided waits for the n-th decision and returns all.
func (s *sandbox) decided(n int) []Decision {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		s.mu.Lock()
		all := append([]Decision(nil), s.decisions...)
		s.mu.Unlock()
		if len(all) >= n {
			return all
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d decisions, want %d: %+v", len(all), n, all)
		}
		<-time.After(time.Millisecond)
	}
}

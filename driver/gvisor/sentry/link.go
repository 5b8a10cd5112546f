package sentry

import (
	"fmt"

	"gvisor.dev/gvisor/pkg/sentry/socket/netstack"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/internal/link"
)

// linkNIC is the number of the interface; 1 is lo.
const linkNIC = 2

// linkQueue is how many packets wait while the socket takes none; more are dropped, as on any network.
const linkQueue = 512

// addLink gives the sandbox an interface eth0, whose packets go over a socket. The socket is all there is: the Sentry has no other network,
// and what becomes of a packet is decided at the other end.
func (b *box) addLink(to wire.Link, sock int) error {
	s, ok := b.kernel().RootNetworkNamespace().Stack().(*netstack.Stack)
	if !ok {
		return fmt.Errorf("the sandbox has no network stack of its own")
	}
	endpoint := link.New(sock, uint32(to.MTU), linkQueue)
	if err := s.Stack.CreateNICWithOptions(linkNIC, endpoint, stack.NICOptions{Name: "eth0"}); err != nil {
		return fmt.Errorf("make network interface: %s", err)
	}
	var routes []tcpip.Route
	for _, addr := range to.Addrs {
		protocol, all := ipv4.ProtocolNumber, header.IPv4EmptySubnet
		if addr.Is6() {
			protocol, all = ipv6.ProtocolNumber, header.IPv6EmptySubnet
		}
		own := tcpip.ProtocolAddress{Protocol: protocol, AddressWithPrefix: tcpip.AddrFromSlice(addr.AsSlice()).WithPrefix()}
		if err := s.Stack.AddProtocolAddress(linkNIC, own, stack.AddressProperties{}); err != nil {
			return fmt.Errorf("give network interface the address %s: %s", addr, err)
		}
		routes = append(routes, tcpip.Route{Destination: all, NIC: linkNIC})
	}
	for _, route := range routes {
		s.Stack.AddRoute(route)
	}
	go endpoint.Send()
	go func() {
		_ = endpoint.Receive(func([]byte) bool { return true })
		s.Stack.DisableNIC(linkNIC) // programs are told that there is no network, in place of waiting for answers
	}()
	return nil
}

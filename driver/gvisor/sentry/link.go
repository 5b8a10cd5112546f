package sentry

import (
	"fmt"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/sentry/socket/netstack"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
)

// linkNIC is the number of the interface; 1 is lo.
const linkNIC = 2

// linkQueue is how many packets wait for the other end; more are dropped, as on any network.
const linkQueue = 512

// addLink gives the sandbox an interface eth0, whose packets go over a socket. The socket is all there is: the Sentry has no other network,
// and what becomes of a packet is decided at the other end.
func (b *box) addLink(link wire.Link, sock int) error {
	s, ok := b.kernel().RootNetworkNamespace().Stack().(*netstack.Stack)
	if !ok {
		return fmt.Errorf("the sandbox has no network stack of its own")
	}
	endpoint := channel.New(linkQueue, uint32(link.MTU), "")
	if err := s.Stack.CreateNICWithOptions(linkNIC, endpoint, stack.NICOptions{Name: "eth0"}); err != nil {
		return fmt.Errorf("make network interface: %s", err)
	}
	var routes []tcpip.Route
	for _, addr := range link.Addrs {
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
	go sendPackets(endpoint, sock)
	go func() {
		receivePackets(endpoint, sock)
		s.Stack.DisableNIC(linkNIC) // programs are told that there is no network, in place of waiting for answers
	}()
	return nil
}

// sendPackets ends when the other end is gone: what is sent then goes nowhere.
func sendPackets(endpoint *channel.Endpoint, sock int) {
	for {
		p := endpoint.ReadContext(context.Background())
		if p == nil {
			return
		}
		view := p.ToView()
		_, err := unix.Write(sock, view.AsSlice())
		view.Release()
		p.DecRef()
		if err != nil && err != unix.EINTR {
			return
		}
	}
}

// receivePackets ends when the other end is gone.
func receivePackets(endpoint *channel.Endpoint, sock int) {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(sock, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		protocol := ipv4.ProtocolNumber
		if header.IPVersion(buf[:n]) == header.IPv6Version {
			protocol = ipv6.ProtocolNumber
		}
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(buf[:n])})
		endpoint.InjectInbound(protocol, p)
		p.DecRef()
	}
}

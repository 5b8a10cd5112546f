package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// configure gives an interface its size, addresses and routes, in the namespace of this thread.
func configure(name string, mtu int, addrs []netip.Addr) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("speak to the kernel about interfaces: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request)
	}
	if err != nil {
		return fmt.Errorf("find interface: %w", err)
	}
	index := request.Uint32()
	up := unix.IfInfomsg{Family: unix.AF_UNSPEC, Index: int32(index), Flags: unix.IFF_UP, Change: unix.IFF_UP}
	if err := ask(fd, unix.RTM_NEWLINK, 0, up, attribute{unix.IFLA_MTU, number(uint32(mtu))}); err != nil {
		return fmt.Errorf("switch interface on, with packets of %d bytes: %w", mtu, err)
	}
	for _, a := range addrs {
		if err := address(fd, index, a); err != nil {
			return fmt.Errorf("give interface the address %s: %w", a, err)
		}
		if err := route(fd, index, a.Is4()); err != nil {
			return fmt.Errorf("lead everything else from %s by way of the interface: %w", a, err)
		}
	}
	return nil
}

func family(v4 bool) uint8 {
	if v4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func address(fd int, index uint32, a netip.Addr) error {
	m := unix.IfAddrmsg{Family: family(a.Is4()), Prefixlen: uint8(a.BitLen()), Flags: unix.IFA_F_NODAD, Index: index}
	return ask(fd, unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, m, attribute{unix.IFA_LOCAL, a.AsSlice()}, attribute{unix.IFA_ADDRESS, a.AsSlice()})
}

func route(fd int, index uint32, v4 bool) error {
	m := unix.RtMsg{Family: family(v4), Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_STATIC, Scope: unix.RT_SCOPE_UNIVERSE, Type: unix.RTN_UNICAST}
	if v4 {
		m.Scope = unix.RT_SCOPE_LINK // there is no router in between
	}
	return ask(fd, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, m, attribute{unix.RTA_OIF, number(index)})
}

// attribute is struct rtattr, rtnetlink(7).
type attribute struct {
	kind  uint16
	value []byte
}

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// ask makes one request of rtnetlink(7) and returns the kernel's answer to it. body is a struct of package unix.
func ask(fd int, kind, flags uint16, body any, attributes ...attribute) error {
	text, err := binary.Append(nil, binary.NativeEndian, body)
	if err != nil {
		return err
	}
	for _, a := range attributes {
		text = binary.NativeEndian.AppendUint16(text, uint16(unix.SizeofRtAttr+len(a.value)))
		text = append(binary.NativeEndian.AppendUint16(text, a.kind), a.value...)
		for len(text)%unix.RTA_ALIGNTO != 0 {
			text = append(text, 0)
		}
	}
	head := unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + len(text)), Type: kind, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | flags}
	message, err := binary.Append(nil, binary.NativeEndian, head)
	if err != nil {
		return err
	}
	if err := unix.Sendto(fd, append(message, text...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("the kernel answers something else")
	}
	if errno := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}

package gateway

import (
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownAddresses are the host's, as the kernel has them now (rtnetlink(7), RTM_GETADDR). Package net would bind its socket, and a confined gateway
// may not.
func ownAddresses() (own []netip.Addr, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	request := struct {
		unix.NlMsghdr
		unix.IfAddrmsg
	}{unix.NlMsghdr{Type: unix.RTM_GETADDR, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP, Seq: 1}, unix.IfAddrmsg{}}
	request.Len = uint32(unsafe.Sizeof(request))
	if err := unix.Sendto(fd, unsafe.Slice((*byte)(unsafe.Pointer(&request)), request.Len), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return nil, err
		}
		if kernel, ok := from.(*unix.SockaddrNetlink); !ok || kernel.Pid != 0 {
			continue // somebody else's
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return own, nil
			case unix.NLMSG_ERROR:
				return nil, fmt.Errorf("the kernel refuses: %x", m.Data)
			case unix.RTM_NEWADDR:
				attributes, err := syscall.ParseNetlinkRouteAttr(&m)
				if err != nil {
					return nil, err
				}
				for _, a := range attributes { // IFA_LOCAL is this host where IFA_ADDRESS is the other end of a line
					if addr, ok := netip.AddrFromSlice(a.Value); ok && (a.Attr.Type == unix.IFA_LOCAL || a.Attr.Type == unix.IFA_ADDRESS) {
						own = append(own, addr.Unmap())
					}
				}
			}
		}
	}
}

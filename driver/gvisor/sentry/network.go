package sentry

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
)

// networkCalls decide which sockets exist. AF_UNIX is free: it ends at the sandbox's own kernel. The network stack has
// no way out in any case; what stands here turns the attempt into a violation instead of an error that a program may
// retry for ever.
func (g *guard) networkCalls() map[string]rule {
	return map[string]rule{
		"socket":   g.socket,
		"connect":  g.destination(func(c *call) (hostarch.Addr, uint32, error) { return c.args[1].Pointer(), c.args[2].Uint(), nil }),
		"sendto":   g.destination(func(c *call) (hostarch.Addr, uint32, error) { return c.args[4].Pointer(), c.args[5].Uint(), nil }),
		"sendmsg":  g.destination(func(c *call) (hostarch.Addr, uint32, error) { return messageName(c.task, c.args[1].Pointer()) }),
		"sendmmsg": g.destinations,
	}
}

func (g *guard) socket(c *call) (uintptr, *kernel.SyscallControl, error) {
	family, kind := c.args[0].Int(), c.args[1].Int()&linux.SOCK_TYPE_MASK
	if r := g.socketRule(family, kind); r != "" {
		if r == rules.NetworkFamily { // libc falls back
			return 0, nil, g.refuse(c, r, fmt.Sprintf("family %d", family))
		}
		return g.violate(c, r, familyName(family, kind))
	}
	n, ctrl, err := c.proceed()
	g.seen(c, familyName(family, kind), err)
	return n, ctrl, err
}

// socketRule is the rule that forbids a socket, or "".
func (g *guard) socketRule(family, kind int32) string {
	inet := family == linux.AF_INET || family == linux.AF_INET6
	for _, r := range []struct {
		name    string
		matches bool
	}{
		{rules.NetworkRaw, inet && kind == int32(linux.SOCK_RAW)},
		{rules.NetworkInet, inet && g.network == driver.NetworkDeny},
		{rules.NetworkPacket, family == linux.AF_PACKET},
		{rules.NetworkVsock, family == unix.AF_VSOCK},
		{rules.NetworkFamily, !inet && family != linux.AF_UNIX && family != linux.AF_PACKET && family != unix.AF_VSOCK},
	} {
		if r.matches && g.on(r.name) {
			return r.name
		}
	}
	return ""
}

func familyName(family, kind int32) string {
	names := map[int32]string{linux.AF_UNIX: "AF_UNIX", linux.AF_INET: "AF_INET", linux.AF_INET6: "AF_INET6", linux.AF_PACKET: "AF_PACKET", unix.AF_VSOCK: "AF_VSOCK"}
	kinds := map[int32]string{int32(linux.SOCK_STREAM): "SOCK_STREAM", int32(linux.SOCK_DGRAM): "SOCK_DGRAM", int32(linux.SOCK_RAW): "SOCK_RAW"}
	k, ok := kinds[kind]
	if !ok {
		k = fmt.Sprint(kind)
	}
	return names[family] + ", " + k
}

// destination checks the address that a call sends to. An address that cannot be read is the call's end: the guest may
// make it readable a moment later. It may also change it after the check; then the network stack, which has no route but
// loopback, answers ENETUNREACH.
func (g *guard) destination(address func(*call) (hostarch.Addr, uint32, error)) rule {
	return func(c *call) (uintptr, *kernel.SyscallControl, error) {
		addr, size, err := address(c)
		if err != nil {
			return 0, nil, err
		}
		to, outside, err := destinationOf(c.task, addr, size)
		switch {
		case err != nil:
			return 0, nil, err
		case outside && g.network != driver.NetworkLink && g.on(rules.NetworkOutside):
			return g.violate(c, rules.NetworkOutside, to)
		}
		n, ctrl, err := c.proceed()
		if to != "" {
			g.seen(c, to, err)
		}
		return n, ctrl, err
	}
}

func (g *guard) destinations(c *call) (uintptr, *kernel.SyscallControl, error) {
	const sizeofMmsghdr = 64 // struct mmsghdr, include/linux/socket.h
	vector, n := c.args[1].Pointer(), min(c.args[2].Uint(), linux.UIO_MAXIOV)
	for i := range n {
		addr, size, err := messageName(c.task, vector+hostarch.Addr(i)*sizeofMmsghdr)
		if err != nil {
			return 0, nil, err
		}
		to, outside, err := destinationOf(c.task, addr, size)
		switch {
		case err != nil:
			return 0, nil, err
		case outside && g.network != driver.NetworkLink && g.on(rules.NetworkOutside):
			return g.violate(c, rules.NetworkOutside, to)
		}
	}
	return c.proceed()
}

// messageName reads msg_name and msg_namelen of a struct msghdr (recvmsg(2)).
func messageName(t *kernel.Task, msg hostarch.Addr) (hostarch.Addr, uint32, error) {
	var b [12]byte
	if _, err := t.CopyInBytes(msg, b[:]); err != nil {
		return 0, 0, err
	}
	return hostarch.Addr(binary.LittleEndian.Uint64(b[:8])), binary.LittleEndian.Uint32(b[8:]), nil
}

// destinationOf reads a socket address and says whether it lies outside the sandbox. to is empty if there is none.
func destinationOf(t *kernel.Task, addr hostarch.Addr, size uint32) (to string, outside bool, err error) {
	if addr == 0 || size < 2 {
		return "", false, nil
	}
	b := make([]byte, min(size, 128)) // sizeof(struct sockaddr_storage)
	if _, err := t.CopyInBytes(addr, b); err != nil {
		return "", false, err
	}
	return addressText(b), outsideAddress(b), nil
}

// outsideAddress says whether a socket address is an IP address that is not the sandbox's own.
func outsideAddress(b []byte) bool {
	to, ok := ipOf(b)
	ip := to.Addr().Unmap()
	return ok && !ip.IsLoopback() && !ip.IsUnspecified() // connecting to 0.0.0.0 or :: means this host, ip(7)
}

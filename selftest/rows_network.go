package selftest

import (
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/profile"
)

// sockets are what cannot even be made where the network is denied.
func sockets() []Row {
	unknown := behind(kernel("EAFNOSUPPORT", noFamily))
	return class(
		"sockets where the network is denied", rules.NetworkInet, happens,
		Row{Name: "TCP", Attack: do("socket", "inet", "stream", "0")},
		Row{Name: "UDP", Attack: do("socket", "inet", "dgram", "0")},
		Row{Name: "TCP over IPv6", Attack: do("socket", "inet6", "stream", "0")},
		Row{Name: "UDP over IPv6, in a child", Attack: do("in-child", "socket", "inet6", "dgram", "0")},
		Row{Name: "raw packets", Rule: rules.NetworkRaw, Attack: do("socket", "inet", "raw", "1"), Behind: thenRule(rules.NetworkInet, kernel("EPERM|EACCES", noCapability))},
		Row{Name: "frames of a device", Rule: rules.NetworkPacket, Attack: do("socket", "packet", "raw", "0x300"), Behind: behind(kernel("EPERM", noCapability))},
		Row{Name: "a virtual machine's host", Rule: rules.NetworkVsock, Attack: do("socket", "vsock", "stream", "0"), Behind: unknown},
		Row{Name: "the kernel's own messages", Rule: rules.NetworkFamily, Attack: do("socket", "netlink", "raw", "0"), Behind: happens},
		Row{Name: "ciphers of the kernel", Rule: rules.NetworkFamily, Attack: do("socket", "alg", "seqpacket", "0"), Behind: unknown},
		Row{Name: "rings of packets", Rule: rules.NetworkFamily, Attack: do("socket", "xdp", "raw", "0"), Behind: unknown},
		Row{Name: "a pair of INET sockets", Attack: do("socketpair", "inet"), Want: Want{Errno: "EAFNOSUPPORT|EOPNOTSUPP|EPROTONOSUPPORT|ESOCKTNOSUPPORT"}},
		Row{Name: "a pair of Unix sockets, which is ordinary", Attack: do("unix-echo"), Want: Want{Effect: true}},
	)
}

// destinations are addresses outside, where sockets may be made but stay inside.
func destinations() []Row {
	rows := class(
		"destinations outside the loopback", rules.NetworkOutside, behind(kernel("ENETUNREACH", noRoute)),
		Row{Name: "TCP to a public address", Attack: do("send", "connect", "1.1.1.1:443")},
		Row{Name: "a datagram without connect", Attack: do("send", "sendto", "8.8.8.8:53")},
		Row{Name: "sendmsg(2)", Attack: do("send", "sendmsg", "8.8.8.8:53")},
		Row{Name: "sendmmsg(2), the second of two messages", Attack: do("send-second", "8.8.8.8:53")},
		Row{Name: "TCP fast open", Attack: do("send", "fastopen", "1.0.0.1:80"), Behind: behind(kernel("EPIPE", "the sandbox's kernel connects with connect(2) only"))},
		Row{Name: "the metadata of a cloud", Attack: do("send", "connect", "169.254.169.254:80")},
		Row{Name: "IPv4 inside IPv6", Attack: do("send", "connect", "[::ffff:10.0.0.1]:22")},
		Row{Name: "IPv6 to a neighbour", Attack: do("send", "sendto", "[fe80::1]:5353")},
		Row{Name: "multicast", Attack: do("send", "sendto", "224.0.0.251:5353")},
	)
	return inLoopback(rows)
}

// loopback is what the loopback of a sandbox must not be.
func loopback() []Row {
	return inLoopback(class(
		"the loopback", "", nil,
		Row{Name: "the host's own", Attack: do("send", "connect", "127.0.0.1:{port}"), Want: Want{Errno: "ECONNREFUSED"}},
		Row{Name: "raw packets", Rule: rules.NetworkRaw, Attack: do("socket", "inet6", "raw", "58"), Behind: behind(kernel("EPERM|EACCES", noCapability))},
		Row{Name: "frames of the device", Rule: rules.NetworkPacket, Attack: do("socket", "packet", "dgram", "0x300"), Behind: behind(kernel("EPERM", noCapability))},
		Row{Name: "an address outside whose family is not said", Attack: do("send-unspec", "8.8.8.8:53"), Want: Want{Errno: "EINVAL|EAFNOSUPPORT|EDESTADDRREQ|ENETUNREACH"}},
		Row{Name: "other network devices", Attack: do("addresses"), Want: Want{Errno: "0"}},
		Row{Name: "a server and its client, which are ordinary", Attack: do("echo"), Want: Want{Effect: true}},
	))
}

func inLoopback(rows []Row) []Row {
	for i := range rows {
		rows[i].Network = profile.NetworkLoopback
	}
	return rows
}

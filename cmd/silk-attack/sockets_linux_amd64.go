package main

import (
	"net/netip"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func socketAttacks() map[string]attack {
	return map[string]attack{
		"socket":       socketOf,
		"socketpair":   socketpair,
		"connect":      func(args []string) { send("connect", args[0]) },
		"send":         func(args []string) { send(args[0], args[1]) },
		"send-second":  sendSecond,
		"send-unspec":  sendUnspec,
		"echo":         echo,
		"unix-connect": unixConnect,
		"unix-echo":    unixEcho,
		"call-machine": callMachine,
	}
}

// families are numbers of socket(2); those that the library has no name for stand in include/linux/socket.h.
var families = map[string]int{
	"unix": unix.AF_UNIX, "inet": unix.AF_INET, "inet6": unix.AF_INET6, "packet": unix.AF_PACKET, "vsock": unix.AF_VSOCK, "netlink": unix.AF_NETLINK,
	"alg": unix.AF_ALG, "xdp": unix.AF_XDP, "bluetooth": unix.AF_BLUETOOTH, "can": unix.AF_CAN, "tipc": unix.AF_TIPC, "rds": unix.AF_RDS, "key": unix.AF_KEY,
	"none": 9999,
}

var kinds = map[string]int{"stream": unix.SOCK_STREAM, "dgram": unix.SOCK_DGRAM, "raw": unix.SOCK_RAW, "seqpacket": unix.SOCK_SEQPACKET, "packet": 10}

// socketOf makes a socket: the evidence is what the kernel says of it.
func socketOf(args []string) {
	reached()
	fd, err := unix.Socket(families[args[0]], kinds[args[1]]|unix.SOCK_CLOEXEC, number(args[2]))
	if err != nil {
		answer(err)
		return
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, kindErr := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kindErr != nil {
		answer(err)
		return
	}
	effect("have a socket of family", strconv.Itoa(domain), "and type", strconv.Itoa(kind))
}

func socketpair(args []string) {
	reached()
	fds, err := unix.Socketpair(families[args[0]], unix.SOCK_STREAM, 0)
	if err != nil {
		answer(err)
		return
	}
	effect("have two sockets", strconv.Itoa(fds[0]), strconv.Itoa(fds[1]))
}

// send sends to an address, or connects to it, by one of the calls that can. That a datagram was taken is the effect, or that a
// connection stands; in a sandbox without routes neither can be.
func send(how, to string) {
	at, err := netip.ParseAddrPort(to)
	must("read the address "+to, err)
	kind := unix.SOCK_DGRAM
	if how == "connect" || how == "fastopen" {
		kind = unix.SOCK_STREAM
	}
	fd, address := socketFor(at, kind)
	text := []byte("sent by an attack")
	reached()
	switch how {
	case "connect", "connect-dgram":
		err = unix.Connect(fd, address)
	case "sendto":
		err = unix.Sendto(fd, text, 0, address)
	case "fastopen":
		err = unix.Sendto(fd, text, unix.MSG_FASTOPEN, address)
	case "sendmsg":
		err = unix.Sendmsg(fd, text, nil, address, 0)
	default:
		setup("no way to send", how)
	}
	if err != nil {
		answer(err)
		return
	}
	effect(how, "to", to, "was accepted")
}

func socketFor(at netip.AddrPort, kind int) (int, unix.Sockaddr) {
	family := unix.AF_INET6
	var address unix.Sockaddr = &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	if at.Addr().Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	must("make a socket", err)
	timeout := unix.Timeval{Sec: 2}
	must("bound waiting", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout))
	must("bound waiting", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	return fd, address
}

// rawAddress is a struct sockaddr_in, ip(7).
func rawAddress(at netip.AddrPort) [16]byte {
	b := [16]byte{0: unix.AF_INET, 2: byte(at.Port() >> 8), 3: byte(at.Port())}
	ip := at.Addr().As4()
	copy(b[4:], ip[:])
	return b
}

// sendSecond sends two messages with one call, the second of them elsewhere.
func sendSecond(args []string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must("make a socket", err)
	type message struct {
		header unix.Msghdr
		sent   uint32
		_      [4]byte
	}
	here, there := rawAddress(netip.MustParseAddrPort("127.0.0.1:9")), rawAddress(netip.MustParseAddrPort(args[0]))
	text := []byte("x")
	vector := unix.Iovec{Base: &text[0], Len: 1}
	messages := [2]message{
		{header: unix.Msghdr{Name: &here[0], Namelen: 16, Iov: &vector, Iovlen: 1}},
		{header: unix.Msghdr{Name: &there[0], Namelen: 16, Iov: &vector, Iovlen: 1}},
	}
	reached()
	n, err := call(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&messages)), 2, 0)
	switch {
	case err != nil:
		answer(err)
	case n == 2:
		effect("both messages were accepted")
	default:
		// The first error after a success is kept for the next call on Linux: ask for it alone.
		_, err = call(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&messages[1])), 1, 0)
		if err == nil {
			effect("the second message was accepted")
			return
		}
		answer(err)
	}
}

// sendUnspec sends to an address outside whose family is not said: udp(7) takes it for one of IPv4.
func sendUnspec(args []string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must("make a socket", err)
	address := rawAddress(netip.MustParseAddrPort(args[0]))
	address[0] = unix.AF_UNSPEC
	text := byte('x')
	reached()
	if _, err := call(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&text)), 1, 0, uintptr(unsafe.Pointer(&address)), 16); err != nil {
		answer(err)
		return
	}
	effect("a datagram was accepted")
}

// echo sends to a server of its own through the sandbox's loopback.
func echo([]string) {
	at := netip.MustParseAddrPort("127.0.0.1:7007")
	server, address := socketFor(at, unix.SOCK_STREAM)
	must("bind", unix.Bind(server, address))
	must("listen", unix.Listen(server, 1))
	client, _ := socketFor(at, unix.SOCK_STREAM)
	reached()
	if err := unix.Connect(client, address); err != nil {
		answer(err)
		return
	}
	got, _, err := unix.Accept(server)
	must("accept", err)
	exchange(client, got)
}

// exchange sends text from one socket to another.
func exchange(from, to int) {
	const text = "through the sandbox"
	_, err := unix.Write(from, []byte(text))
	must("send", err)
	b := make([]byte, 64)
	n, err := unix.Read(to, b)
	if err != nil || string(b[:n]) != text {
		answer(err)
		return
	}
	effect("received", strconv.Quote(text))
}

// unixConnect looks for a service of the host behind a local name; one that begins with @ is abstract.
func unixConnect(args []string) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must("make a socket", err)
	reached()
	for _, name := range args {
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err == nil {
			effect("connected to", strings.ReplaceAll(name, "\n", " "))
			return
		}
	}
	answer(err)
}

// unixEcho uses a socket pair, which is ordinary in every network mode.
func unixEcho([]string) {
	reached()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		answer(err)
		return
	}
	exchange(fds[0], fds[1])
}

// callMachine calls a port of a virtual machine, or of its host, as vsock(7) numbers them.
func callMachine(args []string) {
	reached()
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrVM{CID: uint32(number(args[0])), Port: uint32(number(args[1]))})
	}
	if err != nil {
		answer(err)
		return
	}
	effect("have a connection with", args[0], "at port", args[1])
}

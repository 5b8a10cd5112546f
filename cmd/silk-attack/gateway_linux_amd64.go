package main

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// silence is what counts as no answer to a datagram.
const silence = 300 * time.Millisecond

// datagram sends one of the given bytes, or of that many zeros, and waits for an answer.
func datagram(args []string) {
	at, err := find(args[0])
	must("look up "+args[0], err)
	size, zeros := strings.CutPrefix(args[1], "size=")
	var payload []byte
	if zeros {
		payload = make([]byte, number(size))
	} else {
		payload = bytesOf(size)
	}
	fd, address := socketFor(at, unix.SOCK_DGRAM)
	bound(fd, silence)
	sendAndHear(fd, payload, address)
}

// ping asks for an echo by ICMP, as anybody may who has a group for it.
func ping(args []string) {
	at, err := find(args[0])
	must("look up "+args[0], err)
	family, protocol, kind := unix.AF_INET, unix.IPPROTO_ICMP, byte(8)
	if at.Addr().Is6() {
		family, protocol, kind = unix.AF_INET6, unix.IPPROTO_ICMPV6, 128
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, protocol)
	must("make a socket", err)
	bound(fd, silence)
	_, address := socketFor(at, unix.SOCK_DGRAM)
	sendAndHear(fd, []byte{kind, 0, 0, 0, 0, 0, 0, 1, 's', 'i', 'l', 'k'}, address)
}

// sendAndHear sends one datagram and waits for an answer to it.
func sendAndHear(fd int, payload []byte, to unix.Sockaddr) {
	reached()
	if err := unix.Sendto(fd, payload, 0, to); err != nil {
		answer(err)
		return
	}
	b := make([]byte, 2048)
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		answer(err)
		return
	}
	effect("was answered:", quote(b[:n]))
}

// scan connects to ports of a host one after the other: FROM-TO, or numbers.
func scan(args []string) {
	at, err := find(args[0] + ":1")
	must("look up "+args[0], err)
	reached()
	var last error
	for _, ports := range args[1:] {
		first, end, ok := strings.Cut(ports, "-")
		if !ok {
			end = first
		}
		for port := number(first); port <= number(end); port++ {
			fd, err := dial(netip.AddrPortFrom(at.Addr(), uint16(port)))
			if err == nil {
				effect("port", strconv.Itoa(port), "is open")
			} else {
				last = err
			}
			_ = unix.Close(fd)
		}
	}
	answer(last)
}

// crowd makes connections and lets them be. Then it makes one more, and asks for something.
func crowd(args []string) {
	n := number(args[0])
	at, err := find(args[1])
	must("look up "+args[1], err)
	limit := unix.Rlimit{Cur: uint64(n) + 64, Max: uint64(n) + 64}
	must("allow descriptors", unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	for i := range n {
		_, err := dial(at)
		must("make connection "+strconv.Itoa(i), err)
	}
	ask(args[2], args[3:])
}

// drip sends a message byte by byte, one each tenth of a second, and never its last one.
func drip(args []string) {
	at, err := find(args[0])
	must("look up "+args[0], err)
	fd, err := dial(at)
	must("connect", err)
	message := bytes.Join(parts(args[1]), nil)
	reached()
	for i := range message {
		if err := transmitParts(fd, [][]byte{message[i : i+1]}); err != nil {
			answer(err)
			return
		}
		waiting := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLHUP}}
		if n, err := unix.Poll(waiting, 100); err == nil && n > 0 {
			judge(hear(fd))
			return
		}
	}
	setup("the message is too short")
}

package main

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func egressAttacks() map[string]attack {
	return map[string]attack{
		"after":    after,
		"ask":      func(args []string) { ask(args[0], args[1:]) },
		"follow":   follow,
		"datagram": datagram,
		"ping":     ping,
		"scan":     scan,
		"crowd":    crowd,
		"drip":     drip,
		"lookup":   lookup,
	}
}

// decoyAnswer is what decoys of the host say (selftest/services.go).
const decoyAnswer = "the host's decoy"

// answerWait is how long an answer may take that comes from this machine. The gateway gives its clients 10 s to say what they speak.
const answerWait = 20

// split reads HOST:PORT.
func split(to string) (host string, port uint16) {
	i := strings.LastIndexByte(to, ':')
	if i < 0 {
		setup("no port in", to)
	}
	n, err := strconv.ParseUint(to[i+1:], 10, 16)
	must("read the port of "+to, err)
	return strings.Trim(to[:i], "[]"), uint16(n)
}

// find finds where HOST:PORT is. An address may be written in any way that inet_aton(3) takes, a name is looked up.
func find(to string) (netip.AddrPort, error) {
	host, port := split(to)
	if a, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(a, port), nil
	}
	if a, ok := aton(host); ok {
		return netip.AddrPortFrom(a, port), nil
	}
	host, six := strings.CutSuffix(host, "/6")
	typ := "A"
	if six {
		typ = "AAAA"
	}
	a, err := resolve(host, typ, false)
	if err == nil && !a.IsValid() {
		err = errorText("NODATA")
	}
	return netip.AddrPortFrom(a, port), err
}

// errorText is an answer that is no errno.
type errorText string

func (e errorText) Error() string { return string(e) }

// aton reads an address as inet_aton(3) does: one to four numbers in any base, the last of which fills what is left.
func aton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint32
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		last := i == len(parts)-1
		if err != nil || !last && n > 255 {
			return netip.Addr{}, false
		}
		if last {
			sum |= uint32(n)
		} else {
			sum |= uint32(n) << (24 - 8*i)
		}
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}

// dial connects, and bounds every wait.
func dial(at netip.AddrPort) (int, error) {
	fd, address := socketFor(at, unix.SOCK_STREAM)
	bound(fd, answerWait*time.Second)
	return fd, unix.Connect(fd, address)
}

func bound(fd int, wait time.Duration) {
	timeout := unix.NsecToTimeval(int64(wait))
	must("bound waiting", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout))
	must("bound waiting", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
}

// ask connects and sends messages, each when the one before is answered. The last one is the attack.
func ask(to string, messages []string) {
	at, err := find(to)
	must("look up "+to, err)
	fd, err := dial(at)
	for i, m := range messages {
		if i == len(messages)-1 {
			reached()
		}
		if err == nil {
			err = transmit(fd, m)
		}
		if err != nil {
			answer(err)
			return
		}
		said, err := hear(fd)
		if i == len(messages)-1 {
			judge(said, err)
		} else if len(said) == 0 {
			setup("message", strconv.Itoa(i), "has no answer")
		}
	}
}

// after performs another attack when a host has answered a message.
func after(args []string) {
	at, err := find(args[0])
	must("look up "+args[0], err)
	fd, err := dial(at)
	must("connect", err)
	must("ask", transmit(fd, args[1]))
	if said, err := hear(fd); err != nil || !bytes.Contains(said, []byte(decoyAnswer)) {
		setup("the host has not answered:", quote(said))
	}
	perform(args[2:])
}

// judge says what an answer shows: that of a decoy is the effect.
func judge(said []byte, err error) {
	switch words := strings.Fields(string(said[:min(len(said), 64)])); {
	case bytes.Contains(said, []byte(decoyAnswer)):
		effect("was answered:", quote(said))
	case len(words) > 1 && strings.HasPrefix(words[0], "HTTP/"):
		say("errno " + words[1])
	case len(said) > 0:
		say("errno " + quote(said))
	case err != nil:
		answer(err)
	default:
		say("errno EOF")
	}
}

// transmit sends a message.
func transmit(fd int, message string) error { return transmitParts(fd, parts(message)) }

// parts are what a message is sent in: text, hex:BYTES, or tls: and the words of clientHello.
func parts(message string) [][]byte {
	if words, ok := strings.CutPrefix(message, "tls:"); ok {
		return clientHello(strings.Fields(words))
	}
	if digits, ok := strings.CutPrefix(message, "hex:"); ok {
		return [][]byte{bytesOf(digits)}
	}
	return [][]byte{[]byte(message)}
}

func bytesOf(digits string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	must("read "+digits, err)
	return b
}

func transmitParts(fd int, parts [][]byte) error {
	for _, b := range parts {
		for len(b) > 0 {
			n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL)
			if err != nil {
				return err
			}
			b = b[n:]
		}
	}
	return nil
}

// hear reads one answer: an HTTP response as long as it says, anything else until there is no more.
func hear(fd int) (said []byte, err error) {
	b := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return said, err
		}
		said = append(said, b[:n]...)
		if complete(said) {
			return said, nil
		}
	}
}

func complete(said []byte) bool {
	head, body, ok := strings.Cut(string(said), "\r\n\r\n")
	if !ok {
		return false
	}
	for line := range strings.SplitSeq(head, "\r\n") {
		if key, value, _ := strings.Cut(line, ":"); strings.EqualFold(key, "Content-Length") {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			return err == nil && len(body) >= n
		}
	}
	return false
}

// follow asks for a page, and goes where it is sent.
func follow(args []string) {
	at, err := find(args[0])
	must("look up "+args[0], err)
	fd, err := dial(at)
	must("connect", err)
	must("ask", transmit(fd, "GET /to/"+args[1]+" HTTP/1.1\r\nHost: "+args[0]+"\r\nConnection: close\r\n\r\n"))
	said, err := hear(fd)
	must("hear", err)
	_, location, ok := strings.Cut(string(said), "Location: ")
	location, _, ended := strings.Cut(location, "\r\n")
	if !ok || !ended {
		setup("was not sent elsewhere:", quote(said))
	}
	scheme, rest, ok := strings.Cut(location, "://")
	if !ok {
		scheme, rest = "http", args[0]+location
	}
	host, path, _ := strings.Cut(rest, "/")
	name, _ := split(host)
	message := "GET /" + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
	if scheme == "https" {
		message = "tls:sni=" + name
	}
	reached()
	if at, err = find(host); err != nil {
		answer(err)
		return
	}
	if fd, err = dial(at); err == nil {
		err = transmit(fd, message)
	}
	if err != nil {
		answer(err)
		return
	}
	judge(hear(fd))
}

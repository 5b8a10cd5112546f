package main

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Types of records (IANA, DNS Parameters).
var recordTypes = map[string]uint16{
	"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "OPT": 41, "SVCB": 64, "HTTPS": 65, "AXFR": 252, "ANY": 255,
}

// codes are answers of a resolver (RFC 1035 section 4.1.1).
var codes = []string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"}

// resolver is the one that the sandbox is told of.
func resolver() netip.AddrPort {
	b, err := os.ReadFile("/etc/resolv.conf")
	must("find the resolver", err)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "nameserver" {
			a, err := netip.ParseAddr(f[1])
			must("read the resolver's address", err)
			return netip.AddrPortFrom(a, 53)
		}
	}
	setup("there is no resolver")
	return netip.AddrPort{}
}

// query is a question (RFC 1035 section 4). Words of more:
//
//	edns=HEX    an option of RFC 6891 with these bytes
//	class=N     in place of IN
//	twice       a second question for the same
//
// A name hex:BYTES is one label.
func query(name, typ string, more []string) []byte {
	q := []byte{0x51, 0x1c, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	class := uint16(1)
	var option []byte
	for _, word := range more {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "edns":
			option = append([]byte{0xfd, 0xe9}, sized(2, bytesOf(value))...) // for local use
		case "class":
			class = uint16(number(value))
		case "twice":
			q[5] = 2
		}
	}
	for range q[5] {
		labels := strings.Split(name, ".")
		if digits, ok := strings.CutPrefix(name, "hex:"); ok {
			labels = []string{string(bytesOf(digits))}
		}
		for _, label := range labels {
			if len(label) > 63 {
				setup("the label is too long:", label)
			}
			q = append(q, sized(1, []byte(label))...)
		}
		q = append(q, 0)
		q = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(q, recordTypes[typ]), class)
	}
	if option != nil {
		q[11] = 1
		q = append(append(q, 0, 0, 41, 4, 208, 0, 0, 0, 0), sized(2, option)...)
	}
	return q
}

// exchangeQuery asks the resolver.
func exchangeQuery(q []byte, byTCP bool) ([]byte, error) {
	b := make([]byte, 64<<10)
	if byTCP {
		fd, err := dial(resolver())
		if err != nil {
			return nil, err
		}
		defer unix.Close(fd)
		if err := transmit(fd, string(sized(2, q))); err != nil {
			return nil, err
		}
		n := 0
		for n < 2 || n < 2+int(binary.BigEndian.Uint16(b)) {
			got, err := unix.Read(fd, b[n:])
			if err != nil || got == 0 {
				return nil, errorText("EOF")
			}
			n += got
		}
		return b[2:n], nil
	}
	fd, address := socketFor(resolver(), unix.SOCK_DGRAM)
	defer unix.Close(fd)
	if err := unix.Sendto(fd, q, 0, address); err != nil {
		return nil, err
	}
	n, _, err := unix.Recvfrom(fd, b, 0)
	return b[:max(n, 0)], err
}

// resolve looks a name up. An address that is not valid means that there is none of that type.
func resolve(name, typ string, byTCP bool, more ...string) (netip.Addr, error) {
	reply, err := exchangeQuery(query(name, typ, more), byTCP)
	if err != nil {
		return netip.Addr{}, err
	}
	if len(reply) < 12 {
		return netip.Addr{}, errorText("SHORT")
	}
	if code := int(reply[3] & 0xf); code != 0 {
		if code < len(codes) {
			return netip.Addr{}, errorText(codes[code])
		}
		return netip.Addr{}, errorText("RCODE" + strconv.Itoa(code))
	}
	return addressIn(reply), nil
}

// addressIn is the first address among the answers.
func addressIn(reply []byte) netip.Addr {
	at := 12
	skipName := func() {
		for at < len(reply) && reply[at] != 0 {
			if reply[at]&0xc0 != 0 {
				at++
				break
			}
			at += 1 + int(reply[at])
		}
		at++
	}
	for range binary.BigEndian.Uint16(reply[4:]) {
		skipName()
		at += 4
	}
	for range binary.BigEndian.Uint16(reply[6:]) {
		skipName()
		if at+10 > len(reply) {
			break
		}
		typ, size := binary.BigEndian.Uint16(reply[at:]), int(binary.BigEndian.Uint16(reply[at+8:]))
		at += 10
		if at+size > len(reply) {
			break
		}
		if a, ok := netip.AddrFromSlice(reply[at : at+size]); ok && (typ == 1 || typ == 28) {
			return a
		}
		at += size
	}
	return netip.Addr{}
}

// lookup asks for a name: NAME TYPE [tcp] [words of query]. That it exists is the effect.
func lookup(args []string) {
	more := args[2:]
	byTCP := len(more) > 0 && more[0] == "tcp"
	reached()
	a, err := resolve(args[0], args[1], byTCP, more...)
	if err != nil {
		answer(err)
		return
	}
	effect("the name exists:", a.String())
}

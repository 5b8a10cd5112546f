package oci

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// MaxHostsBytes bounds what engines lay over /etc/hosts. A container in a cluster of hundreds of services has some 50 KB.
const MaxHostsBytes = 1 << 20

// ErrHosts is returned by [Hosts] for what is no hosts(5) file.
var ErrHosts = errors.New("it is no file of hosts: lines of an address and its names")

// Hosts is what the program sees of a file that is to lie over /etc/hosts: its addresses and names, and nothing else of it. Whoever asks
// for a container names the file, and silk reads it as root: what is no such file, /etc/shadow say, is [ErrHosts], whose text has
// nothing of it, and comments are left out.
func Hosts(data []byte) ([]byte, error) {
	if len(data) > MaxHostsBytes {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrHosts, MaxHostsBytes)
	}
	var out bytes.Buffer
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		text, _, _ := strings.Cut(line, "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil || len(fields) < 2 {
			return nil, fmt.Errorf("%w: line %d is none", ErrHosts, n)
		}
		for _, name := range fields[1:] {
			if !isHostName(name) {
				return nil, fmt.Errorf("%w: line %d has what is no name", ErrHosts, n)
			}
		}
		fmt.Fprintf(&out, "%s\t%s\n", addr, strings.Join(fields[1:], " "))
	}
	return out.Bytes(), nil
}

// maxHostName is that of DNS, RFC 1035 section 2.3.4.
const maxHostName = 253

func isHostName(name string) bool {
	return len(name) <= maxHostName && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-._") == ""
}

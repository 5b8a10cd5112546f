package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Protocol is what a connection has to speak.
type Protocol string

// Protocols of rules.
const (
	Any  Protocol = ""     // TLS or HTTP, as the client's first bytes say
	TCP  Protocol = "tcp"  // anything: only the address and the port are held to
	TLS  Protocol = "tls"  // a ClientHello with the rule's name
	HTTP Protocol = "http" // requests with the rule's name
)

// Rule is one destination that may be reached: a name, the names below one, or addresses. Rules are values.
type Rule struct {
	Protocol Protocol
	Name     string       // lower case, without the last dot; "" for addresses
	Below    bool         // the names below Name, not Name itself: *.example.org
	Prefix   netip.Prefix // addresses; not valid for names
	Port     uint16
}

// ParseRule reads [tcp:|tls:|http:]HOST:PORT, where HOST is a name, *.NAME, an IPv4 address, an IPv6 address in brackets, or a prefix
// of either: 192.0.2.0/24, [2001:db8::/32]. Names and addresses come back in their usual form.
func ParseRule(text string) (Rule, error) {
	var r Rule
	if strings.Contains(text, "://") {
		return Rule{}, fmt.Errorf("host %q is a URL; write its host and port, such as example.org:443", text)
	}
	if before, _, ok := strings.Cut(text, ":"); ok && strings.EqualFold(before, "udp") {
		return Rule{}, fmt.Errorf("host %q is for UDP, which nothing leads out", text)
	}
	rest := text
	for _, p := range []Protocol{TCP, TLS, HTTP} {
		if after, ok := strings.CutPrefix(text, string(p)+":"); ok {
			r.Protocol, rest = p, after
			break
		}
	}
	i := strings.LastIndexByte(rest, ':')
	if i < 0 || strings.HasSuffix(rest, "]") {
		return Rule{}, fmt.Errorf("host %q has no port; write host:443", text)
	}
	host, port := rest[:i], rest[i+1:]
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '0' || port[0] == '+' {
		return Rule{}, fmt.Errorf("host %q has the port %q, which is not a number from 1 to 65535", text, port)
	}
	r.Port = uint16(n)

	inner, bracketed := strings.CutPrefix(host, "[")
	if bracketed {
		if inner, bracketed = strings.CutSuffix(inner, "]"); !bracketed {
			return Rule{}, fmt.Errorf("host %q is not an IPv6 address in brackets", text)
		}
	}
	if prefix, ok := parsePrefix(inner); ok {
		if prefix.Addr().Is6() != bracketed {
			return Rule{}, fmt.Errorf("host %q is not an IPv6 address in brackets", text)
		}
		r.Prefix = prefix
		if r.Protocol == HTTP || r.Protocol == TLS {
			return Rule{}, fmt.Errorf("host %q is an address, which %s does not name; write tcp:%s", text, r.Protocol, rest)
		}
		r.Protocol = TCP
		return r, nil
	}
	if bracketed {
		return Rule{}, fmt.Errorf("host %q is not an IPv6 address in brackets", text)
	}
	name, below := strings.CutPrefix(host, "*.")
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !validName(name) {
		return Rule{}, fmt.Errorf("host %q is not a host name or address", text)
	}
	if below && !strings.Contains(name, ".") {
		return Rule{}, fmt.Errorf("host %q would be everything below .%s", text, name)
	}
	if looksLikeAddress(name) {
		return Rule{}, fmt.Errorf("host %q is an address in a form of its own; write it as 192.0.2.1", text)
	}
	r.Name, r.Below = name, below
	return r, nil
}

// parsePrefix reads an address or a prefix. IPv4 addresses written as IPv6 are none: they would be another address for the same host.
func parsePrefix(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		if a.Zone() != "" || a.Is4In6() {
			return netip.Prefix{}, false
		}
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// validName says whether s is a host name as RFC 1123 section 2.1 has it, in lower case; underscores are let through, as resolvers do.
func validName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
				return false
			}
		}
	}
	return true
}

// looksLikeAddress says whether inet_aton(3) takes s for an address: 127.1, 0x7f.1, 2130706433. Programs that ask it do not ask DNS.
func looksLikeAddress(s string) bool {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return false
	}
	for _, p := range parts {
		if _, err := strconv.ParseUint(p, 0, 32); err != nil || strings.Contains(p, "_") {
			return false
		}
	}
	return true
}

// String is the rule as [ParseRule] reads it.
func (r Rule) String() string {
	host := r.Name
	switch {
	case r.Below:
		host = "*." + host
	case r.Prefix.IsValid() && r.Prefix.IsSingleIP():
		host = r.Prefix.Addr().String()
	case r.Prefix.IsValid():
		host = r.Prefix.String()
	}
	if r.Prefix.IsValid() && r.Prefix.Addr().Is6() {
		host = "[" + host + "]"
	}
	text := host + ":" + strconv.Itoa(int(r.Port))
	if r.Protocol != Any {
		text = string(r.Protocol) + ":" + text
	}
	return text
}

// Names says whether the rule is about name, which is in lower case and has no last dot.
func (r Rule) Names(name string) bool {
	if r.Name == "" {
		return false
	}
	if r.Below {
		return strings.HasSuffix(name, "."+r.Name)
	}
	return name == r.Name
}

// Covers says whether whatever o lets through, r does too.
func (r Rule) Covers(o Rule) bool {
	switch {
	case r.Port != o.Port, r.Protocol != o.Protocol && r.Protocol != TCP && (r.Protocol != Any || o.Protocol == TCP):
		return false
	case r.Prefix.IsValid():
		return r.Reaches(o)
	case r.Below:
		return strings.HasSuffix(o.Name, "."+r.Name) || o.Below && o.Name == r.Name
	}
	return !o.Below && o.Name == r.Name
}

// Reaches says whether r has all addresses of o, with its port.
func (r Rule) Reaches(o Rule) bool {
	return r.Prefix.IsValid() && o.Prefix.IsValid() && r.Port == o.Port && r.Prefix.Bits() <= o.Prefix.Bits() && r.Prefix.Contains(o.Prefix.Addr())
}

// Target is a rule with addresses as the owner's configuration has it among targets: CIDR:port.
func (r Rule) Target() string {
	host := r.Prefix.String()
	if r.Prefix.Addr().Is6() {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(r.Port))
}

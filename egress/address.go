package egress

import "net/netip"

// special are the ranges that no rule by name leads to, whatever a resolver says: IANA's special-purpose registries for IPv4 and
// IPv6 (RFC 6890 and its updates), of which those that are not globally reachable, and multicast. The first that holds an address names
// it, so narrower ones stand before wider ones.
var special = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "the metadata service of clouds"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the metadata service of clouds"}, // public by its number, but the host's platform
	{netip.MustParsePrefix("100.100.100.200/32"), "the metadata service of clouds"},
	{netip.MustParsePrefix("192.0.0.192/32"), "the metadata service of clouds"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "the metadata service of clouds"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "the metadata service of clouds"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("0.0.0.0/8"), "an address of this network"},
	{netip.MustParsePrefix("::/128"), "no address"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"}, // site-local, RFC 3879
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address behind a carrier's translator"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "an address for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for benchmarks"},
	{netip.MustParsePrefix("2001:2::/48"), "an address for benchmarks"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("255.255.255.255/32"), "a broadcast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("100::/64"), "a reserved address"},
	{netip.MustParsePrefix("2001::/23"), "a reserved address"}, // Teredo, ORCHID and others
	{netip.MustParsePrefix("5f00::/16"), "a reserved address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a translated address"},
	{netip.MustParsePrefix("::/96"), "a translated address"}, // IPv4-compatible, RFC 4291 2.5.5.1
}

// carriers are the ranges of IPv6 addresses that a translator sends on to the IPv4 address inside them.
var carriers = []struct {
	prefix netip.Prefix
	at     int // its first byte
}{
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // RFC 2765
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // RFC 6052
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4, RFC 3056
}

// global is all that is assigned as global unicast (IANA, IPv6 address space).
var global = netip.MustParsePrefix("2000::/3")

// Special says what keeps an address from being one of the public internet; "" for one that is. An IPv6 address that leads to an IPv4
// address is what that one is.
func Special(a netip.Addr) string {
	a = a.WithZone("").Unmap()
	for _, c := range carriers {
		if b := a.As16(); c.prefix.Contains(a) {
			return Special(netip.AddrFrom4([4]byte(b[c.at : c.at+4])))
		}
	}
	for _, s := range special {
		if s.prefix.Contains(a) {
			return s.what
		}
	}
	if a.Is6() && !global.Contains(a) {
		return "an unassigned address"
	}
	return ""
}

// SpecialPrefix is [Special] of a range: what all of its addresses are together; "" where they are none, or differ.
func SpecialPrefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return Special(p.Addr())
	}
	for _, s := range special {
		if s.prefix.Bits() <= p.Bits() && s.prefix.Contains(p.Addr()) {
			return s.what
		}
	}
	return ""
}

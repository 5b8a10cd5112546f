package selftest

import (
	"strings"

	"github.com/silk-sandbox/silk/egress"
)

// Rules of the way out, as rows have them.
const (
	refusedName        = Egress + egress.RefusedName
	refusedPort        = Egress + egress.RefusedPort
	refusedAddress     = Egress + egress.RefusedAddress
	refusedProtocol    = Egress + egress.RefusedProtocol
	refusedUDP         = Egress + egress.RefusedUDP
	refusedConnections = Egress + egress.RefusedConnections
)

// api is the decoy that a run with a way out may reach, by its name; "forbidden" is in whatever it must not hear.
const api = "api.selftest.test:{open}"

// everywhere allows all addresses: what is refused nevertheless is so for what it is.
var everywhere = []string{"tcp:0.0.0.0/0:{open}", "tcp:[::/0]:{open}"}

// What a program sees of a refusal.
var (
	notConnected = Want{Errno: "ECONNREFUSED"}
	cutOff       = Want{Errno: "EOF|ECONNRESET"} // the connection ends before a byte of the host's has come
	answered403  = Want{Errno: "403"}
	unknownName  = Want{Errno: "NXDOMAIN"}
	unanswered   = Want{Errno: "EAGAIN"}
)

// request is an HTTP request.
func request(line string, headers ...string) string {
	text := line + "\r\n"
	for _, h := range headers {
		text += h + "\r\n"
	}
	return text + "\r\n"
}

// leadsOut completes rows that have a way out and, unless they say otherwise, the same allow-list and the same refusal as the program sees it.
func leadsOut(hosts []string, want Want, rows []Row) []Row {
	for i := range rows {
		r := &rows[i]
		if r.Hosts == nil && r.Network == "" {
			r.Hosts = hosts
		}
		if strings.HasPrefix(r.Rule, Egress) && r.Want == (Want{}) {
			r.Want = want
		}
	}
	return rows
}

// leadsTo is a connection to a name that is allowed, with whatever it says, by way of where that name leads.
func leadsTo(title, name, port string) Row {
	at := name + ".selftest.test:" + port
	return Row{Name: title, Hosts: []string{"tcp:" + at}, Attack: do("ask", at, forbidden)}
}

// rawAddresses are destinations that no rule has, without a name.
func rawAddresses() []Row {
	return leadsOut([]string{api}, notConnected, class(
		"addresses that no rule has", refusedAddress, happens,
		Row{Name: "TCP", Attack: do("send", "connect", "203.0.113.7:{open}")},
		Row{Name: "TCP, IPv4 inside IPv6", Attack: do("send", "connect", "[::ffff:203.0.113.7]:{open}")},
		Row{Name: "with the right name in HTTP", Attack: do("ask", "203.0.113.7:{open}", request("GET / HTTP/1.1", "Host: "+api))},
		Row{Name: "with the right name in TLS", Attack: do("ask", "203.0.113.7:{open}", "tls:sni=api.selftest.test")},
		Row{Name: "beside the address that stands for the name", Attack: do("send", "connect", "198.18.1.77:{open}")},
		Row{Name: "beside the address that a rule has", Hosts: []string{"tcp:203.0.113.8:{open}"}, Attack: do("send", "connect", "203.0.113.7:{open}")},
		Row{Name: "beside the range that a rule has", Hosts: []string{"tcp:198.51.100.128/25:{open}"}, Attack: do("send", "connect", "198.51.100.127:{open}")},
		Row{Name: "at another port of an address that a rule has", Hosts: []string{"tcp:203.0.113.7:{open}"}, Attack: do("send", "connect", "203.0.113.7:{closed}")},
		Row{Name: "a resolver of the world, by TCP", Attack: do("send", "connect", "192.0.2.53:{open}")},
		Row{Name: "from a child", Attack: do("in-child", "send", "connect", "203.0.113.7:{open}")},
		Row{Name: "its own address, which is the sandbox", Attack: do("send", "connect", "198.18.0.2:{open}"), Want: notConnected},
	))
}

// spelledAddresses are addresses in the forms that inet_aton(3) takes, and some resolvers.
func spelledAddresses() []Row {
	return leadsOut([]string{api}, notConnected, class(
		"addresses in other forms", refusedAddress, happens,
		Row{Name: "decimal", Attack: do("ask", "3405803783:{open}", "forbidden")},
		Row{Name: "hexadecimal", Attack: do("ask", "0xcb007107:{open}", "forbidden")},
		Row{Name: "octal", Attack: do("ask", "0313.0.0161.07:{open}", "forbidden")},
		Row{Name: "short", Attack: do("ask", "203.28935:{open}", "forbidden")},
		Row{Name: "decimal, of the metadata of a cloud", Attack: do("ask", "2852039166:{open}", "forbidden")},
		Row{Name: "mixed, of the metadata of a cloud", Attack: do("ask", "0xa9.0376.43518:{open}", "forbidden")},
		Row{Name: "decimal, as a name", Rule: refusedName, Inner: true, Attack: do("lookup", "2130706433", "A"), Want: unknownName},
		Row{Name: "octal, as a name", Rule: refusedName, Inner: true, Attack: do("lookup", "0177.0.0.01", "A"), Want: unknownName},
		Row{Name: "as a name of a service for that", Rule: refusedName, Inner: true, Attack: do("lookup", "127.0.0.1.nip.io", "A"), Want: unknownName},
		Row{Name: "decimal, in place of the host", Rule: refusedName, Attack: do("ask", api, request("GET /forbidden HTTP/1.1", "Host: 2130706433:{open}")), Want: answered403},
		Row{Name: "hexadecimal, in TLS", Rule: refusedName, Attack: do("ask", api, "tls:sni=0x7f000001"), Want: cutOff},
	))
}

// rebinding is by names that are allowed and lead where no name may.
func rebinding() []Row {
	return leadsOut(nil, notConnected, class(
		"names that lead to this host", refusedAddress, happens,
		leadsTo("its loopback, at a port that the owner has not named", "api", "{closed}"),
		leadsTo("its loopback by IPv6", "loopback6", "{closed}"),
		leadsTo("no address, which is the loopback to some", "nothing", "{closed}"),
		leadsTo("its loopback behind NAT64", "translated", "{closed}"),
		leadsTo("its loopback behind 6to4", "tunnelled", "{closed}"),
		Row{Name: "by HTTP", Rule: refusedAddress, Hosts: []string{"api.selftest.test:{closed}"}, Attack: do("ask", "api.selftest.test:{closed}", request("GET /forbidden HTTP/1.1", "Host: api.selftest.test:{closed}")), Want: answered403},
		Row{Name: "by TLS", Rule: refusedAddress, Hosts: []string{"api.selftest.test:{closed}"}, Attack: do("ask", "api.selftest.test:{closed}", "tls:sni=api.selftest.test"), Want: cutOff},
		Row{Name: "one of a wildcard", Hosts: []string{"tcp:*.selftest.test:{closed}"}, Attack: do("ask", "api.selftest.test:{closed}", forbidden)},
		Row{Name: "after the same name was reached at another port", Hosts: []string{api, "tcp:api.selftest.test:{closed}"}, Serves: true, Attack: do("after", api, request("GET / HTTP/1.1", "Host: "+api), "ask", "api.selftest.test:{closed}", "forbidden")},
		Row{Name: "by the address that stands for it, without a look-up", Hosts: []string{"tcp:api.selftest.test:{closed}"}, Attack: do("send", "connect", "198.18.1.0:{closed}")},
	))
}

// privateRanges are networks of whoever runs silk.
func privateRanges() []Row {
	return leadsOut(everywhere, notConnected, class(
		"private networks", refusedAddress, happens,
		Row{Name: "10.0.0.0/8", Attack: do("send", "connect", "10.0.0.1:{open}")},
		Row{Name: "172.16.0.0/12", Attack: do("send", "connect", "172.31.255.254:{open}")},
		Row{Name: "192.168.0.0/16", Attack: do("send", "connect", "192.168.1.1:{open}")},
		Row{Name: "a neighbour", Attack: do("send", "connect", "169.254.7.7:{open}")},
		Row{Name: "behind a carrier's translator", Attack: do("send", "connect", "100.64.0.1:{open}")},
		Row{Name: "10.0.0.0/8, where no rule has it", Hosts: []string{api}, Attack: do("send", "connect", "10.0.0.1:{open}")},
		leadsTo("a name that leads to 10.0.0.1", "ten", "{open}"),
		leadsTo("a name that leads to 172.16.0.1", "twelve", "{open}"),
		leadsTo("a name that leads to 192.168.0.1", "sixteen", "{open}"),
		leadsTo("a name that leads behind a carrier's translator", "carrier", "{open}"),
		leadsTo("a name that leads to a neighbour", "neighbour", "{open}"),
		leadsTo("a name that leads to a neighbour by IPv6", "neighbour6", "{open}"),
	))
}

// metadata is what clouds tell whoever asks from a machine of theirs.
func metadata() []Row {
	return leadsOut(everywhere, notConnected, class(
		"the metadata of a cloud", refusedAddress, happens,
		Row{Name: "its address", Attack: do("send", "connect", "169.254.169.254:{open}")},
		Row{Name: "its address inside IPv6", Attack: do("send", "connect", "[::ffff:169.254.169.254]:{open}")},
		Row{Name: "by IPv6", Attack: do("send", "connect", "[fd00:ec2::254]:{open}")},
		Row{Name: "another cloud's", Attack: do("send", "connect", "100.100.100.200:{open}")},
		Row{Name: "a third cloud's", Attack: do("send", "connect", "168.63.129.16:{open}")},
		Row{Name: "its address, where no rule has it", Hosts: []string{api}, Attack: do("send", "connect", "169.254.169.254:{open}")},
		leadsTo("a name that leads there", "metadata", "{open}"),
		leadsTo("a name that leads there by IPv6", "metadata6", "{open}"),
		leadsTo("a name that leads there behind NAT64", "metadata64", "{open}"),
		Row{Name: "its own name", Rule: refusedName, Inner: true, Hosts: []string{api}, Attack: do("lookup", "metadata.google.internal", "A"), Want: unknownName},
		Row{Name: "in place of the host", Rule: refusedName, Hosts: []string{api}, Attack: do("ask", api, request("GET /forbidden HTTP/1.1", "Host: 169.254.169.254")), Want: answered403},
	))
}

// overIPv6 is what IPv6 has that IPv4 has not.
func overIPv6() []Row {
	return leadsOut(everywhere, notConnected, class(
		"IPv6", refusedAddress, happens,
		Row{Name: "an address that no rule has", Hosts: []string{api}, Attack: do("send", "connect", "[2001:db8::7]:{open}")},
		Row{Name: "a private address", Attack: do("send", "connect", "[fd12::1]:{open}")},
		Row{Name: "site-local", Attack: do("send", "connect", "[fec0::1]:{open}")},
		Row{Name: "IPv4 behind NAT64", Attack: do("send", "connect", "[64:ff9b::a00:1]:{open}")},
		Row{Name: "IPv4 behind 6to4", Attack: do("send", "connect", "[2002:a00:1::1]:{open}")},
		Row{Name: "IPv4 by its number", Attack: do("send", "connect", "[::a00:1]:{open}")},
		Row{Name: "beside the address that stands for the name", Hosts: []string{api}, Attack: do("send", "connect", "[2001:2::1ff]:{open}")},
		Row{Name: "another network with those numbers", Attack: do("send", "connect", "[2001:2:0:1::100]:{open}")},
		Row{Name: "a name that leads to a private address, by a rule for TLS", Rule: refusedAddress, Hosts: []string{"tls:local6.selftest.test:{open}"}, Attack: do("ask", "local6.selftest.test/6:{open}", "tls:sni=local6.selftest.test"), Want: cutOff},
		Row{Name: "datagrams", Hosts: []string{api}, Rule: refusedUDP, Attack: do("datagram", "[2001:db8::7]:{open}", "00"), Want: unanswered},
		Row{Name: "TLS for another name", Hosts: []string{api}, Rule: refusedName, Attack: do("ask", "api.selftest.test/6:{open}", "tls:sni=forbidden.test"), Want: cutOff},
		Row{Name: "the right name, which is ordinary", Hosts: []string{api}, Attack: do("ask", "api.selftest.test/6:{open}", "tls:sni=api.selftest.test"), Serves: true, Want: Want{Effect: true}},
	))
}

package selftest

import (
	"strings"

	"github.com/silk-sandbox/silk/driver/rules"
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

// otherNames are TLS connections to a name that is allowed, whose first bytes ask for another one.
func otherNames() []Row {
	return leadsOut([]string{api}, cutOff, class(
		"TLS for another name", refusedName, happens,
		Row{Name: "any other", Attack: do("ask", api, "tls:sni=forbidden.test")},
		Row{Name: "by a rule that is for TLS", Hosts: []string{"tls:" + api}, Attack: do("ask", api, "tls:sni=forbidden.test")},
		Row{Name: "the name above", Attack: do("ask", api, "tls:sni=selftest.test")},
		Row{Name: "a name below", Attack: do("ask", api, "tls:sni=forbidden.api.selftest.test")},
		Row{Name: "a name that begins alike", Attack: do("ask", api, "tls:sni=api.selftest.test.forbidden.test")},
		Row{Name: "a name that ends alike", Attack: do("ask", api, "tls:sni=forbidden-api.selftest.test")},
		Row{Name: "another one of the same wildcard", Hosts: []string{"*.selftest.test:{open}"}, Attack: do("ask", api, "tls:sni=other.selftest.test")},
		Row{Name: "an address", Attack: do("ask", api, "tls:sni=203.0.113.7")},
		Row{Name: "in a ClientHello of many records", Attack: do("ask", api, "tls:sni=forbidden.test records=7")},
		Row{Name: "in a ClientHello that comes byte by byte", Attack: do("ask", api, "tls:sni=forbidden.test pieces=1")},
		Row{Name: "the right one, in pieces, which is ordinary", Attack: do("ask", api, "tls:sni=API.selftest.TEST records=9 pieces=4"), Serves: true, Want: Want{Effect: true}},
		Row{Name: "any, by a rule that lets anything through, which is ordinary", Hosts: []string{"tcp:" + api}, Attack: do("ask", api, "tls:sni=elsewhere.test"), Serves: true, Want: Want{Effect: true}},
	))
}

// noNames are TLS connections that do not say, or not plainly, which server they want.
func noNames() []Row {
	return leadsOut([]string{api}, cutOff, class(
		"TLS without a name", refusedProtocol, happens,
		Row{Name: "no name", Attack: do("ask", api, "tls:")},
		Row{Name: "no extensions", Attack: do("ask", api, "tls:bare")},
		Row{Name: "an empty list", Attack: do("ask", api, "tls:list")},
		Row{Name: "an empty name", Attack: do("ask", api, "tls:sni=")},
		Row{Name: "a name of another type", Attack: do("ask", api, "tls:type=1 sni=api.selftest.test")},
		Row{Name: "two names", Attack: do("ask", api, "tls:names=api.selftest.test,forbidden.test")},
		Row{Name: "two extensions", Attack: do("ask", api, "tls:sni=api.selftest.test sni=forbidden.test")},
		Row{Name: "a name that ends in C", Attack: do("ask", api, `tls:sni=api.selftest.test\0.forbidden.test`)},
		Row{Name: "Encrypted ClientHello", Attack: do("ask", api, "tls:sni=api.selftest.test ech")},
		Row{Name: "bytes after the extensions", Attack: do("ask", api, "tls:sni=api.selftest.test trailing")},
		Row{Name: "SSL 2.0", Attack: do("ask", api, "hex:802e0100020015000000100100800200800300800400800500800600400700c0000004")},
		Row{Name: "a record that is no ClientHello", Attack: do("ask", api, "hex:16030300060200000203 03")},
	))
}

// fronting is HTTP to a name that is allowed, for another host.
func fronting() []Row {
	fine := request("GET / HTTP/1.1", "Host: "+api)
	return leadsOut([]string{"http:" + api}, answered403, class(
		"HTTP for another host", refusedName, happens,
		Row{Name: "in the first request", Attack: do("ask", api, request("GET / HTTP/1.1", "Host: forbidden.test"))},
		Row{Name: "in a request after one that was right", Serves: true, Attack: do("ask", api, fine, request("GET / HTTP/1.1", "Host: forbidden.test"))},
		Row{Name: "in the target", Attack: do("ask", api, request("GET http://forbidden.test/ HTTP/1.1", "Host: "+api))},
		Row{Name: "another port", Attack: do("ask", api, request("GET /forbidden HTTP/1.1", "Host: api.selftest.test:{closed}"))},
		Row{Name: "a name below", Attack: do("ask", api, request("GET / HTTP/1.1", "Host: forbidden.api.selftest.test:{open}"))},
		Row{Name: "no host", Attack: do("ask", api, request("GET /forbidden HTTP/1.0"))},
		Row{Name: "an address", Attack: do("ask", api, request("GET /forbidden HTTP/1.1", "Host: 203.0.113.7:{open}"))},
		Row{Name: "in an upgrade", Attack: do("ask", api, request("GET / HTTP/1.1", "Host: forbidden.test", "Connection: Upgrade", "Upgrade: websocket"))},
		Row{
			Name: "behind a body of two lengths", Serves: true,
			Attack: do("ask", api, request("POST / HTTP/1.1", "Host: "+api, "Content-Length: 60", "Transfer-Encoding: chunked")+"0\r\n\r\n", request("GET / HTTP/1.1", "Host: forbidden.test")),
		},
		Row{Name: "two hosts", Attack: do("ask", api, request("GET / HTTP/1.1", "Host: "+api, "Host: forbidden.test")), Want: Want{Errno: "400"}},
		Row{Name: "TLS where the rule is for HTTP", Rule: refusedProtocol, Attack: do("ask", api, "tls:sni=api.selftest.test"), Want: cutOff},
		Row{Name: "the right one, twice, which is ordinary", Serves: true, Attack: do("ask", api, fine, fine), Want: Want{Effect: true}},
	))
}

// inside are names that are allowed and lead where no name may.
func rebinding() []Row {
	tcp := func(name string) []string { return []string{"tcp:" + name + ".selftest.test:{closed}"} }
	connect := func(name string) []string { return do("ask", name+".selftest.test:{closed}", "forbidden") }
	return leadsOut(nil, notConnected, class(
		"names that lead to this host", refusedAddress, happens,
		Row{Name: "its loopback, at a port that the owner has not named", Hosts: tcp("api"), Attack: connect("api")},
		Row{Name: "its loopback by IPv6", Hosts: tcp("loopback6"), Attack: connect("loopback6")},
		Row{Name: "no address, which is the loopback to some", Hosts: tcp("nothing"), Attack: connect("nothing")},
		Row{Name: "its loopback behind NAT64", Hosts: tcp("translated"), Attack: connect("translated")},
		Row{Name: "its loopback behind 6to4", Hosts: tcp("tunnelled"), Attack: connect("tunnelled")},
		Row{Name: "by HTTP", Hosts: []string{"api.selftest.test:{closed}"}, Attack: do("ask", "api.selftest.test:{closed}", request("GET /forbidden HTTP/1.1", "Host: api.selftest.test:{closed}")), Want: answered403},
		Row{Name: "by TLS", Hosts: []string{"api.selftest.test:{closed}"}, Attack: do("ask", "api.selftest.test:{closed}", "tls:sni=api.selftest.test"), Want: cutOff},
		Row{Name: "one of a wildcard", Hosts: []string{"tcp:*.selftest.test:{closed}"}, Attack: connect("api")},
		Row{Name: "after the same name was reached at another port", Hosts: []string{api, "tcp:api.selftest.test:{closed}"}, Serves: true, Attack: do("after", api, request("GET / HTTP/1.1", "Host: "+api), "ask", "api.selftest.test:{closed}", "forbidden")},
		Row{Name: "by the address that stands for it, without a look-up", Hosts: tcp("api"), Attack: do("send", "connect", "198.18.1.0:{closed}")},
	))
}

// tunnels are look-ups that carry something out.
func tunnels() []Row {
	const data = "6461746120746f2063617272792068656e6365"
	rows := leadsOut([]string{api}, unknownName, class(
		"tunnels through DNS", refusedName, happens,
		Row{Name: "data in a name", Attack: do("lookup", data+".forbidden.test", "A")},
		Row{Name: "data in a name, by IPv6", Attack: do("lookup", data+".forbidden.test", "AAAA")},
		Row{Name: "data in a name below an allowed one", Attack: do("lookup", data+".api.selftest.test", "A")},
		Row{Name: "answers of text", Attack: do("lookup", data+".forbidden.test", "TXT")},
		Row{Name: "answers of any bytes", Attack: do("lookup", data+".forbidden.test", "NULL")},
		Row{Name: "answers of names", Attack: do("lookup", data+".forbidden.test", "CNAME")},
		Row{Name: "long labels", Attack: do("lookup", strings.Repeat(strings.Repeat("64617461", 7)+".", 4)+"forbidden.test", "MX")},
		Row{Name: "a label of any bytes", Attack: do("lookup", "hex:61006201ff20", "TXT")},
		Row{Name: "by TCP", Attack: do("lookup", data+".forbidden.test", "TXT", "tcp")},
		Row{Name: "data in an option", Attack: do("lookup", "forbidden.test", "A", "edns="+data)},
		Row{Name: "the zone of an allowed name", Attack: do("lookup", "selftest.test", "AXFR", "tcp")},
		Row{Name: "addresses to names", Attack: do("lookup", "7.113.0.203.in-addr.arpa", "PTR")},
	))
	for i := range rows {
		rows[i].Inner = true
	}
	return rows
}

// overIPv6 is what IPv6 has that IPv4 has not.
func overIPv6() []Row {
	return leadsOut([]string{api}, notConnected, class(
		"IPv6", refusedAddress, happens,
		Row{Name: "an address that no rule has", Attack: do("send", "connect", "[2001:db8::7]:{open}")},
		Row{Name: "a private address", Attack: do("send", "connect", "[fd12::1]:{open}")},
		Row{Name: "site-local", Attack: do("send", "connect", "[fec0::1]:{open}")},
		Row{Name: "IPv4 behind NAT64", Attack: do("send", "connect", "[64:ff9b::cb00:7107]:{open}")},
		Row{Name: "IPv4 behind 6to4", Attack: do("send", "connect", "[2002:cb00:7107::1]:{open}")},
		Row{Name: "IPv4 by its number", Attack: do("send", "connect", "[::cb00:7107]:{open}")},
		Row{Name: "beside the address that stands for the name", Attack: do("send", "connect", "[2001:2::1ff]:{open}")},
		Row{Name: "another network with those numbers", Attack: do("send", "connect", "[2001:2:0:1::100]:{open}")},
		Row{Name: "a name that leads to a private address, by a rule for TLS", Hosts: []string{"tls:local6.selftest.test:{open}"}, Attack: do("ask", "local6.selftest.test/6:{open}", "tls:sni=local6.selftest.test"), Want: cutOff},
		Row{Name: "datagrams", Rule: refusedUDP, Attack: do("datagram", "[2001:db8::7]:{open}", "00"), Want: unanswered},
		Row{Name: "TLS for another name", Rule: refusedName, Attack: do("ask", "api.selftest.test/6:{open}", "tls:sni=forbidden.test"), Want: cutOff},
		Row{Name: "the right name, which is ordinary", Attack: do("ask", "api.selftest.test/6:{open}", "tls:sni=api.selftest.test"), Serves: true, Want: Want{Effect: true}},
	))
}

// datagrams go nowhere.
func datagrams() []Row {
	const query = "511c01000001000000000000 09 666f7262696464656e 04 74657374 00 0001 0001" // forbidden.test
	return leadsOut([]string{api}, unanswered, class(
		"UDP", refusedUDP, happens,
		Row{Name: "to an allowed name and port", Attack: do("datagram", api, "68656c6c6f")},
		Row{Name: "to one where anything may be spoken", Hosts: []string{"tcp:" + api}, Attack: do("datagram", api, "68656c6c6f")},
		Row{Name: "to an address that a rule has", Hosts: []string{"tcp:203.0.113.7:{open}"}, Attack: do("datagram", "203.0.113.7:{open}", "68656c6c6f")},
		Row{Name: "to an address that none has", Attack: do("datagram", "203.0.113.7:{open}", "68656c6c6f")},
		Row{Name: "a query to a resolver of the world", Attack: do("datagram", "192.0.2.53:{open}", query)},
		Row{Name: "a query to the gateway at another port", Attack: do("datagram", "198.18.0.1:{open}", query)},
		Row{Name: "an empty one", Attack: do("datagram", api, "")},
		Row{Name: "a large one", Attack: do("datagram", api, "size=9000")},
		Row{Name: "fragments", Attack: do("datagram", api, "size=40000"), Want: unanswered},
		Row{Name: "an echo by ICMP", Attack: do("ping", api), Want: unanswered},
		Row{Name: "raw packets", Rule: rules.NetworkRaw, Attack: do("socket", "inet", "raw", "17"), Behind: behind(kernel("EPERM|EACCES", noCapability))},
	))
}

// quic is HTTP/3's transport: what looks like it goes nowhere, so that programs fall back.
func quic() []Row {
	const (
		initial = "c3 00000001 08 8394c8f03e515708 00 00 449e 7b9aec34d1b1c98dd7689fb8ec11d242b123dc9bd8bab936b47d92ec356c0bab" // RFC 9001 appendix A.2, its beginning
		second  = "d3 6b3343cf 08 8394c8f03e515708 00 00 449e a0c95e82ffe67b6abcdb4298b485dd04de806071bf03dceebfa162e75d6c9605"
		unknown = "c0 1a2a3a4a 08 8394c8f03e515708 00"
		zeroRTT = "d0 00000001 08 8394c8f03e515708 00 4020 00000000000000000000000000000000"
		short   = "4cfe4189655e5cd55c41f69080575d7999c25a5bfb"
	)
	return leadsOut([]string{api}, unanswered, class(
		"QUIC", refusedUDP, happens,
		Row{Name: "a first packet", Attack: do("datagram", api, initial)},
		Row{Name: "a first packet of version 2", Attack: do("datagram", api, second)},
		Row{Name: "a version that nobody has", Attack: do("datagram", api, unknown)},
		Row{Name: "data without a handshake", Attack: do("datagram", api, zeroRTT)},
		Row{Name: "a packet of a connection", Attack: do("datagram", api, short)},
		Row{Name: "to an address", Attack: do("datagram", "203.0.113.7:{open}", initial)},
		Row{Name: "by IPv6", Attack: do("datagram", "api.selftest.test/6:{open}", initial)},
		Row{Name: "what follows on TCP, which is ordinary", Attack: do("ask", api, request("GET / HTTP/1.1", "Host: "+api)), Serves: true, Want: Want{Effect: true}},
	))
}

// metadata is what clouds tell whoever asks from a machine of theirs.
func metadata() []Row {
	tcp := func(name string) []string { return []string{"tcp:" + name + ".selftest.test:{open}"} }
	connect := func(name string) []string { return do("ask", name+".selftest.test:{open}", "forbidden") }
	return leadsOut([]string{api}, notConnected, class(
		"the metadata of a cloud", refusedAddress, happens,
		Row{Name: "its address", Attack: do("send", "connect", "169.254.169.254:{open}")},
		Row{Name: "its address inside IPv6", Attack: do("send", "connect", "[::ffff:169.254.169.254]:{open}")},
		Row{Name: "by IPv6", Attack: do("send", "connect", "[fd00:ec2::254]:{open}")},
		Row{Name: "another cloud's", Attack: do("send", "connect", "100.100.100.200:{open}")},
		Row{Name: "a third cloud's", Attack: do("send", "connect", "168.63.129.16:{open}")},
		Row{Name: "where a rule has all addresses", Hosts: []string{"tcp:0.0.0.0/0:{open}"}, Attack: do("send", "connect", "169.254.169.254:{open}")},
		Row{Name: "a name that leads there", Hosts: tcp("metadata"), Attack: connect("metadata")},
		Row{Name: "a name that leads there by IPv6", Hosts: tcp("metadata6"), Attack: connect("metadata6")},
		Row{Name: "a name that leads there behind NAT64", Hosts: tcp("metadata64"), Attack: connect("metadata64")},
		Row{Name: "its own name", Rule: refusedName, Inner: true, Attack: do("lookup", "metadata.google.internal", "A"), Want: unknownName},
		Row{Name: "in place of the host", Rule: refusedName, Attack: do("ask", api, request("GET /forbidden HTTP/1.1", "Host: 169.254.169.254")), Want: answered403},
	))
}

// privateRanges are networks of whoever runs silk.
func privateRanges() []Row {
	tcp := func(name string) []string { return []string{"tcp:" + name + ".selftest.test:{open}"} }
	connect := func(name string) []string { return do("ask", name+".selftest.test:{open}", "forbidden") }
	return leadsOut([]string{api}, notConnected, class(
		"private networks", refusedAddress, happens,
		Row{Name: "10.0.0.0/8", Attack: do("send", "connect", "10.0.0.1:{open}")},
		Row{Name: "172.16.0.0/12", Attack: do("send", "connect", "172.31.255.254:{open}")},
		Row{Name: "192.168.0.0/16", Attack: do("send", "connect", "192.168.1.1:{open}")},
		Row{Name: "a neighbour", Attack: do("send", "connect", "169.254.7.7:{open}")},
		Row{Name: "behind a carrier's translator", Attack: do("send", "connect", "100.64.0.1:{open}")},
		Row{Name: "where a rule has all addresses", Hosts: []string{"tcp:0.0.0.0/0:{open}"}, Attack: do("send", "connect", "10.0.0.1:{open}")},
		Row{Name: "a name that leads to 10.0.0.1", Hosts: tcp("ten"), Attack: connect("ten")},
		Row{Name: "a name that leads to 172.16.0.1", Hosts: tcp("twelve"), Attack: connect("twelve")},
		Row{Name: "a name that leads to 192.168.0.1", Hosts: tcp("sixteen"), Attack: connect("sixteen")},
		Row{Name: "a name that leads behind a carrier's translator", Hosts: tcp("carrier"), Attack: connect("carrier")},
		Row{Name: "a name that leads to a neighbour", Hosts: tcp("neighbour"), Attack: connect("neighbour")},
		Row{Name: "a name that leads to a neighbour by IPv6", Hosts: tcp("neighbour6"), Attack: connect("neighbour6")},
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

// redirects are answers of a host that is allowed, which lead elsewhere.
func redirects() []Row {
	rows := leadsOut([]string{api}, notConnected, class(
		"redirects", refusedName, happens,
		Row{Name: "to another name", Inner: true, Attack: do("follow", api, "http://forbidden.test:{open}/"), Want: unknownName},
		Row{Name: "to another name, by TLS", Inner: true, Attack: do("follow", api, "https://forbidden.test:{open}/"), Want: unknownName},
		Row{Name: "to a name below", Inner: true, Attack: do("follow", api, "http://forbidden.api.selftest.test:{open}/"), Want: unknownName},
		Row{Name: "to another port", Rule: refusedPort, Behind: thenRule(refusedAddress, Layer{Effect: true}), Attack: do("follow", api, "http://api.selftest.test:{closed}/forbidden")},
		Row{Name: "to an address", Rule: refusedAddress, Attack: do("follow", api, "http://203.0.113.7:{open}/forbidden")},
		Row{Name: "to a decimal address", Rule: refusedAddress, Attack: do("follow", api, "http://3405803783:{open}/forbidden")},
		Row{Name: "to the metadata of a cloud", Rule: refusedAddress, Attack: do("follow", api, "http://169.254.169.254:{open}/forbidden")},
		Row{Name: "to an address of IPv6", Rule: refusedAddress, Attack: do("follow", api, "http://[2001:db8::7]:{open}/forbidden")},
		Row{Name: "to this host's loopback, which is the sandbox's", Attack: do("follow", api, "http://127.0.0.1:{closed}/forbidden"), Want: notConnected},
		Row{Name: "to itself, which is ordinary", Attack: do("follow", api, "http://"+api+"/"), Want: Want{Effect: true}},
	))
	for i := range rows {
		rows[i].Serves = true
	}
	return rows
}

// proxies are requests to a host that is allowed, to make connections to others.
func proxies() []Row {
	return leadsOut([]string{api}, cutOff, class(
		"proxies", refusedProtocol, happens,
		Row{Name: "CONNECT", Attack: do("ask", api, request("CONNECT forbidden.test:443 HTTP/1.1", "Host: forbidden.test:443")), Want: answered403},
		Row{Name: "CONNECT for itself", Attack: do("ask", api, request("CONNECT "+api+" HTTP/1.1", "Host: "+api, "X: forbidden")), Want: answered403},
		Row{Name: "CONNECT after a request that was right", Serves: true, Attack: do("ask", api, request("GET / HTTP/1.1", "Host: "+api), request("CONNECT forbidden.test:443 HTTP/1.1", "Host: forbidden.test:443")), Want: answered403},
		Row{Name: "a whole address", Rule: refusedName, Attack: do("ask", api, request("GET http://forbidden.test/ HTTP/1.1", "Host: forbidden.test")), Want: answered403},
		Row{Name: "a whole address by FTP", Rule: refusedName, Attack: do("ask", api, request("GET ftp://forbidden.test/ HTTP/1.1", "Host: "+api)), Want: answered403},
		Row{Name: "SOCKS 5", Attack: do("ask", api, "hex:050100")},
		Row{Name: "SOCKS 4a", Attack: do("ask", api, "hex:040101bb0000000100666f7262696464656e2e7465737400")},
		Row{Name: "the PROXY protocol, version 2", Attack: do("ask", api, "hex:0d0a0d0a000d0a515549540a2111000ccb007107c633640701bb01bb")},
		Row{Name: "the PROXY protocol, version 1", Attack: do("ask", api, "PROXY TCP4 203.0.113.7 198.51.100.7 443 443\r\nGET /forbidden HTTP/1.1\r\nHost: api.selftest.test\r\n\r\n"), Want: Want{Errno: "400"}},
		Row{Name: "HTTP/2 without TLS", Attack: do("ask", api, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
		Row{Name: "SSH", Attack: do("ask", api, "SSH-2.0-forbidden\r\n")},
	))
}

// slowClients try to keep the gateway busy.
func slowClients() []Row {
	fine := request("GET / HTTP/1.1", "Host: "+api)
	return leadsOut([]string{api}, cutOff, class(
		"slow and many clients", refusedProtocol, happens,
		Row{Name: "one that says nothing", Attack: do("ask", api, "")},
		Row{Name: "a ClientHello, byte by byte", Attack: do("drip", api, "tls:records=1 sni=forbidden.test")},
		Row{Name: "a method, byte by byte", Attack: do("drip", api, strings.Repeat("A", 40))},
		Row{Name: "headers, byte by byte", Attack: do("drip", api, "GET / HTTP/1.1\r\nHost: api.selftest.test\r\nX: "+strings.Repeat("x", 200)), Want: Want{Errno: "EOF|ECONNRESET|400|408"}},
		Row{Name: "more connections than there may be", Rule: refusedConnections, Attack: do("crowd", "256", api, api, request("GET /forbidden HTTP/1.1", "Host: "+api)), Want: notConnected},
		Row{Name: "more connections to where anything may be spoken", Rule: refusedConnections, Hosts: []string{"tcp:" + api}, Serves: true, Attack: do("crowd", "256", api, api, "forbidden"), Want: notConnected},
		Row{Name: "many that say nothing, and one that is ordinary", Serves: true, Attack: do("crowd", "250", api, api, fine), Want: Want{Effect: true}},
	))
}

// scans look for what else there is at the gateway.
func scans() []Row {
	return leadsOut([]string{api}, notConnected, class(
		"the gateway itself", refusedAddress, happens,
		Row{Name: "its ports", Attack: do("scan", "198.18.0.1", "1-52", "54-600", "{open}", "{closed}")},
		Row{Name: "its ports by IPv6", Attack: do("scan", "[2001:2::1]", "1-52", "54-300", "{open}", "{closed}")},
		Row{Name: "its ports by IPv4 inside IPv6", Attack: do("scan", "[::ffff:198.18.0.1]", "1-52", "54-300", "{open}")},
		Row{Name: "the first address of its network", Attack: do("scan", "198.18.0.0", "53", "80", "443", "{open}")},
		Row{Name: "a resolver beside it", Attack: do("scan", "198.18.0.3", "53", "{open}")},
		Row{Name: "an allowed name's other ports", Rule: refusedPort, Behind: thenRule(refusedAddress, Layer{Effect: true}), Attack: do("scan", "api.selftest.test", "1-300", "{closed}")},
		Row{Name: "datagrams to its ports", Rule: refusedUDP, Attack: do("datagram", "198.18.0.1:{open}", "00"), Want: unanswered},
		Row{Name: "its version", Inner: true, Attack: do("lookup", "version.bind", "TXT", "class=3"), Want: Want{Errno: "REFUSED"}},
		Row{Name: "two questions at once", Inner: true, Attack: do("lookup", "api.selftest.test", "A", "twice"), Want: Want{Errno: "REFUSED"}},
		Row{Name: "an echo by ICMP", Attack: do("ping", "198.18.0.1:1"), Want: unanswered},
	))
}

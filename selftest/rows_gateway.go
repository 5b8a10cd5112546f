package selftest

import (
	"strings"

	"github.com/silk-sandbox/silk/driver/rules"
)

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

// slowClients try to keep the gateway busy.
func slowClients() []Row {
	fine := request("GET / HTTP/1.1", "Host: "+api)
	return leadsOut([]string{api}, cutOff, class(
		"slow and many clients", refusedProtocol, happens,
		Row{Name: "one that says nothing", Idle: true, Attack: do("ask", api, "")},
		Row{Name: "a ClientHello, byte by byte", Idle: true, Attack: do("drip", api, "tls:records=1 sni=forbidden.test")},
		Row{Name: "a method, byte by byte", Idle: true, Attack: do("drip", api, strings.Repeat("A", 40))},
		Row{Name: "headers, byte by byte", Idle: true, Attack: do("drip", api, "GET / HTTP/1.1\r\nHost: api.selftest.test\r\nX: "+strings.Repeat("x", 200)), Want: Want{Errno: "EOF|ECONNRESET|400|408"}},
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

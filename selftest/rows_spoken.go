package selftest

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

// redirects are answers of a host that is allowed, which lead elsewhere.
func redirects() []Row {
	rows := leadsOut([]string{api}, notConnected, class(
		"redirects", refusedName, happens,
		Row{Name: "to another name", Rule: refusedName, Attack: do("follow", api, "http://forbidden.test:{open}/"), Want: unknownName},
		Row{Name: "to another name, by TLS", Rule: refusedName, Attack: do("follow", api, "https://forbidden.test:{open}/"), Want: unknownName},
		Row{Name: "to a name below", Rule: refusedName, Attack: do("follow", api, "http://forbidden.api.selftest.test:{open}/"), Want: unknownName},
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
		Row{Name: "CONNECT", Rule: refusedProtocol, Attack: do("ask", api, request("CONNECT forbidden.test:443 HTTP/1.1", "Host: forbidden.test:443")), Want: answered403},
		Row{Name: "CONNECT for itself", Rule: refusedProtocol, Attack: do("ask", api, request("CONNECT "+api+" HTTP/1.1", "Host: "+api, "X: forbidden")), Want: answered403},
		Row{Name: "CONNECT after a request that was right", Rule: refusedProtocol, Serves: true, Attack: do("ask", api, request("GET / HTTP/1.1", "Host: "+api), request("CONNECT forbidden.test:443 HTTP/1.1", "Host: forbidden.test:443")), Want: answered403},
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

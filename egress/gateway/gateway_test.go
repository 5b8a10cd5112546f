package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/silk-sandbox/silk/egress"
)

func rules(t testing.TB, texts ...string) (all []egress.Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := egress.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// public resolves every name to an address of the public internet; the tests' dialer leads it here.
func public(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
}

func portOf(t testing.TB, addr string) uint16 {
	t.Helper()
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port()
}

// host is a server. Each connection is given to serve, and closed after it.
func host(t testing.TB, serve func(net.Conn)) (port uint16) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return portOf(t, l.Addr().String())
}

// echo is a server that says back what it hears, until it has heard all.
func echo(t testing.TB) uint16 {
	t.Helper()
	return host(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

func TestPlainConnection(t *testing.T) {
	port := echo(t)
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{})
	c, err := s.connect("echo.example", port)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
	go func() {
		_, _ = c.Write(data)
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c) // ends, since the half that was closed here was closed there
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	_ = c.Close()
	d := s.decided(1)[0]
	if !d.Allowed || d.Host != "echo.example" || d.Port != port || d.Sent != int64(len(data)) || d.Taken != d.Sent || d.Addr.String() != "93.184.215.14" || d.Reason != "" {
		t.Errorf("%+v", d)
	}
}

func TestIPv6Connection(t *testing.T) {
	port := echo(t)
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{})
	addr, _ := s.lookup("echo.example", dnsmessage.TypeAAAA)
	c, err := s.dial(netip.AddrPortFrom(addr, port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestTLSNeedsItsName(t *testing.T) {
	var heard sync.Map
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		heard.Store(req.TLS.ServerName, true)
		fmt.Fprint(rw, "secret of "+req.Host)
	}))
	defer server.Close()
	port := portOf(t, server.Listener.Addr().String())
	for _, test := range []struct {
		rule, name, sni, refused string
	}{
		{"api.example", "api.example", "api.example", ""},
		{"tls:api.example", "api.example", "API.example", ""},
		{"api.example", "api.example", "evil.example", egress.RefusedName},
		{"api.example", "api.example", "", egress.RefusedProtocol},
		{"http:api.example", "api.example", "api.example", egress.RefusedProtocol},
		{"*.example.org", "a.example.org", "b.example.org", egress.RefusedName},
		{"tcp:api.example", "api.example", "evil.example", ""},
	} {
		t.Run(test.rule+" "+test.sni, func(t *testing.T) {
			s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("%s:%d", test.rule, port)), Resolve: public}, Config{})
			c, err := s.connect(test.name, port)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			client := tls.Client(c, &tls.Config{ServerName: test.sni, InsecureSkipVerify: true}) //nolint:gosec // which name is said is the test
			err = client.Handshake()
			if (err == nil) != (test.refused == "") {
				t.Errorf("the handshake: %v", err)
			}
			if _, reached := heard.Load(test.sni); reached && test.refused != "" {
				t.Error("the server was reached")
			}
			if test.refused == "" {
				return
			}
			if d := s.decided(1)[0]; d.Allowed || d.Rule != test.refused || d.Addr.IsValid() {
				t.Errorf("%+v, want it refused by %q before anything is dialled", d, test.refused)
			}
		})
	}
}

func TestHTTPNeedsItsHostEachTime(t *testing.T) {
	var mu sync.Mutex
	var hosts []string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		mu.Lock()
		hosts = append(hosts, req.Host+req.URL.String())
		mu.Unlock()
		body, _ := io.ReadAll(req.Body)
		fmt.Fprintf(rw, "%s %s %q", req.Method, body, req.Header["User-Agent"])
	}))
	defer server.Close()
	port := portOf(t, server.Listener.Addr().String())
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("http:api.example:%d", port)), Resolve: public}, Config{})
	c, err := s.connect("api.example", port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	exchange := func(text string) (int, string) {
		t.Helper()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	own := fmt.Sprintf("api.example:%d", port)
	for _, test := range []struct {
		text, body string
		status     int
	}{
		{"GET /a?b=1%2F2 HTTP/1.1\r\nHost: " + own + "\r\n\r\n", "GET  []", 200},
		{"POST /p HTTP/1.1\r\nHost: API.EXAMPLE:" + fmt.Sprint(port) + "\r\nUser-Agent: me\r\nContent-Length: 5\r\n\r\nhello", `POST hello ["me"]`, 200},
		{"POST /c HTTP/1.1\r\nHost: " + own + "\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "POST abc []", 200},
		{"POST /e HTTP/1.1\r\nHost: " + own + "\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", "", 100},
	} {
		status, body := exchange(test.text)
		for status == 100 {
			status, body = exchange("")
			test.status, test.body = 200, "POST hi []"
		}
		if status != test.status || body != test.body {
			t.Errorf("%q: %d %q, want %d %q", test.text, status, body, test.status, test.body)
		}
	}
	if status, body := exchange("GET /evil HTTP/1.1\r\nHost: evil.example\r\n\r\n"); status != http.StatusForbidden || !strings.Contains(body, `the client asks api.example for the host "evil.example"`) {
		t.Errorf("another host on the same connection: %d %q", status, body)
	}
	for _, text := range []string{
		"GET http://evil.example/evil HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		"GET /evil HTTP/1.1\r\nHost: api.example:1\r\n\r\n",
		"GET /evil HTTP/1.1\r\nHost: " + own + "\r\nHost: evil.example\r\n\r\n",
		"GET /evil HTTP/1.0\r\n\r\n",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	} {
		if c, err = s.connect("api.example", port); err != nil {
			t.Fatal(err)
		}
		r = bufio.NewReader(c)
		if status, body := exchange(text); status != http.StatusForbidden && status != http.StatusBadRequest {
			t.Errorf("%q: %d %q", text, status, body)
		}
		_ = c.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	for _, host := range hosts {
		if strings.Contains(host, "evil") {
			t.Errorf("the server was asked for %s", host)
		}
	}
	if len(hosts) != 4 || hosts[0] != own+"/a?b=1%2F2" {
		t.Errorf("the server was asked for %q", hosts)
	}
}

func TestUpgrade(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		c, buf, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(buf, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = buf.Flush()
		_, _ = io.Copy(c, buf)
	}))
	defer server.Close()
	port := portOf(t, server.Listener.Addr().String())
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("api.example:%d", port)), Resolve: public}, Config{})
	c, err := s.connect("api.example", port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: api.example:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", port)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", resp, err)
	}
	fmt.Fprint(c, "hello")
	b := make([]byte, 5)
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestRefusedBeforeAnythingIsDialled(t *testing.T) {
	port := echo(t)
	dialled := make(chan netip.AddrPort, 10)
	dialer := func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
		dialled <- to
		return nil, errors.New("nobody is there")
	}
	resolve := func(_ context.Context, name string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:inside.example:%d", port), "a.example:443"), Resolve: resolve}, Config{dialer: dialer})
	inside, _ := s.lookup("inside.example", dnsmessage.TypeA)
	for _, test := range []struct {
		to   netip.AddrPort
		rule string
	}{
		{netip.AddrPortFrom(inside, port), egress.RefusedAddress}, // rebinding
		{netip.AddrPortFrom(inside, port+1), egress.RefusedPort},
		{netip.MustParseAddrPort("93.184.215.14:443"), egress.RefusedAddress},
		{netip.MustParseAddrPort("169.254.169.254:80"), egress.RefusedAddress},
		{netip.MustParseAddrPort("198.18.0.1:80"), egress.RefusedAddress}, // the gateway itself
		{netip.MustParseAddrPort("[2606:4700::1111]:443"), egress.RefusedAddress},
	} {
		before := len(s.decided(0))
		if c, err := s.dial(test.to); err == nil {
			t.Errorf("%s was reached", test.to)
			_ = c.Close()
		}
		if d := s.decided(before + 1)[before]; d.Allowed || d.Rule != test.rule {
			t.Errorf("%s: %+v, want it refused by %q", test.to, d, test.rule)
		}
	}
	select {
	case to := <-dialled:
		t.Errorf("%s was dialled", to)
	default:
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	port := echo(t)
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{Limits: egress.Limits{Connections: 2}})
	for i := range 3 {
		c, err := s.connect("echo.example", port)
		if (err == nil) != (i < 2) {
			t.Errorf("connection %d: %v", i, err)
		}
		if err == nil {
			defer c.Close()
		}
	}
	if d := s.decided(1)[0]; d.Rule != "connections" {
		t.Errorf("%+v", d)
	}
}

func TestBytesAreBounded(t *testing.T) {
	port := echo(t)
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{Limits: egress.Limits{Bytes: 100 << 10}})
	c, err := s.connect("echo.example", port)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = c.Write(make([]byte, 1<<20)) }()
	n, _ := io.Copy(io.Discard, c)
	if n > 100<<10 {
		t.Errorf("%d bytes came", n)
	}
	_ = c.Close()
	if d := s.decided(1)[0]; d.Rule != "bytes" || d.Sent+d.Taken > 100<<10 {
		t.Errorf("%+v", d)
	}
}

// TestSilence ends connections that nobody uses: before it is known what they speak, and after.
func TestSilence(t *testing.T) {
	port := echo(t)
	const soon = 50 * time.Millisecond
	for _, test := range []struct {
		name, rule, refused, reason string
		limits                      Config
	}{
		{"a client that says nothing", "echo.example", egress.RefusedProtocol, "where the server speaks first the rule is tcp:host:port", Config{Dial: soon}},
		{"a connection that is idle", "tcp:echo.example", "idle", "no byte came for 50ms", Config{Idle: soon}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("%s:%d", test.rule, port)), Resolve: public}, test.limits)
			c, err := s.connect("echo.example", port)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Error(err)
			}
			if d := s.decided(1)[0]; d.Rule != test.refused || !strings.Contains(d.Reason, test.reason) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestLook connects and says nothing, as programs do that try two addresses of a host: that is no refusal.
func TestLook(t *testing.T) {
	port := echo(t)
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("echo.example:%d", port)), Resolve: public}, Config{})
	for range 2 {
		c, err := s.connect("echo.example", port)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
	c, err := s.connect("echo.example", port) // and one that the sandbox's end cuts short
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("GET / HT")); err != nil {
		t.Fatal(err)
	}
	s.end()
	if all := s.decided(0); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestManyConnections(t *testing.T) {
	port := echo(t)
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{})
	addr, _ := s.lookup("echo.example", dnsmessage.TypeA)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			c, err := s.dial(netip.AddrPortFrom(addr, port))
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			defer c.Close()
			want := strings.Repeat(fmt.Sprint(i, " "), 1000)
			go func() { _, _ = io.WriteString(c, want); _ = c.CloseWrite() }()
			if got, err := io.ReadAll(c); string(got) != want || err != nil {
				t.Errorf("connection %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	all.Wait()
}

func TestFilter(t *testing.T) {
	v4 := func(change func([]byte)) []byte {
		b := make([]byte, 40)
		b[0], b[9] = 0x45, protocolTCP
		change(b)
		return b
	}
	v6 := func(next byte) []byte {
		b := make([]byte, 60)
		b[0], b[6] = 0x60, next
		return b
	}
	for _, test := range []struct {
		name   string
		packet []byte
		ok     bool
	}{
		{"TCP", v4(func([]byte) {}), true},
		{"TCP, not to be fragmented", v4(func(b []byte) { b[6] = 0x40 }), true},
		{"UDP", v4(func(b []byte) { b[9] = protocolUDP }), true},
		{"ICMP", v4(func(b []byte) { b[9] = 1 }), false},
		{"SCTP", v4(func(b []byte) { b[9] = 132 }), false},
		{"options", v4(func(b []byte) { b[0] = 0x46 }), false},
		{"a first fragment", v4(func(b []byte) { b[6] = 0x20 }), false},
		{"a last fragment", v4(func(b []byte) { b[7] = 1 }), false},
		{"the reserved bit", v4(func(b []byte) { b[6] = 0x80 }), false},
		{"TCP by IPv6", v6(protocolTCP), true},
		{"UDP by IPv6", v6(protocolUDP), true},
		{"hop-by-hop options", v6(0), false},
		{"a routing header", v6(43), false},
		{"a fragment header", v6(44), false},
		{"ICMPv6", v6(58), false},
		{"destination options", v6(60), false},
		{"another version", []byte{0x50, 0, 0}, false},
		{"a short one", []byte{0x45, 0}, false},
		{"a short one of IPv6", []byte{0x60, 0}, false},
		{"nothing", nil, false},
	} {
		if ok := passes(test.packet); ok != test.ok {
			t.Errorf("%s passes: %t", test.name, ok)
		}
	}
}

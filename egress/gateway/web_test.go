package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/egress"
)

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// visitHTTP connects a sandbox to a server, by a rule for HTTP.
func visitHTTP(t testing.TB, h http.Handler, limits Config) (s *sandbox, c net.Conn, host string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	port := portOf(t, server.Listener.Addr().String())
	s = enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("http:api.example:%d", port)), Resolve: public}, limits)
	c, err := s.connect("api.example", port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return s, c, fmt.Sprintf("api.example:%d", port)
}

// TestSmuggling sends what two readers of HTTP may read differently. Whatever becomes of it, the server must not see a request for
// "/smuggled", and nothing that the gateway did not check.
func TestSmuggling(t *testing.T) {
	const evil = "GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(evil), evil)
	for name, text := range map[string]string{
		"two lengths":                       "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nContent-Length: 50\r\n\r\n" + evil,
		"two lengths in one":                "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0, 50\r\n\r\n" + evil,
		"a length with a sign":              "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: +0\r\n\r\n" + evil,
		"chunks and a length":               "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil,
		"a length and chunks":               "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + chunked,
		"chunks of another name":            "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n" + chunked,
		"chunks twice":                      "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + evil,
		"chunks after a tab":                "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding:\tchunked\r\n\r\n" + chunked,
		"chunks after a vertical tab":       "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + evil,
		"a blank before the colon":          "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length : 50\r\n\r\n" + evil,
		"a folded header":                   "POST / HTTP/1.1\r\nHost: HOST\r\nX: a\r\n Content-Length: 50\r\n\r\n" + evil,
		"a folded length":                   "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length:\r\n 0\r\n\r\n" + evil,
		"a line break in a value":           "GET / HTTP/1.1\r\nHost: HOST\r\nX: a\rGET /smuggled HTTP/1.1\rHost: evil.example\r\n\r\n",
		"lines without CR":                  "POST / HTTP/1.1\nHost: HOST\nContent-Length: 0\n\n" + evil,
		"a line break in the target":        "GET /a\rb HTTP/1.1\r\nHost: HOST\r\n\r\n" + evil,
		"another host in the target":        "GET http://evil.example/smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"another host in the target's user": "GET http://HOST@evil.example/smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"a host with a user":                "GET /smuggled HTTP/1.1\r\nHost: evil.example@HOST\r\n\r\n",
		"two hosts":                         "GET /smuggled HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n",
		"a host with a blank":               "GET /smuggled HTTP/1.1\r\nHost: HOST evil.example\r\n\r\n",
		"no host":                           "GET /smuggled HTTP/1.1\r\n\r\n",
		"HTTP/1.0 and chunks":               "POST / HTTP/1.0\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil,
		"HTTP/0.9":                          "GET /smuggled\r\n",
		"a length on a GET":                 "GET / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 50\r\n\r\n" + evil,
		"a long chunk":                      "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n" + evil,
		"a chunk without its end":           "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1\r\naXX0\r\n\r\n" + evil,
		"NUL in a name":                     "GET / HTTP/1.1\r\nHost: HOST\r\nX\x00Y: a\r\n\r\n" + evil,
		"h2c":                               "GET / HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + evil,
		"CONNECT":                           "CONNECT HOST HTTP/1.1\r\nHost: HOST\r\n\r\n" + evil,
		"another protocol":                  "SMUGGLE / RTSP/1.0\r\nHost: HOST\r\n\r\n" + evil,
	} {
		t.Run(name, func(t *testing.T) {
			var h heard
			s, c, host := visitHTTP(t, &h, Config{Dial: 2 * time.Second})
			text := strings.ReplaceAll(text, "HOST", host)
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
			s.end()
			for _, req := range h.requests() {
				if strings.Contains(req.URL.Path, "smuggled") || !strings.HasPrefix(req.Host, "api.example") {
					t.Errorf("the server was asked for %s%s", req.Host, req.URL)
				}
				if req.Header.Get("Upgrade") != "" {
					t.Errorf("the server was asked to go on with %s", req.Header.Get("Upgrade"))
				}
			}
			if n := len(h.requests()); n > 1 {
				t.Errorf("%d requests came", n)
			}
		})
	}
}

// TestSmugglingControl sends the smuggled request honestly: the server sees such a one, if it is for its host.
func TestSmugglingControl(t *testing.T) {
	var h heard
	s, c, host := visitHTTP(t, &h, Config{})
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host, host)
	_, _ = io.Copy(io.Discard, c)
	s.end()
	if all := h.requests(); len(all) != 2 || all[1].URL.Path != "/smuggled" || all[0].RemoteAddr != all[1].RemoteAddr {
		t.Errorf("%d requests came", len(all))
	}
}

// TestAnswers are shapes of answers that a proxy may get wrong.
func TestAnswers(t *testing.T) {
	release := make(chan struct{})
	s, c, host := visitHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		flush := func() { _ = http.NewResponseController(rw).Flush() }
		switch req.URL.Path {
		case "/head":
			rw.Header().Set("Content-Length", "1000")
		case "/events":
			rw.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(rw, "data: 1\n\n")
			flush()
			<-release // the next one comes only when the first one has been read
			fmt.Fprint(rw, "data: 2\n\n")
		case "/trailers":
			body, _ := io.ReadAll(req.Body)
			rw.Header().Set("Trailer", "X-Sum")
			fmt.Fprintf(rw, "%s %s", body, req.Trailer.Get("X-Sum"))
			rw.Header().Set("X-Sum", "of the answer")
		case "/early":
			rw.Header().Set("Link", "</a>; rel=preload")
			rw.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(rw, "late")
		case "/cut":
			rw.Header().Set("Content-Length", "1000")
			fmt.Fprint(rw, "half")
			flush()
			panic(http.ErrAbortHandler)
		}
	}), Config{})
	r := bufio.NewReader(c)
	get := func(method, path, rest string) *http.Response {
		t.Helper()
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\n%s", method, path, host, rest)
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return resp
	}
	if resp := get("HEAD", "/head", "\r\n"); resp.ContentLength != 1000 {
		t.Errorf("HEAD: %+v", resp)
	}
	resp := get("GET", "/events", "\r\n")
	b := make([]byte, 9)
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "data: 1\n\n" {
		t.Errorf("%q, %v", b, err)
	}
	close(release)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "data: 2\n\n" {
		t.Errorf("%q, %v", rest, err)
	}
	resp = get("POST", "/trailers", "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: of the request\r\n\r\n")
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "abc of the request" || resp.Trailer.Get("X-Sum") != "of the answer" {
		t.Errorf("%q, %v, %v", body, resp.Trailer, err)
	}
	if resp = get("GET", "/early", "\r\n"); resp.StatusCode != http.StatusEarlyHints || resp.Header.Get("Link") == "" {
		t.Errorf("early hints: %+v", resp)
	}
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("%+v, %v", resp, err)
	} else if body, err := io.ReadAll(resp.Body); string(body) != "late" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	resp = get("GET", "/cut", "\r\n")
	if body, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "half" {
		t.Errorf("an answer that was cut off: %q, %v", body, err)
	}
	s.end()
	if d := s.decided(1); len(d) != 1 || !d[0].Allowed || d[0].Taken == 0 {
		t.Errorf("%+v, want one for the connection", d)
	}
}

// TestUpload sends more than fits anywhere to a server that reads late: it is held back, and comes whole.
func TestUpload(t *testing.T) {
	const size = 24 << 20
	read := make(chan struct{})
	_, c, host := visitHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		<-read
		n, err := io.Copy(io.Discard, req.Body)
		fmt.Fprint(rw, n, err)
	}), Config{})
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", host, size)
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Write(make([]byte, size))
	if err == nil {
		t.Fatalf("%d bytes went before anybody has read one", n)
	}
	close(read)
	if err := c.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(make([]byte, size-n)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); string(body) != fmt.Sprint(size, nil) {
		t.Errorf("the server has read %s", body)
	}
}

func TestWebSocketEnds(t *testing.T) {
	ended := make(chan struct{})
	s, c, host := visitHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		host, buf, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer host.Close()
		fmt.Fprint(buf, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = buf.Flush()
		_, _ = io.Copy(host, buf)
	}), Config{Idle: 300 * time.Millisecond})
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n", host)
	r := bufio.NewReader(c)
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", resp, err)
	}
	fmt.Fprint(c, "hello")
	b := make([]byte, 5)
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	_, _ = io.Copy(io.Discard, r) // nobody says anything any more, and the gateway ends it
	<-ended
	if d := s.decided(1)[0]; d.Taken == 0 || d.Sent == 0 {
		t.Errorf("%+v", d)
	}
}

// TestStalledUpload: a server that takes no byte, and a client that waits for it, do not keep the connection for ever.
func TestStalledUpload(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	s, c, host := visitHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }), Config{Idle: 300 * time.Millisecond})
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", host, 64<<20)
	if _, err := c.Write(make([]byte, 64<<20)); err == nil {
		t.Error("64 MiB went to a server that reads nothing")
	}
	if d := s.decided(1)[0]; !d.Allowed {
		t.Errorf("%+v", d)
	}
}

// TestSandboxLearnsNothingOfTheHost: what the host's network says of a failure is for the owner.
func TestSandboxLearnsNothingOfTheHost(t *testing.T) {
	for _, test := range []struct{ name, resolved, told, recorded string }{
		{"a host that does not answer", "93.184.215.14", "api.example does not answer", "internal detail 10.1.2.3"},
		{"an address that may not be reached", "10.9.8.7", "api.example is refused: address", "10.9.8.7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			resolve := func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr(test.resolved)}, nil
			}
			s := enter(t, egress.Config{Rules: rules(t, "http:api.example:80"), Resolve: resolve}, Config{
				dialer: func(context.Context, netip.AddrPort) (net.Conn, error) {
					return nil, errors.New("internal detail 10.1.2.3")
				},
			})
			c, err := s.connect("api.example", 80)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n")
			text, _ := io.ReadAll(c)
			if !bytes.Contains(text, []byte(test.told)) || bytes.Contains(text, []byte("10.")) {
				t.Errorf("the sandbox was told %s", text)
			}
			_ = c.Close()
			s.end()
			if d := s.decided(1); len(d) != 1 || !strings.Contains(d[0].Reason, test.recorded) || d[0].Sent+d[0].Taken != 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestDecisionsAreShort: what a sandbox says ends up in reports, records and the audit trail.
func TestDecisionsAreShort(t *testing.T) {
	var h heard
	s, c, _ := visitHTTP(t, &h, Config{})
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", strings.Repeat("x", 60<<10))
	_, _ = io.Copy(io.Discard, c)
	if d := s.decided(1)[0]; len(d.Reason) > 1100 || d.Rule != egress.RefusedName || !strings.HasSuffix(d.Reason, "xxx...") {
		t.Errorf("%d bytes: %.100s", len(d.Reason), d.Reason)
	}
}

package gateway

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/egress"
)

// heard is what a server was asked.
type heard struct {
	mu   sync.Mutex
	all  []*http.Request
	body []string
}

func (h *heard) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	h.mu.Lock()
	h.all, h.body = append(h.all, req), append(h.body, string(body))
	h.mu.Unlock()
	fmt.Fprintf(rw, "%s %s", req.Method, req.URL)
}

func (h *heard) requests() []*http.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all
}

func authority(t testing.TB, names ...string) (*egress.Authority, *x509.CertPool) {
	t.Helper()
	a, err := egress.NewAuthority(time.Now(), names)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	return &a, pool
}

// tlsHost is a server for a name, and who vouches for it.
func tlsHost(t testing.TB, name string, h http.Handler) (port uint16, roots *x509.CertPool) {
	t.Helper()
	a, roots := authority(t, name)
	cert, err := a.Issue(time.Now(), name)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}} //nolint:gosec // a test's
	server.Config.ErrorLog = discard()
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return portOf(t, server.Listener.Addr().String()), roots
}

const hush = "Bearer hush-hush"

// TestSecret adds a secret to requests by HTTPS and HTTP, and looks for it wherever it must not be.
func TestSecret(t *testing.T) {
	var h heard
	tlsPort, hostRoots := tlsHost(t, "api.example", &h)
	plain := httptest.NewServer(&h)
	defer plain.Close()
	port := portOf(t, plain.Listener.Addr().String())
	run, runRoots := authority(t, "api.example")
	secret := func(name string, port uint16, header string) egress.Secret {
		return egress.Secret{Name: name, Host: "api.example", Port: port, Header: header, Value: hush + name}
	}
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("api.example:%d", tlsPort), fmt.Sprintf("http:api.example:%d", port), fmt.Sprintf("http:other.example:%d", port)), Resolve: public}, Config{
		Secrets:   []egress.Secret{secret("T", tlsPort, "Authorization"), secret("U", tlsPort, "X-Key"), secret("P", port, "Authorization")},
		Authority: run, Roots: hostRoots,
	})
	ask := func(name string, port uint16, roots *x509.CertPool, heads ...string) []*http.Response {
		t.Helper()
		var c net.Conn
		c, err := s.connect(name, port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if roots != nil {
			client := tls.Client(c, &tls.Config{ServerName: name, RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
			if err := client.Handshake(); err != nil {
				t.Fatal(err)
			}
			if p := client.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
				t.Errorf("the gateway speaks %q", p)
			}
			c = client
		}
		r := bufio.NewReader(c)
		var all []*http.Response
		for _, head := range heads {
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s:%d\r\n%s\r\n", name, port, head)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("%q: %v", head, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			all = append(all, resp)
		}
		return all
	}
	ask("api.example", tlsPort, runRoots, "", "Authorization: Token silk-secret-T\r\nX-Key: mine\r\n", "Connection: Authorization, X-Key\r\n", "Authorization: a\r\nAuthorization: b\r\n")
	ask("api.example", port, nil, "authorization: silk-secret-P\r\n")
	ask("other.example", port, nil, "Authorization: silk-secret-P\r\n")
	type got struct{ auth, key string }
	want := []got{
		{hush + "T", hush + "U"},
		{"Token " + hush + "T", hush + "U"},
		{hush + "T", hush + "U"},
		{hush + "T", hush + "U"},
		{hush + "P", ""},
		{"silk-secret-P", ""},
	}
	all := h.requests()
	if len(all) != len(want) {
		t.Fatalf("%d requests came, want %d", len(all), len(want))
	}
	for i, req := range all {
		if g := (got{strings.Join(req.Header["Authorization"], "|"), strings.Join(req.Header["X-Key"], "|")}); g != want[i] {
			t.Errorf("request %d has %q, want %q", i, g, want[i])
		}
	}
	if all[0].RemoteAddr != all[3].RemoteAddr || all[0].RemoteAddr == all[4].RemoteAddr {
		t.Error("the requests of one connection went by many, or those of two by one")
	}
	s.end()
	for _, d := range s.decided(3) {
		if text := fmt.Sprintf("%+v", d); strings.Contains(text, "hush") || !d.Allowed || d.Sent == 0 {
			t.Error(text)
		}
	}
}

// TestSecretStaysWithItsHost: on a connection that has the secret, a request for somebody else is refused, and goes nowhere.
func TestSecretStaysWithItsHost(t *testing.T) {
	var h heard
	port, hostRoots := tlsHost(t, "api.example", &h)
	run, runRoots := authority(t, "api.example")
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("api.example:%d", port), fmt.Sprintf("evil.example:%d", port)), Resolve: public}, Config{
		Secrets: []egress.Secret{{Name: "T", Host: "api.example", Port: port, Header: "Authorization", Value: hush}}, Authority: run, Roots: hostRoots,
	})
	c, err := s.connect("api.example", port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := tls.Client(c, &tls.Config{ServerName: "api.example", RootCAs: runRoots, MinVersion: tls.VersionTLS12})
	r := bufio.NewReader(client)
	for host, want := range map[string]int{"api.example": 200, "evil.example": 403} {
		fmt.Fprintf(client, "GET /%s HTTP/1.1\r\nHost: %s:%d\r\n\r\n", host, host, port)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s: %+v, %v", host, resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if want == 403 {
			break // it is the last one
		}
	}
	for _, req := range h.requests() {
		if !strings.HasPrefix(req.Host, "api.example:") {
			t.Errorf("the server was asked for %s", req.Host)
		}
	}
	// The authority is not good for another host, and the gateway does not stand in for it.
	other, err := s.connect("evil.example", port)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := tls.Client(other, &tls.Config{ServerName: "evil.example", RootCAs: runRoots, MinVersion: tls.VersionTLS12}).Handshake(); err == nil || !strings.Contains(err.Error(), "not evil.example") {
		t.Errorf("the handshake with a host that has no secret: %v", err)
	}
}

// TestSecretNeedsTheRealHost: what does not prove to be the host gets no request.
func TestSecretNeedsTheRealHost(t *testing.T) {
	for _, test := range []struct{ name, certified string }{{"of another name", "evil.example"}, {"of an unknown authority", "api.example"}} {
		t.Run(test.name, func(t *testing.T) {
			var h heard
			port, roots := tlsHost(t, test.certified, &h)
			if test.certified == "api.example" {
				roots = nil
			}
			run, runRoots := authority(t, "api.example")
			s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("api.example:%d", port)), Resolve: public}, Config{
				Secrets: []egress.Secret{{Name: "T", Host: "api.example", Port: port, Header: "Authorization", Value: hush}}, Authority: run, Roots: roots,
			})
			c, err := s.connect("api.example", port)
			if err != nil {
				t.Fatal(err)
			}
			client := tls.Client(c, &tls.Config{ServerName: "api.example", RootCAs: runRoots, MinVersion: tls.VersionTLS12})
			fmt.Fprintf(client, "GET / HTTP/1.1\r\nHost: api.example:%d\r\n\r\n", port)
			resp, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusBadGateway || !strings.Contains(string(body), "a certificate that this host does not trust") {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			_ = c.Close()
			d := s.decided(1)[0]
			if !strings.Contains(d.Reason, "certificate") || strings.Contains(fmt.Sprint(d), "hush") {
				t.Errorf("%+v", d)
			}
			s.end()
			if n := len(s.decided(1)); n != 1 {
				t.Errorf("%d decisions, want one for the connection", n)
			}
			if all := h.requests(); len(all) > 0 {
				t.Errorf("%d requests came", len(all))
			}
		})
	}
}

// TestSecretNeedsTrust: a program that does not know the run's authority is told so by its TLS, and the run's record why.
func TestSecretNeedsTrust(t *testing.T) {
	var h heard
	port, hostRoots := tlsHost(t, "api.example", &h)
	run, _ := authority(t, "api.example")
	for _, test := range []struct {
		name   string
		run    *egress.Authority
		client *tls.Config
		want   string
	}{
		{"another trust", run, &tls.Config{ServerName: "api.example", RootCAs: hostRoots, MinVersion: tls.VersionTLS12}, "did not take this gateway for api.example, in whose place it adds a secret (the run's certificate authority is in SSL_CERT_FILE): remote error: tls: "},
		{"HTTP/2 only", run, &tls.Config{ServerName: "api.example", InsecureSkipVerify: true, NextProtos: []string{"h2"}}, "unsupported application protocols"}, //nolint:gosec // not the test
		{"no authority", nil, &tls.Config{ServerName: "api.example", InsecureSkipVerify: true}, "nobody vouches for this gateway"},                              //nolint:gosec // not the test
	} {
		t.Run(test.name, func(t *testing.T) {
			s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("api.example:%d", port)), Resolve: public}, Config{
				Secrets: []egress.Secret{{Name: "T", Host: "api.example", Port: port, Header: "Authorization", Value: hush}}, Authority: test.run, Roots: hostRoots,
			})
			c, err := s.connect("api.example", port)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := tls.Client(c, test.client).Handshake(); err == nil {
				t.Error("the handshake succeeded")
			}
			if d := s.decided(1)[0]; !strings.Contains(d.Reason, test.want) || d.Addr.IsValid() {
				t.Errorf("%+v, want %q", d, test.want)
			}
			if all := h.requests(); len(all) > 0 {
				t.Errorf("%d requests came", len(all))
			}
		})
	}
}

// TestSecretNotInTheClear: a program that speaks HTTP where HTTPS was meant makes the gateway say nothing, unless the rule says http.
func TestSecretNotInTheClear(t *testing.T) {
	for rule, allowed := range map[string]bool{"api.example:%d": false, "http:api.example:%d": true} {
		var h heard
		plain := httptest.NewServer(&h)
		defer plain.Close()
		port := portOf(t, plain.Listener.Addr().String())
		run, _ := authority(t, "api.example")
		s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf(rule, port)), Resolve: public}, Config{
			Secrets: []egress.Secret{{Name: "T", Host: "api.example", Port: port, Header: "Authorization", Value: hush}}, Authority: run,
		})
		c, err := s.connect("api.example", port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: api.example:%d\r\nConnection: close\r\n\r\n", port)
		answer, _ := io.ReadAll(c)
		if got := len(h.requests()) == 1; got != allowed || (len(answer) > 0) != allowed {
			t.Errorf("%s: the server has heard %d requests, the program %q", rule, len(h.requests()), answer)
		}
		if d := s.decided(1)[0]; d.Allowed != allowed || !allowed && d.Rule != egress.RefusedProtocol {
			t.Errorf("%s: %+v", rule, d)
		}
	}
}

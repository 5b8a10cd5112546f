package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/silk-sandbox/silk/egress"
)

// TestLastRequest ends the sandbox right after it has asked for something: the host hears all of it, though nobody waits for the answer.
func TestLastRequest(t *testing.T) {
	const size = 100_000
	for _, test := range []struct {
		name, head string
		bodies     int
	}{
		{"a request", "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100000\r\n\r\n", 1},
		{"one that is the last", "POST / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n", 1},
		{"two, one after the other", "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100000\r\n\r\n", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			for round := range 10 {
				heard := make(chan string, test.bodies)
				s, c, host := visitHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
					n, err := io.Copy(io.Discard, req.Body)
					heard <- fmt.Sprint(n, err)
				}), Config{})
				sent := s.stack.NICInfo()[1].Stats.Tx.Bytes
				before := sent.Value()
				text := strings.Repeat(strings.ReplaceAll(test.head, "HOST", host)+strings.Repeat("x", size), test.bodies)
				if _, err := io.WriteString(c, text); err != nil {
					t.Fatal(err)
				}
				if round%2 == 0 { // as the kernel of a program that has ended does
					_ = c.(interface{ CloseWrite() error }).CloseWrite()
				}
				for sent.Value() < before+uint64(len(text)) { // in the link, and perhaps no further
					runtime.Gosched()
				}
				begun := time.Now()
				s.end()
				took := time.Since(begun)
				for range test.bodies {
					select {
					case got := <-heard:
						if got != fmt.Sprint(size, nil) {
							t.Errorf("the host has heard %s", got)
						}
					case <-time.After(5 * time.Second):
						t.Error("the host has heard nothing")
					}
				}
				if took > afterEnd {
					t.Errorf("the end took %v", took)
				}
			}
		})
	}
}

// TestHalfClosed: a client may say all and wait for the answer; if none comes in time it is taken for gone.
func TestHalfClosed(t *testing.T) {
	answer := make(chan struct{})
	defer close(answer)
	_, c, host := visitHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/never" {
			<-answer
		}
		<-time.After(100 * time.Millisecond) // the end of the client's words has been read
		fmt.Fprint(rw, "late")
	}), Config{})
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	_ = c.(interface{ CloseWrite() error }).CloseWrite()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "late" || err != nil {
		t.Errorf("%q, %v", body, err)
	}

	s, c, host := visitHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }), Config{Dial: 300 * time.Millisecond})
	fmt.Fprintf(c, "GET /never HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	_ = c.(interface{ CloseWrite() error }).CloseWrite()
	if d := s.decided(1)[0]; !d.Allowed || d.Sent == 0 {
		t.Errorf("%+v", d)
	}
}

// TestContentTypeIsTheHosts: an answer without one has none.
func TestContentTypeIsTheHosts(t *testing.T) {
	_, c, host := visitHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		rw.Header()["Content-Type"] = nil
		if req.URL.Path == "/typed" {
			rw.Header().Set("Content-Type", "text/x-own")
		}
		fmt.Fprint(rw, "<html>")
	}), Config{})
	r := bufio.NewReader(c)
	for i := range 100 {
		path, want := "/", ""
		if i%10 == 0 {
			path, want = "/typed", "text/x-own"
		}
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if got := resp.Header.Get("Content-Type"); got != want {
			t.Fatalf("the answer to %s has the type %q, want %q", path, got, want)
		}
	}
}

// TestUnreadableRequests are refused by the server that reads them, and told as other refusals are.
func TestUnreadableRequests(t *testing.T) {
	for _, test := range []struct{ name, text, reason string }{
		{"two hosts", "GET / HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n", "not passed on: 400 Bad Request"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", "400 Bad Request: missing required Host header"},
		{"a host that is none", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400 Bad Request: malformed Host header"},
		{"another version", "GET / HTTP/3.1\r\nHost: HOST\r\n\r\n", "505 HTTP Version Not Supported"},
		{"another coding", "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: x\r\n\r\n", "501 Not Implemented"},
		{"a long head", "GET / HTTP/1.1\r\nHost: HOST\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", "431 Request Header Fields Too Large"},
		{"a slow head", "GET / HTTP/1.1\r\nHost: HOST\r\nX: ", "did not say a whole request in 300ms"},
		{"a second one", "GET / HTTP/1.1\r\nHost: HOST\r\n\r\nGET / HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n", "not passed on: 400 Bad Request"},
		{"a bad line", "GET / HTTP/1.1\r\nHost: HOST\r\n: x\r\n\r\n", "400 Bad Request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, c, host := visitHTTP(t, &heard{}, Config{Dial: 300 * time.Millisecond})
			_, _ = io.WriteString(c, strings.ReplaceAll(test.text, "HOST", host))
			_, _ = io.Copy(io.Discard, c)
			for deadline := time.Now().Add(10 * time.Second); ; {
				for _, d := range s.decided(1) {
					if !d.Allowed && d.Rule == egress.RefusedProtocol && d.Host == "api.example" && strings.Contains(d.Reason, test.reason) {
						return
					}
				}
				if time.Now().After(deadline) {
					t.Fatalf("%+v, want a refusal with %q", s.decided(1), test.reason)
				}
				<-time.After(10 * time.Millisecond)
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		s, c, host := visitHTTP(t, &heard{}, Config{})
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
		_, _ = io.Copy(io.Discard, c)
		s.end()
		if d := s.decided(1); len(d) != 1 || !d[0].Allowed {
			t.Errorf("%+v", d)
		}
	})
}

// TestBegun: a connection is told of twice, with the same number.
func TestBegun(t *testing.T) {
	begun := make(chan Decision, 10)
	s, c, host := visitHTTP(t, &heard{}, Config{Begun: func(d Decision) { begun <- d }})
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	first := <-begun
	if !first.Allowed || first.Conn == 0 || !first.Addr.IsValid() || first.Host != "api.example" {
		t.Errorf("%+v", first)
	}
	if all := s.decided(0); len(all) != 0 {
		t.Errorf("%+v while it lasts", all)
	}
	_ = c.Close()
	if d := s.decided(1)[0]; d.Conn != first.Conn {
		t.Errorf("%+v, want the end of %+v", d, first)
	}
}

// TestLookupsAreCounted: who asks for both kinds of addresses asks once.
func TestLookupsAreCounted(t *testing.T) {
	s := enter(t, egress.Config{Rules: rules(t, "tcp:echo.example:1")}, Config{})
	for _, kind := range []dnsmessage.Type{
		dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeAAAA, dnsmessage.TypeA, dnsmessage.TypeA, dnsmessage.TypeTXT,
	} {
		s.lookup("other.example", kind)
	}
	s.end()
	count := 0
	for _, d := range s.decided(1) {
		count += d.Count
	}
	if count != 4 { // three for addresses, one of them without its other half, and the text
		t.Errorf("%d attempts: %+v", count, s.decided(1))
	}
}

package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/policy"
)

// asks says something to a decoy and returns its answer.
func asks(network, port, text string) (string, error) {
	c, err := net.Dial(network, "127.0.0.1:"+port) //nolint:noctx // it does not wait
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		if err := tcp.CloseWrite(); err != nil {
			return "", err
		}
		b, err := io.ReadAll(c)
		return string(b), err
	}
	b := make([]byte, mostSaid)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// TestServicesSeeWhoComes: what comes to the decoys of a row decides about it, whatever the program said.
func TestServicesSeeWhoComes(t *testing.T) {
	good := "GET / HTTP/1.1\r\nHost: api.selftest.test\r\n\r\n"
	for _, test := range []struct {
		name   string
		do     func(h Host) (string, error)
		answer string
		serves bool
		want   string
	}{
		{"nobody", func(Host) (string, error) { return "", nil }, "", false, ""},
		{"nobody, and somebody should", func(Host) (string, error) { return "", nil }, "", true, "reached false, want true"},
		{"a request", func(h Host) (string, error) { return asks("tcp", h.Open, good) }, "200 OK", true, ""},
		{"a request to a row that makes none", func(h Host) (string, error) { return asks("tcp", h.Open, good) }, "200 OK", false, "was reached"},
		{"a forbidden request", func(h Host) (string, error) { return asks("tcp", h.Open, "GET /forbidden HTTP/1.1\r\n\r\n") }, "200 OK", true, "was reached"},
		{"the way to something forbidden", func(h Host) (string, error) {
			return asks("tcp", h.Open, "GET /to/http://forbidden.test/ HTTP/1.1\r\n\r\n")
		}, "Location: http://forbidden.test/\r\n", true, ""},
		{"anything else", func(h Host) (string, error) { return asks("tcp", h.Open, "\x16\x03") }, decoyAnswer, true, ""},
		{"a client that says nothing", func(h Host) (string, error) { return asks("tcp", h.Open, "") }, "", true, ""},
		{"the other one", func(h Host) (string, error) { return asks("tcp", h.Closed, "x") }, decoyAnswer, true, "was reached"},
		{"a datagram", func(h Host) (string, error) { return asks("udp", h.Open, "x") }, decoyAnswer, true, "was reached"},
		{"a datagram to the other one", func(h Host) (string, error) { return asks("udp", h.Closed, "x") }, decoyAnswer, false, "was reached"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSuite(t, nil)
			s.Run = func(_ context.Context, req policy.Request, _ string) (Result, error) {
				ports := strings.Split(req.Hosts[0], ":")
				said, err := test.do(Host{Open: ports[1], Closed: ports[2]})
				if !strings.Contains(said, test.answer) {
					t.Errorf("answer %q, want %q", said, test.answer)
				}
				return fine, err
			}
			r := holding("a")
			r.Hosts, r.Serves = []string{"a:{open}:{closed}"}, test.serves
			for range services + 1 { // they are given back
				reports, err := s.Do(t.Context(), []Row{r})
				if err != nil {
					t.Fatal(err)
				}
				problems := strings.Join(reports[0].Problems, "\n")
				if (reports[0].Verdict == Holds) != (test.want == "") || !strings.Contains(problems, test.want) {
					t.Errorf("%s: %q, want %q", reports[0].Verdict, problems, test.want)
				}
			}
		})
	}
}

// TestServicesStartAnew: who came to a run's decoys is not held against the next one that has them.
func TestServicesStartAnew(t *testing.T) {
	s := newSuite(t, nil)
	r := holding("a")
	r.Hosts = []string{"a:{open}:{closed}"}
	once := func(do func(h Host) error) Verdict {
		t.Helper()
		s.Run = func(_ context.Context, req policy.Request, _ string) (Result, error) {
			ports := strings.Split(req.Hosts[0], ":")
			return fine, do(Host{Open: ports[1], Closed: ports[2]})
		}
		reports, err := s.Do(t.Context(), []Row{r})
		if err != nil {
			t.Fatal(err)
		}
		return reports[0].Verdict
	}
	for range services {
		if got := once(func(h Host) error {
			_, err := asks("tcp", h.Open, "x")
			_, closedErr := asks("tcp", h.Closed, "x")
			return errors.Join(err, closedErr)
		}); got != Hole {
			t.Fatalf("decoys that were reached: %s", got)
		}
	}
	for range services {
		if got := once(func(Host) error { return nil }); got != Holds {
			t.Errorf("decoys that were reached by another run: %s", got)
		}
	}
	r.Serves = true
	if got := once(func(Host) error { return nil }); got != Hole {
		t.Errorf("a decoy that only another run has reached: %s", got)
	}
}

// TestOwner: the owner lets runs reach one decoy of each pair, and leads names to addresses that nothing is to connect to but that.
func TestOwner(t *testing.T) {
	s := newSuite(t, nil)
	addrs, targets := s.Decoys.Owner()
	if addrs["api.selftest.test"] != "127.0.0.1" || len(targets) != services {
		t.Errorf("names %v, targets %v", addrs, targets)
	}
	pair, h, err := s.Decoys.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Decoys.giveBack(pair)
	if !slices.Contains(targets, fmt.Sprintf("127.0.0.1/32:%s", h.Open)) || slices.Contains(targets, fmt.Sprintf("127.0.0.1/32:%s", h.Closed)) {
		t.Errorf("targets %v have not the port %s alone, but not %s", targets, h.Open, h.Closed)
	}
}

// TestNoServiceLeft: who waits for decoys that all have others ends with his context.
func TestNoServiceLeft(t *testing.T) {
	s := newSuite(t, nil)
	for range services {
		pair, _, err := s.Decoys.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Decoys.giveBack(pair)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Decoys.take(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was canceled", err)
	}
}

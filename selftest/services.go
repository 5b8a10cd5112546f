package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// service is a pair of decoys on the host's loopback for one run at a time, each by TCP and by UDP at the same port: one that the run may
// reach by the owner's configuration, and one that it may not. They count who comes, and what must not have come.
type service struct {
	open, closed endpoint

	served   atomic.Int64 // connections to open that asked for nothing forbidden
	hits     atomic.Int64 // everybody else
	visitors sync.WaitGroup
}

type endpoint struct {
	tcp *net.TCPListener
	udp *net.UDPConn
}

const (
	// services bounds the runs with a way out at one time.
	services = 8

	// decoyAnswer is what whoever reaches a decoy is told.
	decoyAnswer = "the host's decoy"

	// forbidden is in whatever no decoy may hear, as a name, a path or a header.
	forbidden = "forbidden"

	// barrier is what silk itself says to a decoy, which does not count.
	barrier = "who came?"

	// mostSaid bounds what a decoy hears of one client.
	mostSaid = 64 << 10

	// greets is when a decoy speaks first.
	greets = 2 * time.Second

	// sayWait bounds a visit.
	sayWait = 30 * time.Second
)

// mine is where decoys are.
var mine = netip.MustParseAddr("127.0.0.1")

// leads are the names that rows use, and where the owner of the host says that they lead.
var leads = map[string]string{
	"api.selftest.test":           "127.0.0.1", // the decoy that may be reached
	"other.selftest.test":         "127.0.0.1",
	"loopback6.selftest.test":     "::1",
	"nothing.selftest.test":       "0.0.0.0",
	"translated.selftest.test":    "64:ff9b::7f00:1", // 127.0.0.1, RFC 6052
	"tunnelled.selftest.test":     "2002:7f00:1::",   // 127.0.0.1, RFC 3056
	"ten.selftest.test":           "10.0.0.1",
	"twelve.selftest.test":        "172.16.0.1",
	"sixteen.selftest.test":       "192.168.0.1",
	"carrier.selftest.test":       "100.64.0.1",
	"local6.selftest.test":        "fd12::1",
	"neighbour.selftest.test":     "169.254.7.7",
	"neighbour6.selftest.test":    "fe80::1",
	"metadata.selftest.test":      "169.254.169.254",
	"metadata6.selftest.test":     "fd00:ec2::254",
	"metadata64.selftest.test":    "64:ff9b::a9fe:a9fe",
	"documentation.selftest.test": "203.0.113.7",
}

// openService listens at two ports that nothing else has, by either protocol.
func openService() (*service, error) {
	s := &service{}
	for _, e := range []*endpoint{&s.open, &s.closed} {
		if err := e.listen(); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// tries bounds looking for a port that is free by TCP and by UDP.
const tries = 20

func (e *endpoint) listen() (err error) {
	for range tries {
		if e.tcp, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(mine, 0))); err != nil {
			return err
		}
		if e.udp, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(mine, e.port()))); err == nil {
			return nil
		}
		err = errors.Join(err, e.tcp.Close())
		e.tcp = nil
	}
	return err
}

func (e *endpoint) port() uint16 { return e.tcp.Addr().(*net.TCPAddr).AddrPort().Port() }

// serve serves both until they are closed.
func (s *service) serve(work *sync.WaitGroup) {
	for _, e := range []*endpoint{&s.open, &s.closed} {
		work.Go(func() {
			for {
				c, err := e.tcp.AcceptTCP()
				if err != nil {
					return // closed
				}
				s.visitors.Go(func() { s.hear(c, e == &s.open) })
			}
		})
		work.Go(func() {
			b := make([]byte, mostSaid)
			for {
				n, from, err := e.udp.ReadFromUDPAddrPort(b)
				if err != nil {
					return // closed
				}
				if string(b[:n]) != barrier {
					s.hits.Add(1)
				}
				_, _ = e.udp.WriteToUDPAddrPort([]byte(decoyAnswer), from) // who has gone does not hear it
			}
		})
	}
}

// hear hears one client out, and answers its first words.
func (s *service) hear(c *net.TCPConn, open bool) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(sayWait)) != nil {
		return
	}
	b := make([]byte, mostSaid)
	_ = c.SetReadDeadline(time.Now().Add(greets))
	n, err := c.Read(b)
	_ = c.SetReadDeadline(time.Now().Add(sayWait))
	if string(b[:n]) == barrier {
		_, _ = c.Write([]byte(decoyAnswer))
		return
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		_, _ = c.Write(reply(b[:n])) // who has gone does not hear it
		_ = c.CloseWrite()
		more, _ := io.ReadAll(io.LimitReader(c, mostSaid))
		b = append(b[:n], more...)
	}
	if open && (isRedirect(b) || !bytes.Contains(b, []byte(forbidden))) {
		s.served.Add(1)
		return
	}
	s.hits.Add(1)
}

// redirect begins the requests that are answered with the way to somewhere else.
const redirect = "GET /to/"

func isRedirect(said []byte) bool { return bytes.HasPrefix(said, []byte(redirect)) }

// reply is an answer in the client's own protocol.
func reply(said []byte) []byte {
	line, _, _ := strings.Cut(string(said), "\r\n")
	line, isHTTP := strings.CutSuffix(line, " HTTP/1.1")
	to, redirected := strings.CutPrefix(line, redirect)
	switch {
	case !isHTTP:
		return []byte(decoyAnswer)
	case redirected:
		return fmt.Appendf(nil, "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", to)
	}
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(decoyAnswer), decoyAnswer)
}

// settle waits until everybody who has come is counted: whoever comes now is served after them.
func (s *service) settle(ctx context.Context) error {
	for _, e := range []*endpoint{&s.open, &s.closed} {
		for _, at := range []net.Addr{e.tcp.Addr(), e.udp.LocalAddr()} {
			if err := say(ctx, at, barrier); err != nil {
				return fmt.Errorf("ask decoy who came: %w", err)
			}
		}
	}
	s.visitors.Wait()
	return nil
}

// say says something to a decoy and waits for its answer.
func say(ctx context.Context, at net.Addr, text string) error {
	c, err := new(net.Dialer).DialContext(ctx, at.Network(), at.String())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(sayWait)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, mostSaid))
	return err
}

func (s *service) close() error {
	var errs []error
	for _, e := range []*endpoint{&s.open, &s.closed} {
		if e.tcp != nil {
			errs = append(errs, e.tcp.Close())
		}
		if e.udp != nil {
			errs = append(errs, e.udp.Close())
		}
	}
	return errors.Join(errs...)
}

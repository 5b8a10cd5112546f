package gateway

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// segment is a TCP packet of a sandbox that has no stack, or goes around it.
func segment(from uint16, to netip.AddrPort, flags header.TCPFlags) []byte {
	b := make([]byte, header.IPv4MinimumSize+header.TCPMinimumSize)
	src, dst := tcpip.AddrFrom4(egress.Sandbox4.As4()), tcpip.AddrFrom4(to.Addr().As4())
	ip := header.IPv4(b)
	ip.Encode(&header.IPv4Fields{TotalLength: uint16(len(b)), TTL: 64, Protocol: protocolTCP, SrcAddr: src, DstAddr: dst})
	ip.SetChecksum(^ip.CalculateChecksum())
	tcp := header.TCP(b[header.IPv4MinimumSize:])
	tcp.Encode(&header.TCPFields{SrcPort: from, DstPort: to.Port(), SeqNum: 1, DataOffset: header.TCPMinimumSize, Flags: flags, WindowSize: 65535})
	tcp.SetChecksum(^tcp.CalculateChecksum(header.PseudoHeaderChecksum(protocolTCP, src, dst, header.TCPMinimumSize)))
	return b
}

// datagram is a UDP packet of such a sandbox.
func datagram(from uint16, to netip.AddrPort, text []byte) []byte {
	b := make([]byte, header.IPv4MinimumSize+header.UDPMinimumSize, header.IPv4MinimumSize+header.UDPMinimumSize+len(text))
	src, dst := tcpip.AddrFrom4(egress.Sandbox4.As4()), tcpip.AddrFrom4(to.Addr().As4())
	length := uint16(header.UDPMinimumSize + len(text))
	ip := header.IPv4(b)
	ip.Encode(&header.IPv4Fields{TotalLength: header.IPv4MinimumSize + length, TTL: 64, Protocol: protocolUDP, SrcAddr: src, DstAddr: dst})
	ip.SetChecksum(^ip.CalculateChecksum())
	udp := header.UDP(b[header.IPv4MinimumSize:])
	udp.Encode(&header.UDPFields{SrcPort: from, DstPort: to.Port(), Length: length})
	udp.SetChecksum(^udp.CalculateChecksum(checksum.Checksum(text, header.PseudoHeaderChecksum(protocolUDP, src, dst, length))))
	return append(b, text...)
}

func queryFor(t testing.TB, name string) []byte {
	t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 1}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// memory is what is in use once nothing is left to be collected.
func memory() (heapBytes int64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), runtime.NumGoroutine()
}

func TestRate(t *testing.T) {
	port := echo(t)
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{Limits: egress.Limits{Rate: 1 << 20}})
	begun := time.Now()
	var all sync.WaitGroup
	for range 4 { // 64 KiB each way of each
		c, err := s.connect("echo.example", port)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer c.Close()
			go func() { _, _ = c.Write(make([]byte, 64<<10)); _ = c.CloseWrite() }()
			if n, err := io.Copy(io.Discard, c); n != 64<<10 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); took < 350*time.Millisecond { // half a second, less what one may be ahead
		t.Errorf("512 KiB took %v at 1 MiB a second", took)
	}
}

func TestRateOfHTTP(t *testing.T) {
	_, c, host := visitHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(make([]byte, 256<<10)) }), Config{Limits: egress.Limits{Rate: 512 << 10}})
	begun := time.Now()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != 256<<10 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if took := time.Since(begun); took < 350*time.Millisecond {
		t.Errorf("256 KiB took %v at 512 KiB a second", took)
	}
}

// TestLife ends connections that are never silent: what has a time of its own, and HTTP.
func TestLife(t *testing.T) {
	t.Run("tcp", func(t *testing.T) {
		port := echo(t)
		s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{Limits: egress.Limits{Life: 300 * time.Millisecond}})
		c, err := s.connect("echo.example", port)
		if err != nil {
			t.Fatal(err)
		}
		drip(t, c, "x")
		if d := s.decided(1)[0]; d.Rule != "life" || !d.Allowed || d.Sent == 0 || !strings.Contains(d.Reason, "as long as one may") {
			t.Errorf("%+v", d)
		}
	})
	t.Run("http", func(t *testing.T) {
		s, c, host := visitHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) }), Config{Limits: egress.Limits{Life: 300 * time.Millisecond}})
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000\r\n\r\n", host)
		drip(t, c, "x")
		if d := s.decided(1)[0]; d.Rule != "life" || !d.Allowed {
			t.Errorf("%+v", d)
		}
	})
}

// drip says something again and again, until that is no more possible.
func drip(t *testing.T, c net.Conn, text string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the connection is still there")
		}
	}
}

// TestSlowClients say a byte now and then: what they speak, or a head of HTTP, has to come in time.
func TestSlowClients(t *testing.T) {
	for _, first := range []string{"G", "GET / HTTP/1.1\r\nX: ", "GET / HTTP/1.1\r\nHost: api.example\r\n\r\nGET / HTTP/1.1\r\nX: "} {
		t.Run(first[:min(len(first), 6)], func(t *testing.T) {
			_, c, _ := visitHTTP(t, &heard{}, Config{Dial: 300 * time.Millisecond, Idle: time.Minute})
			if _, err := io.WriteString(c, first); err != nil {
				t.Fatal(err)
			}
			drip(t, c, "G")
		})
	}
}

// TestSYNs sends what begins connections and never answers, to a host that is allowed: the process keeps some, and the sandbox's end ends all.
func TestSYNs(t *testing.T) {
	testenv.NoLeaks(t)
	port := echo(t)
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{})
	addr, _ := s.lookup("echo.example", dnsmessage.TypeA)
	before, few := memory()
	for from := range 10_000 {
		if _, err := s.link.Write(segment(uint16(20_000+from), netip.AddrPortFrom(addr, port), header.TCPFlagSyn)); err != nil {
			t.Fatal(err)
		}
	}
	settled(t, s)
	after, many := memory()
	if grown := after - before; grown > 64<<20 || many-few > 5*maxInFlight {
		t.Errorf("%d bytes and %d goroutines more", grown, many-few)
	}
	s.end()
}

// TestPortScan knocks at every port of an address.
func TestPortScan(t *testing.T) {
	s := enter(t, egress.Config{Rules: rules(t, "tcp:echo.example:1"), Resolve: public}, Config{})
	addr, _ := s.lookup("echo.example", dnsmessage.TypeA)
	before, few := memory()
	begun := time.Now()
	for port := 2; port < 1<<16; port++ {
		if _, err := s.link.Write(segment(40_000, netip.AddrPortFrom(addr, uint16(port)), header.TCPFlagSyn)); err != nil {
			t.Fatal(err)
		}
	}
	settled(t, s)
	took := time.Since(begun)
	after, many := memory()
	t.Logf("65,534 ports in %v: %d KiB and %d goroutines more", took, (after-before)>>10, many-few)
	if grown := after - before; grown > 8<<20 || many-few > maxInFlight {
		t.Errorf("%d bytes and %d goroutines more", grown, many-few)
	}
	s.end()
	all, count := s.decided(1), 0
	for _, d := range all {
		count += d.Count
		if d.Allowed {
			t.Errorf("%+v", d)
		}
	}
	if len(all) > maxKinds+1 || count <= len(all) { // how many are more than may be in flight, which are not answered, nor counted, is the machine's doing
		t.Errorf("%d decisions about %d attempts", len(all), count)
	}
}

// TestManyQueries asks from every port, faster than anybody does. What is too much is dropped.
func TestManyQueries(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprint("open ", open), func(t *testing.T) {
			testenv.NoLeaks(t)
			hold := make(chan struct{})
			resolve := func(ctx context.Context, name string) ([]netip.Addr, error) {
				if name != "echo.example" {
					select { // a resolver that does not answer
					case <-hold:
					case <-ctx.Done():
					}
				}
				return public(ctx, name)
			}
			s := enter(t, egress.Config{Open: open, Rules: rules(t, "tcp:echo.example:1"), Resolve: resolve}, Config{})
			s.lookup("echo.example", dnsmessage.TypeA)
			before, few := memory()
			query, begun := queryFor(t, "other.example."), time.Now()
			for i := range 30_000 {
				if _, err := s.link.Write(datagram(uint16(20_000+i), netip.AddrPortFrom(egress.Gateway4, 53), query)); err != nil {
					t.Fatal(err)
				}
			}
			took := time.Since(begun)
			after, many := memory()
			t.Logf("30,000 queries in %v: %d KiB and %d goroutines more", took, (after-before)>>10, many-few)
			if grown := after - before; grown > 8<<20 || many-few > 2*maxLookups+8 {
				t.Errorf("%d bytes and %d goroutines more", grown, many-few)
			}
			close(hold)
			settled(t, s)
			s.end()
		})
	}
}

// TestQueriesByTCP: they are some at once, and short.
func TestQueriesByTCP(t *testing.T) {
	s := enter(t, egress.Config{Rules: rules(t, "tcp:echo.example:1")}, Config{})
	at := netip.AddrPortFrom(egress.Gateway4, 53)
	var open []net.Conn
	for i := range maxQueriers {
		c, err := s.dial(at)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		open = append(open, c)
	}
	if c, err := s.dial(at); err == nil {
		t.Error("there is one more")
		_ = c.Close()
	}
	if _, err := open[0].Write([]byte{0xff, 0xff, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if err := open[0].SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil { // less than what an idle one has
		t.Fatal(err)
	}
	if n, err := open[0].Read(make([]byte, 1)); n != 0 || errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("a query of 64 KiB: %d, %v", n, err)
	}
	for _, c := range open {
		_ = c.Close()
	}
}

// TestNotTaken has an answer sent that the sandbox never takes: until it does, or the gateway gives up, the connection counts.
func TestNotTaken(t *testing.T) {
	port := host(t, func(c net.Conn) { _, _ = c.Write(make([]byte, 200<<10)) }) // less than the gateway buffers
	s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{Limits: egress.Limits{Connections: 1}, Dial: time.Second})
	addr, _ := s.lookup("echo.example", dnsmessage.TypeA)
	at := netip.AddrPortFrom(addr, port)
	// Around the stack: an open window of 64 KiB, which is never moved, and an end of what it says.
	const from = 7777
	var syn, fin []byte
	syn = segment(from, at, header.TCPFlagSyn)
	seen := s.watch(func(p []byte) bool {
		return p[0]>>4 == 4 && p[9] == protocolTCP && header.TCP(p[20:]).DestinationPort() == from
	})
	if _, err := s.link.Write(syn); err != nil {
		t.Fatal(err)
	}
	answer := header.TCP((<-seen)[20:])
	fin = segment(from, at, header.TCPFlagAck)
	patch(fin, 2, answer.SequenceNumber()+1, header.TCPFlagAck)
	ended := append([]byte(nil), fin...)
	patch(ended, 2, answer.SequenceNumber()+1, header.TCPFlagAck|header.TCPFlagFin)
	for _, p := range [][]byte{fin, ended} {
		if _, err := s.link.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	if d := s.decided(1)[0]; !d.Allowed || d.Taken != 200<<10 {
		t.Errorf("%+v", d)
	}
	if c, err := s.dial(at); err == nil {
		t.Error("another connection, while the first one is not over")
		_ = c.Close()
	}
	for again := time.Now().Add(30 * time.Second); ; {
		c, err := s.dial(at)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(again) {
			t.Fatal("no other connection ever")
		}
	}
}

// settled waits until a gateway has read what was sent to it before, and answers.
func settled(t *testing.T, s *sandbox) {
	t.Helper()
	query := queryFor(t, "nobody.example.")
	for again := time.Now().Add(30 * time.Second); ; {
		c, err := s.dial(netip.AddrPortFrom(egress.Gateway4, 53))
		if err == nil {
			_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...))
			_, err = io.ReadFull(c, make([]byte, 14))
			_ = c.Close()
		}
		if err == nil {
			return
		}
		if time.Now().After(again) {
			t.Fatal(err)
		}
	}
}

// patch changes numbers and flags of a segment.
func patch(p []byte, seq, ack uint32, flags header.TCPFlags) {
	tcp := header.TCP(p[20:])
	tcp.SetSequenceNumber(seq)
	tcp.SetAckNumber(ack)
	tcp.SetFlags(uint8(flags))
	tcp.SetChecksum(0)
	ip := header.IPv4(p)
	tcp.SetChecksum(^tcp.CalculateChecksum(header.PseudoHeaderChecksum(protocolTCP, ip.SourceAddress(), ip.DestinationAddress(), uint16(len(p)-20))))
}

// TestNobodyReads floods a gateway and takes none of its packets.
func TestNobodyReads(t *testing.T) {
	testenv.NoLeaks(t)
	pair := pairOf(t)
	served := make(chan error, 1)
	go func() {
		served <- Serve(context.Background(), pair[1], egress.New(egress.Config{Rules: rules(t, "tcp:echo.example:1")}), Config{})
	}()
	before, _ := memory()
	query := queryFor(t, "echo.example.")
	for i := range 20_000 {
		for _, p := range [][]byte{
			datagram(uint16(20_000+i), netip.AddrPortFrom(egress.Gateway4, 53), query), segment(uint16(20_000+i), netip.AddrPortFrom(egress.Gateway4, 80), header.TCPFlagSyn),
		} {
			if _, err := unix.Write(pair[0], p); err != nil {
				t.Fatal(err)
			}
		}
	}
	after, goroutines := memory()
	t.Logf("%d KiB more, %d goroutines", (after-before)>>10, goroutines)
	if after-before > 24<<20 {
		t.Errorf("%d bytes more", after-before)
	}
	_ = unix.Shutdown(pair[0], unix.SHUT_RDWR)
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the gateway does not end with its link")
	}
	_, _ = unix.Close(pair[0]), unix.Close(pair[1])
}

// TestFair floods one gateway of a process while another one works.
func TestFair(t *testing.T) {
	port := echo(t)
	cfg := egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}
	loud, quiet := enter(t, cfg, Config{}), enter(t, cfg, Config{})
	addr, _ := loud.lookup("echo.example", dnsmessage.TypeA)
	query := queryFor(t, "other.example.")
	stop, sent := make(chan struct{}), 0
	var flood sync.WaitGroup
	flood.Go(func() {
		for ; ; sent++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, p := range [][]byte{
				datagram(uint16(sent), netip.AddrPortFrom(egress.Gateway4, 53), query), segment(uint16(sent), netip.AddrPortFrom(addr, uint16(sent/7)), header.TCPFlagSyn),
			} {
				if _, err := loud.link.Write(p); err != nil {
					return
				}
			}
		}
	})
	var longest time.Duration
	for range 100 {
		begun := time.Now()
		c, err := quiet.connect("echo.example", port)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		longest = max(longest, time.Since(begun))
	}
	close(stop)
	flood.Wait()
	t.Logf("100 connections beside %d packets, the longest took %v", 2*sent, longest)
	if longest > 5*time.Second {
		t.Errorf("a connection took %v", longest)
	}
}

// TestThousandWays opens and closes gateways. Nothing of them stays.
func TestThousandWays(t *testing.T) {
	testenv.NoLeaks(t)
	table := egress.Config{Rules: rules(t, "tcp:echo.example:1")}
	query := datagram(5353, netip.AddrPortFrom(egress.Gateway4, 53), queryFor(t, "echo.example."))
	way := func() {
		pair := pairOf(t)
		served := make(chan error, 1)
		go func() { served <- Serve(context.Background(), pair[1], egress.New(table), Config{}) }()
		if _, err := unix.Write(pair[0], query); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(pair[0], make([]byte, egress.MTU)); n < 28 || err != nil {
			t.Fatal(n, err)
		}
		_ = unix.Close(pair[0])
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(pair[1])
	}
	for range 20 {
		way()
	}
	before, few := memory()
	for range 1000 {
		way()
	}
	after, many := memory()
	t.Logf("%d KiB and %d goroutines more after 1,000 ways", (after-before)>>10, many-few)
	if after-before > 4<<20 || many-few > 10 {
		t.Errorf("%d bytes and %d goroutines more", after-before, many-few)
	}
}

// TestLastWords ends the sandbox right after it has said something: it arrives, and the end waits for that only.
func TestLastWords(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := portOf(t, l.Addr().String())
	for range 20 {
		heard := make(chan string, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			text, err := io.ReadAll(c)
			heard <- fmt.Sprint(len(text), err)
		}()
		s := enter(t, egress.Config{Rules: rules(t, fmt.Sprintf("tcp:echo.example:%d", port)), Resolve: public}, Config{})
		c, err := s.connect("echo.example", port)
		if err != nil {
			t.Fatal(err)
		}
		sent := s.stack.NICInfo()[1].Stats.Tx.Bytes
		before := sent.Value()
		if _, err := c.Write(make([]byte, 10_000)); err != nil {
			t.Fatal(err)
		}
		for sent.Value() < before+10_000 { // in the link, and perhaps no further
			runtime.Gosched()
		}
		begun := time.Now()
		s.end()
		if got := <-heard; got != "10000 <nil>" {
			t.Errorf("the host has heard %s", got)
		}
		if took := time.Since(begun); took > 10*afterEnd {
			t.Errorf("the end took %v", took)
		}
	}
}

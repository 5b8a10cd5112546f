//go:build !cgo

package gateway

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/egress/process"
)

// enterProcess gives a sandbox a gateway's process, as silk starts it, and a host at host.example.
func enterProcess(t *testing.T, port uint16, tell func(egress.Decision)) (s *sandbox, g *process.Gateway, w egress.Way) {
	t.Helper()
	g = process.New(os.Executable, egress.Limits{})
	t.Cleanup(func() { _ = g.Close() })
	w, err := g.Open(egress.Order{
		ID: "a", Rules: []string{fmt.Sprintf("tcp:host.example:%d", port)}, Hosts: map[string]netip.Addr{"host.example": netip.MustParseAddr("127.0.0.1")},
		Targets: []string{fmt.Sprintf("127.0.0.1/32:%d", port)},
	}, tell)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	sock := int(w.Link.Fd())
	s = &sandbox{t: t, link: packets(sock)}
	leave := s.settle(sock)
	t.Cleanup(func() {
		_ = unix.Shutdown(sock, unix.SHUT_RDWR)
		leave()
		_ = w.Link.Close()
	})
	return s, g, w
}

// TestDeath kills a gateway while it has a connection: that there was one is told.
func TestDeath(t *testing.T) {
	var told []egress.Decision
	port := echo(t)
	s, g, w := enterProcess(t, port, func(d egress.Decision) { told = append(told, d) })
	for range 2 { // the first one ends before
		c, err := s.connect("host.example", port)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
	c, err := s.connect("host.example", port)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(g.Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(t.Context()); err == nil {
		t.Error("its end is no error")
	}
	if len(told) != 3 {
		t.Fatalf("%+v, want two that have ended and one that was lost", told)
	}
	if d := told[2]; !d.Allowed || d.Host != "host.example" || d.Port != port || !d.Addr.IsLoopback() || !strings.Contains(d.Reason, "the gateway process has died; what was sent and taken is not known") {
		t.Errorf("%+v", d)
	}
}

// TestMemory has a sandbox with as many connections as it may, all of them full both ways: its program reads nothing and says as much as is
// taken, to a host that does the same.
func TestMemory(t *testing.T) {
	const most = 160 << 20 // 72 MiB of windows, which the stack may take twice (package internal/link)
	port := host(t, func(c net.Conn) { _, _ = io.Copy(c, endless{}) })
	s, g, _ := enterProcess(t, port, func(egress.Decision) {})
	before := statusBytes(t, g.Pid(), "VmRSS")
	addr, _ := s.lookup("host.example", dnsmessage.TypeA)
	var all sync.WaitGroup
	var taken, said atomic.Int64
	for range 256 {
		all.Go(func() {
			c, err := s.dial(netip.AddrPortFrom(addr, port))
			if err != nil {
				t.Error(err)
				return
			}
			taken.Add(1)
			for err == nil { // until nothing more is taken for a while
				var n int
				_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
				n, err = c.Write(make([]byte, 64<<10))
				said.Add(int64(n))
			}
		})
	}
	all.Wait()
	peak := statusBytes(t, g.Pid(), "VmHWM")
	t.Logf("%d connections took %d MiB; the gateway has %d MiB, and had %d at most, before %d", taken.Load(), said.Load()>>20, statusBytes(t, g.Pid(), "VmRSS")>>20, peak>>20, before>>20)
	if taken.Load() != 256 {
		t.Errorf("%d connections", taken.Load())
	}
	if peak-before > most {
		t.Errorf("a sandbox has made the gateway take %d MiB", (peak-before)>>20)
	}
}

// endless says zeros for ever.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// statusBytes is a size that proc(5) has of a process.
func statusBytes(t *testing.T, pid int, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s in %s", name, text)
	return 0
}

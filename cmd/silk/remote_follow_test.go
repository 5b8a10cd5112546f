//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// slowPipe takes what a command prints with a pause now and then, as the reader of a pipe does.
type slowPipe struct {
	sum   hash.Hash
	n     int64
	every int64 // bytes between two pauses
	pause func()
}

func (p *slowPipe) Write(b []byte) (int, error) {
	if p.n/p.every != (p.n+int64(len(b)))/p.every {
		p.pause()
	}
	p.n += int64(len(b))
	return p.sum.Write(b)
}

// cutter passes connections on to a server, and cuts them.
type cutter struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	cuts  atomic.Int32
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l}
	t.Cleanup(func() { l.Close(); c.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to) //nolint:noctx // a test's
			if err != nil {
				in.Close()
				return
			}
			c.mu.Lock()
			c.conns = append(c.conns, in, out)
			c.mu.Unlock()
			go c.pass(in, out)
			go c.pass(out, in)
		}
	}()
	return c
}

func (c *cutter) pass(to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			to.Close()
			from.Close()
			return
		}
	}
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts.Add(1)
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// app is a command line of a runner that writes to out.
func (s *remoteStand) app(url string, out io.Writer) (*app, *syncBuffer) {
	s.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { null.Close() })
	said := &syncBuffer{}
	env := map[string]string{"SILK_SERVER_URL": url, "SILK_TOKEN": s.tokens[auth.Runner], "HOME": s.dir}
	return &app{in: null, out: out, err: said, env: func(name string) string { return env[name] }}, said
}

// TestRemoteSlowPipe: 60 MB through a server that keeps 1 MiB, to a reader who pauses, over a connection that is cut: every byte
// comes, as from a program of this host.
func TestRemoteSlowPipe(t *testing.T) {
	const size = 60_000_000
	s := newRemoteStandOf(t, servetest.Config{Serve: serve.Config{SpoolBytes: 1 << 20}})
	c := newCutter(t, strings.TrimPrefix(s.url, "http://"))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	out := &slowPipe{sum: sha256.New(), every: 2_000_000}
	pauses := 0
	out.pause = func() {
		<-tick.C
		if pauses++; pauses%6 == 0 {
			c.cut()
		}
	}
	a, said := s.app("http://"+c.Addr().String(), out)
	if status := a.main([]string{"run", "-p", servetest.Profile, "--", "fake", "flood:60000000"}); status != 0 || strings.Contains(said.String(), "not whole") {
		t.Fatalf("status %d: %s", status, said.String())
	}
	want := sha256.New()
	for range size / 1_000_000 {
		want.Write([]byte(strings.Repeat("0123456789", 100_000)))
	}
	if got, want := hex.EncodeToString(out.sum.Sum(nil)), hex.EncodeToString(want.Sum(nil)); got != want || out.n != size {
		t.Errorf("%d bytes with the hash %s, want %s", out.n, got, want)
	}
	if stats := s.Stand.Broker.Stats(); stats.Held == 0 || stats.Gaps != 0 || c.cuts.Load() < 4 {
		t.Errorf("%+v after %d cuts: it was not tested", stats, c.cuts.Load())
	}
}

// TestRemoteStuckPipe: a reader that takes nothing does not hold the program for ever: it goes on, and what is lost is said.
func TestRemoteStuckPipe(t *testing.T) {
	s := newRemoteStandOf(t, servetest.Config{Serve: serve.Config{SpoolBytes: 1 << 20}, Broker: broker.Config{FollowIdle: 100 * time.Millisecond}})
	goes := make(chan struct{})
	var once sync.Once
	out := &slowPipe{sum: sha256.New(), every: 500_000, pause: func() { <-goes }}
	a, said := s.app(s.url, out)
	status := make(chan int)
	go func() { status <- a.main([]string{"run", "-p", servetest.Profile, "--", "fake", "flood:100000000"}) }()
	defer once.Do(func() { close(goes) })
	deadline := time.After(30 * time.Second)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		var list []api.Run
		got := s.start(auth.Owner, "", "runs", "ls", "--json").wait()
		if json.Unmarshal([]byte(got.out), &list) == nil && strings.Contains(got.out, `"ok"`) {
			break
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("the program never ended: %s", got.out)
		}
	}
	once.Do(func() { close(goes) })
	if code := <-status; code != 125 || !strings.Contains(said.String(), "the output is not whole") {
		t.Errorf("status %d: %s", code, said.String())
	}
}

// TestRemoteInputOnce: answers to pieces of input are lost, before and after the server has taken them; the program reads each
// byte once.
func TestRemoteInputOnce(t *testing.T) {
	s := newRemoteStand(t)
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var n, lost atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/stdin") {
			proxy.ServeHTTP(w, r)
			return
		}
		switch n.Add(1) % 3 {
		case 0:
			lost.Add(1)
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case 1:
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	s.url = front.URL
	input := make([]byte, 3_000_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(input) // never fails
	got := s.start(auth.Runner, string(input), "run", "-p", servetest.Profile, "-i", "--", "fake", "cat").wait()
	if got.status != 0 || got.out != string(input) || lost.Load() == 0 {
		t.Errorf("status %d, %d bytes of %d, %d answers lost: %s", got.status, len(got.out), len(input), lost.Load(), got.err)
	}
}

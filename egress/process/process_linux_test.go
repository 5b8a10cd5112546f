package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/testenv"
)

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "silk-gateway")
	if err != nil {
		return "", err
	}
	exe := filepath.Join(dir, "silk-gateway")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", exe, "github.com/silk-sandbox/silk/cmd/silk-gateway")
	build.Env, build.WaitDelay = append(os.Environ(), "CGO_ENABLED=0"), time.Second
	out, err := build.CombinedOutput()
	if err != nil {
		return "", &os.PathError{Op: string(out), Path: exe, Err: err}
	}
	return exe, os.Chmod(dir, 0o755) //nolint:gosec // another user executes it
})

func TestMain(m *testing.M) {
	status := m.Run()
	if exe, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(exe))
	}
	os.Exit(status)
}

func newGateway(t *testing.T) *Gateway {
	t.Helper()
	if _, err := build(); err != nil { // what NoLeaks then finds there already
		t.Fatal(err)
	}
	testenv.NoLeaks(t)
	g := New(build, egress.Limits{})
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// query is a DNS query in an IP packet, as a sandbox sends it to its resolver.
func query(t *testing.T, name string) []byte {
	t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 9}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	text, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	n := 28 + len(text)
	p := []byte{0x45, 0, byte(n >> 8), byte(n), 0, 0, 0x40, 0, 64, 17, 0, 0}
	p = append(append(p, egress.Sandbox4.AsSlice()...), egress.Gateway4.AsSlice()...)
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(p[i])<<8 | uint32(p[i+1])
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	p[10], p[11] = byte(^sum>>8), byte(^sum)
	p = append(p, 0x30, 0x39, 0, 53, byte((n-20)>>8), byte(n-20), 0, 0)
	return append(p, text...)
}

func ask(t *testing.T, link *os.File, name string) dnsmessage.RCode {
	t.Helper()
	if _, err := link.Write(query(t, name)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64<<10)
	n, err := link.Read(b)
	if err != nil || n < 28 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(b[28:n]); err != nil {
		t.Fatal(err)
	}
	return m.RCode
}

// open opens a way out for a sandbox that may reach its own name.
func open(t *testing.T, g *Gateway, id string, tell func(egress.Decision)) egress.Way {
	t.Helper()
	w, err := g.Open(egress.Order{ID: id, Rules: []string{id + ".example:443"}}, tell)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWaysOut(t *testing.T) {
	g := newGateway(t)
	var mu sync.Mutex
	hosts := map[string][]string{}
	var ways []egress.Way
	for _, id := range []string{"a", "b"} { // one process serves both
		ways = append(ways, open(t, g, id, func(d egress.Decision) {
			mu.Lock()
			defer mu.Unlock()
			hosts[id] = append(hosts[id], d.Host)
		}))
	}
	if _, err := g.Open(egress.Order{ID: "a", Rules: []string{"a.example:443"}}, nil); err == nil || !strings.Contains(err.Error(), "has a way out already") {
		t.Errorf("a second one for a: %v", err)
	}
	bad, err := g.Open(egress.Order{ID: "c", Rules: []string{"bad"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := bad.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `host "bad" has no port`) {
		t.Errorf("a bad rule: %v", err)
	}
	_ = bad.Link.Close()
	if got := ask(t, ways[0].Link, "a.example."); got != dnsmessage.RCodeSuccess {
		t.Errorf("a asks for its name: %v", got)
	}
	if got := ask(t, ways[1].Link, "a.example."); got != dnsmessage.RCodeNameError {
		t.Errorf("b asks for a's name: %v", got)
	}
	for _, w := range ways {
		if err := errors.Join(w.Link.Close(), w.Wait(t.Context())); err != nil {
			t.Error(err)
		}
	}
	if hosts["a"] != nil || !slices.Equal(hosts["b"], []string{"a.example"}) {
		t.Errorf("decided: %v", hosts)
	}
}

// TestDeath kills the process: its sandboxes have no network then, and the next one gets another process.
func TestDeath(t *testing.T) {
	g := newGateway(t)
	w := open(t, g, "a", func(egress.Decision) {})
	if err := unix.Kill(g.running.cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "has died") {
		t.Errorf("its end: %v", err)
	}
	if n, err := w.Link.Read(make([]byte, 10)); n != 0 || err == nil {
		t.Errorf("its link: %d bytes, %v", n, err)
	}
	_ = w.Link.Close()
	<-g.running.gone
	w = open(t, g, "a", func(egress.Decision) {})
	if got := ask(t, w.Link, "a.example."); got != dnsmessage.RCodeSuccess {
		t.Errorf("after another start: %v", got)
	}
	_ = w.Link.Close()
	if err := w.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestConfined looks at the process itself: package gateway's TestIntruder shows what that is good for.
func TestConfined(t *testing.T) {
	g := newGateway(t)
	w := open(t, g, "a", func(egress.Decision) {})
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(g.running.cmd.Process.Pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t0000000000000000\n"}
	if os.Getuid() == 0 {
		want = append(want, "Groups:\t \n")
		if uid := strings.Fields(string(status[bytes.Index(status, []byte("Uid:")):]))[1]; uid == "0" {
			t.Error("it is root")
		}
	}
	for _, line := range want {
		if !strings.Contains(string(status), line) {
			t.Errorf("its status has not %q:\n%s", line, status)
		}
	}
	fds, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(g.running.cmd.Process.Pid), "fd"))
	if err != nil && os.Getuid() == 0 {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(g.running.cmd.Process.Pid), "fd", fd.Name()))
		if n, _ := strconv.Atoi(fd.Name()); n > 2 && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/sys/fs/cgroup/") { // Go's runtime reads its share of processors
			t.Errorf("it has %s open", to)
		}
	}
	if err := errors.Join(w.Link.Close(), w.Wait(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	g := New(build, egress.Limits{Rate: 1})
	if got := g.limited(egress.Order{}).Limits; got.Rate != 1 {
		t.Errorf("an order without limits has %+v", got)
	}
	if got := g.limited(egress.Order{Limits: egress.Limits{Bytes: 2}}).Limits; got != (egress.Limits{Bytes: 2}) {
		t.Errorf("an order with limits has %+v", got)
	}
}

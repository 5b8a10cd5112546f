package gvisor_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/egress/gateway"
	"github.com/silk-sandbox/silk/image/imagetest"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// TestLink runs a program whose only way out is a gateway's.
func TestLink(t *testing.T) {
	testenv.Require(t, testenv.Sentry, testenv.Image("lab:python"))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { fmt.Fprint(rw, "hello ", req.Host) }))
	defer server.Close()
	port := netip.MustParseAddrPort(server.Listener.Addr().String()).Port()
	rule, err := egress.ParseRule(fmt.Sprintf("api.example:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	target, err := egress.ParseRule(fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "link")
	var mu sync.Mutex // Decided is called from many goroutines
	var decisions []gateway.Decision
	served := make(chan error, 1)
	go func() {
		served <- gateway.Serve(context.Background(), pair[0], egress.New(egress.Config{
			Rules: []egress.Rule{rule}, Owner: egress.Owner{Hosts: map[string]netip.Addr{"api.example": netip.MustParseAddr("127.0.0.1")}, Targets: []egress.Rule{target}},
			Resolve: func(context.Context, string) ([]netip.Addr, error) { return nil, net.ErrClosed },
		}), gateway.Config{Decided: func(d gateway.Decision) {
			mu.Lock()
			defer mu.Unlock()
			decisions = append(decisions, d)
		}})
	}()

	d, err := gvisor.New(gvisor.Config{Sentry: testenv.SentryPath()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	root := imagetest.Root(t, "lab:python")
	defer root.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	code := fmt.Sprintf(`
import socket, urllib.request, urllib.error
print(open('/etc/resolv.conf').read().strip())
print(urllib.request.urlopen('http://api.example:%[1]d/').read().decode())
try: socket.create_connection(('api.example', 1))
except Exception as e: print(type(e).__name__)
try: socket.getaddrinfo('other.example', 80)
except Exception as e: print(type(e).__name__)
try: socket.create_connection(('93.184.215.14', 80))
except Exception as e: print(type(e).__name__)
`, port)
	s, err := d.Start(t.Context(), driver.Spec{
		ID: "link", Image: root, Trees: []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives"},
		Args: []string{"python3", "-c", code}, Env: []string{"PATH=/usr/bin", "HOME=/workspace", "LANG=C.UTF-8"}, Dir: "/workspace", Hostname: "silk",
		Network: driver.NetworkLink, Link: driver.Link{File: theirs, Addrs: []netip.Addr{egress.Sandbox4, egress.Sandbox6}, MTU: egress.MTU},
		Files:       []driver.File{{Path: "/etc/resolv.conf", Content: []byte("nameserver " + egress.Gateway4.String() + "\n")}},
		MemoryBytes: 512 << 20, WorkspaceBytes: 64 << 20, TmpBytes: 16 << 20, ShmBytes: 16 << 20, Processes: 64, CPUs: 1, Stdout: outW, Stderr: outW,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = outW.Close(), theirs.Close()
	out, err := io.ReadAll(outR)
	exit, waitErr := s.Wait()
	want := strings.Join([]string{"nameserver 198.18.0.1", fmt.Sprintf("hello api.example:%d", port), "ConnectionRefusedError", "gaierror", "ConnectionRefusedError", ""}, "\n")
	if string(out) != want || err != nil || waitErr != nil || exit.Code != 0 {
		t.Errorf("%s\n%+v, %v, %v", out, exit, err, waitErr)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%+v", decisions)
}

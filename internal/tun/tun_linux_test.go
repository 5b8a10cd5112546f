package tun

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// namespace is a network namespace of a test's own, which does what it is given.
type namespace struct {
	file *os.File
	work chan func()
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	n := &namespace{work: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the test
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.file, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
		for do := range n.work {
			do()
		}
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(n.work)
		n.file.Close()
	})
	return n
}

// in calls do in the namespace. What it opens is of that namespace also afterwards.
func (n *namespace) in(do func()) {
	done := make(chan struct{})
	n.work <- func() { do(); close(done) }
	<-done
}

func (n *namespace) interfaces(t *testing.T) (names []string) {
	t.Helper()
	n.in(func() {
		all, err := net.Interfaces()
		if err != nil {
			t.Error(err)
		}
		for _, one := range all {
			names = append(names, one.Name)
		}
	})
	return names
}

// Addresses of two namespaces that are joined.
var (
	near = []netip.Addr{netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("2001:2::2")}
	far  = []netip.Addr{netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("2001:2::1")}
)

const mtu = 60 << 10

func pair(t *testing.T) (a, b *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
}

func open(t *testing.T, n *namespace, addrs []netip.Addr, sock *os.File) *Wire {
	t.Helper()
	w, err := Open(n.file, Config{Name: "eth0", MTU: mtu, Addrs: addrs}, sock)
	if err := errors.Join(err, sock.Close()); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestTwoKernels: two namespaces are joined by their interfaces, and what one says the other hears, whole.
func TestTwoKernels(t *testing.T) {
	testenv.Require(t, testenv.Root)
	a, b := newNamespace(t), newNamespace(t)
	testenv.NoLeaks(t)
	left, right := pair(t)
	wires := []*Wire{open(t, a, near, left), open(t, b, far, right)}
	data := bytes.Repeat([]byte("0123456789"), 1<<20)
	for i, addr := range far {
		var listener net.Listener
		var sock net.PacketConn
		var err, udpErr error
		at := netip.AddrPortFrom(addr, 7).String()
		b.in(func() {
			listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", at)
			sock, udpErr = new(net.ListenConfig).ListenPacket(t.Context(), "udp", at)
		})
		if err := errors.Join(err, udpErr); err != nil {
			t.Fatal(err)
		}
		go func() {
			if c, err := listener.Accept(); err == nil {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}
		}()
		go func() {
			buf := make([]byte, 64<<10)
			if n, from, err := sock.ReadFrom(buf); err == nil {
				_, _ = sock.WriteTo(buf[:n], from)
			}
		}()
		dial := func(network string) (c net.Conn) {
			a.in(func() { c, err = new(net.Dialer).DialContext(t.Context(), network, at) })
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			return c
		}
		stream := dial("tcp")
		if from := netip.MustParseAddrPort(stream.LocalAddr().String()).Addr(); from != near[i] {
			t.Errorf("it comes from %s, want %s", from, near[i])
		}
		go func() {
			_, _ = stream.Write(data)
			_ = stream.(*net.TCPConn).CloseWrite()
		}()
		if got, err := io.ReadAll(stream); err != nil || !bytes.Equal(got, data) {
			t.Errorf("by TCP from %s: %d bytes, %v", addr, len(got), err)
		}
		message, buf := data[:50_001], make([]byte, 64<<10)
		datagrams := dial("udp")
		if _, err := datagrams.Write(message); err != nil {
			t.Error(err)
		}
		if n, err := datagrams.Read(buf); err != nil || !bytes.Equal(buf[:n], message) {
			t.Errorf("by UDP from %s: %d bytes, %v", addr, n, err)
		}
		_, _, _, _ = stream.Close(), datagrams.Close(), listener.Close(), sock.Close()
	}
	for _, w := range wires {
		if err := errors.Join(w.Close(), w.Close()); err != nil {
			t.Error(err)
		}
	}
	if left := a.interfaces(t); len(left) != 1 {
		t.Errorf("interfaces afterwards: %q", left)
	}
}

// TestOtherEndIsGone: who closes the other end takes the interface away.
func TestOtherEndIsGone(t *testing.T) {
	testenv.Require(t, testenv.Root)
	n := newNamespace(t)
	testenv.NoLeaks(t)
	ours, theirs := pair(t)
	w := open(t, n, near, ours)
	if there := n.interfaces(t); len(there) != 2 {
		t.Fatalf("interfaces: %q", there)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	w.work.Wait() // both directions end
	if left := n.interfaces(t); len(left) != 1 {
		t.Errorf("interfaces afterwards: %q", left)
	}
	n.in(func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := new(net.Dialer).DialContext(ctx, "tcp", "192.0.2.1:80"); !errors.Is(err, unix.ENETUNREACH) {
			t.Errorf("a connection: %v", err)
		}
	})
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefused: nothing is left of what cannot be made, least of all in the namespace of this process.
func TestRefused(t *testing.T) {
	testenv.Require(t, testenv.Root)
	n := newNamespace(t)
	ours, theirs := pair(t)
	defer ours.Close()
	defer theirs.Close()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	before, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	testenv.NoLeaks(t)
	if _, err := Open(own, Config{Name: "silk-test0", MTU: mtu, Addrs: near}, ours); !errors.Is(err, errOwn) {
		t.Errorf("in the own namespace: %v", err)
	}
	if _, err := Open(ours, Config{Name: "eth0", MTU: mtu, Addrs: near}, ours); err == nil {
		t.Error("what is no namespace was entered")
	}
	for name, c := range map[string]Config{
		"a name that is too long":    {Name: "a-name-that-is-too-long", MTU: mtu},
		"a packet that is too large": {Name: "eth0", MTU: 1 << 20},
		"an address twice":           {Name: "eth0", MTU: mtu, Addrs: []netip.Addr{near[0], near[0]}},
		"a name that is taken":       {Name: "lo", MTU: mtu},
	} {
		if _, err := Open(n.file, c, ours); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if left := n.interfaces(t); len(left) != 1 {
		t.Errorf("interfaces afterwards: %q", left)
	}
	if now, err := net.Interfaces(); err != nil || len(now) != len(before) {
		t.Errorf("this process has %d interfaces, and had %d: %v", len(now), len(before), err)
	}
}

func TestHead(t *testing.T) {
	v4 := func(change func([]byte)) []byte {
		p := make([]byte, headerBytes+28)
		p[headerBytes], p[headerBytes+9] = 0x45, unix.IPPROTO_UDP
		copy(p[headerBytes+12:], []byte{198, 18, 0, 1, 198, 18, 0, 2})
		change(p[headerBytes:])
		return p
	}
	for _, test := range []struct {
		name  string
		frame []byte
		ok    bool
		head  [headerBytes]byte
		sum   uint16 // at 26
	}{
		{"a datagram", v4(func([]byte) {}), true, [headerBytes]byte{0: 1, 6: 20, 8: 6}, 0x8c41},
		{"a connection's packet that is too short", v4(func(p []byte) { p[9] = unix.IPPROTO_TCP }), false, [headerBytes]byte{}, 0},
		{"a fragment", v4(func(p []byte) { p[7] = 1 }), false, [headerBytes]byte{}, 0},
		{"the first of several fragments", v4(func(p []byte) { p[6] = 0x20 }), false, [headerBytes]byte{}, 0},
		{"one that must not be divided", v4(func(p []byte) { p[6] = 0x40 }), true, [headerBytes]byte{0: 1, 6: 20, 8: 6}, 0x8c41},
		{"a header that is too short", v4(func(p []byte) { p[0] = 0x44 }), false, [headerBytes]byte{}, 0},
		{"ICMP", v4(func(p []byte) { p[9] = unix.IPPROTO_ICMP }), true, [headerBytes]byte{}, 0},
		{"a version that there is not", v4(func(p []byte) { p[0] = 0x55 }), false, [headerBytes]byte{}, 0},
		{"IPv6 that is too short", v4(func(p []byte) { p[0] = 0x60 }), false, [headerBytes]byte{}, 0},
		{"nothing", make([]byte, headerBytes), false, [headerBytes]byte{}, 0},
	} {
		ok := head(test.frame)
		if ok != test.ok {
			t.Errorf("%s: %t, want %t", test.name, ok, test.ok)
		}
		if !ok {
			continue
		}
		if got := [headerBytes]byte(test.frame); got != test.head { // of a little-endian kernel
			t.Errorf("%s: %v, want %v", test.name, got, test.head)
		}
		if got := uint16(test.frame[headerBytes+26])<<8 | uint16(test.frame[headerBytes+27]); got != test.sum {
			t.Errorf("%s: %#x, want %#x", test.name, got, test.sum)
		}
	}
}

// FuzzHead: whatever comes from the other end is passed on or not, and never more than it is.
func FuzzHead(f *testing.F) {
	f.Add(append(make([]byte, headerBytes), 0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2, 0, 53, 0, 53, 0, 8, 0, 0))
	f.Add(append(make([]byte, headerBytes+40), 1, 2, 3))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < headerBytes {
			return
		}
		before := bytes.Clone(frame)
		ok := head(frame)
		start, at := int(frame[6])|int(frame[7])<<8, int(frame[8])|int(frame[9])<<8
		if ok && frame[0] != 0 && headerBytes+start+at+2 > len(frame) {
			t.Errorf("a checksum at %d of %d bytes", start+at, len(frame)-headerBytes)
		}
		changed := 0
		for i := headerBytes; i < len(frame); i++ {
			if frame[i] != before[i] {
				changed++
			}
		}
		if changed > 2 {
			t.Errorf("%d bytes were changed", changed)
		}
	})
}

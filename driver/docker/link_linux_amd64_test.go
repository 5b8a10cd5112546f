package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/internal/tun"
)

// withLink gives a sandbox a link, whose other end lives as long as the test.
func withLink(t *testing.T) func(*driver.Spec) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "gateway"), os.NewFile(uintptr(pair[1]), "link")
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
	})
	return func(s *driver.Spec) {
		s.Network = driver.NetworkLink
		s.Link = driver.Link{File: theirs, Addrs: []netip.Addr{netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("2001:2::2")}, MTU: 60 << 10}
		s.Files = append(s.Files, driver.File{Path: "/etc/resolv.conf", Content: []byte("nameserver 198.18.0.1\n")})
	}
}

// said is what a shell in a container says.
func said(t *testing.T, script string, change func(*driver.Spec)) (string, driver.Exit) {
	t.Helper()
	d := newDriver(t)
	testenv.NoLeaks(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := started(t, d, "link-"+strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), w, script, change)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	exit, waitErr := s.Wait()
	if err != nil || waitErr != nil {
		t.Errorf("%v, %v", err, waitErr)
	}
	return string(out), exit
}

// TestWayOut: what a program sees of its network is what it was given, and the files of the engine are not there.
func TestWayOut(t *testing.T) {
	out, exit := said(t, `
cat /etc/hosts /etc/resolv.conf
tail -n +3 /proc/self/net/dev | cut -d: -f1 | tr -d ' ' | grep -x eth0
wc -l </proc/self/net/if_inet6
`, withLink(t))
	want := "127.0.0.1\tlocalhost silk\n::1\tlocalhost ip6-localhost\nnameserver 198.18.0.1\neth0\n3\n" // ::1, and two of eth0, one of which is link-local
	if out != want || exit.Code != 0 || exit.Violation != nil {
		t.Errorf("it says %q, exit %+v (%v), want %q", out, exit, exit.Violation, want)
	}
}

// TestEnginesFiles: without a way out there is nothing of the engine's either.
func TestEnginesFiles(t *testing.T) {
	out, exit := said(t, "cat /etc/hosts; echo; cat /etc/resolv.conf", nil)
	if want := "127.0.0.1\tlocalhost silk\n::1\tlocalhost ip6-localhost\n\nnameserver 127.0.0.1\n"; out != want || exit.Code != 0 {
		t.Errorf("it says %q, exit %+v, want %q", out, exit, want)
	}
}

func TestFilesOf(t *testing.T) {
	tree, err := image.NewTree(image.TreeConfig{Epoch: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := tree.AddFile("/etc/hosts", 0o644, time.Unix(1e9, 0), strings.NewReader("the image's\n")); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := tree.WriteEROFS(f); err != nil {
		t.Fatal(err)
	}
	own := []driver.File{{Path: "/etc/own", Content: []byte("own\n")}}
	for _, test := range []struct {
		name        string
		files, want []driver.File
	}{
		{"none", nil, []driver.File{{Path: "/etc/hosts", Content: []byte("the image's\n")}, {Path: "/etc/resolv.conf"}}},
		{"one", own, append(own, driver.File{Path: "/etc/hosts", Content: []byte("the image's\n")}, driver.File{Path: "/etc/resolv.conf"})},
		{
			"the run's own in place of the engine's",
			[]driver.File{{Path: "/etc/resolv.conf", Content: []byte("mine\n")}, {Path: "/etc/hosts"}},
			[]driver.File{{Path: "/etc/resolv.conf", Content: []byte("mine\n")}, {Path: "/etc/hosts"}},
		},
		{
			"added to the image's",
			[]driver.File{{Path: "/etc/hosts", Content: []byte("more\n"), After: true}},
			[]driver.File{{Path: "/etc/hosts", Content: []byte("the image's\nmore\n"), After: true}, {Path: "/etc/resolv.conf"}},
		},
		{
			"added to nothing",
			[]driver.File{{Path: "/etc/none", Content: []byte("more\n"), After: true}},
			[]driver.File{{Path: "/etc/hosts", Content: []byte("the image's\n")}, {Path: "/etc/resolv.conf"}},
		},
	} {
		got, err := filesOf(driver.Spec{Image: f, Files: test.files})
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
}

// TestLastWords: what a program has said before it ended arrives, also what its kernel still had.
func TestLastWords(t *testing.T) {
	d := newDriver(t)
	testenv.NoLeaks(t)
	const much = 40_000   // more than the other end takes, and no more than the kernel keeps
	linked := withLink(t) // whose own link is not used
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "far"), os.NewFile(uintptr(pair[1]), "near")
	defer ours.Close()
	defer theirs.Close()
	listener, wire := farListener(t, ours)
	defer wire.Close()
	defer listener.Close()
	handover = time.Minute // this machine may have much to do
	defer func() { handover = time.Second }()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := started(t, d, fmt.Sprintf("last-words-%d", os.Getpid()), w, fmt.Sprintf("exec bash -c 'exec 3>/dev/tcp/198.18.0.1/7; head -c %d /dev/zero >&3; echo said'", much), func(spec *driver.Spec) {
		linked(spec)
		spec.Link.File = theirs
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	c, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if out, err := io.ReadAll(r); string(out) != "said\n" || err != nil { // its end
		t.Errorf("it says %q, %v", out, err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := s.Wait()
		waited <- err
	}()
	select {
	case err := <-waited:
		t.Fatalf("it is over before what it said was taken: %v", err)
	case <-time.After(time.Second): // it waits for us
	}
	n, err := io.Copy(io.Discard, c)
	if n != much || err != nil {
		t.Errorf("%d bytes came, want %d: %v", n, much, err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// farListener listens at the other end of a link, in a network namespace of its own, and takes little at once.
func farListener(t *testing.T, link *os.File) (net.Listener, *tun.Wire) {
	t.Helper()
	type made struct {
		listener net.Listener
		wire     *tun.Wire
		err      error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this function
		var m made
		if m.err = unix.Unshare(unix.CLONE_NEWNET); m.err != nil {
			done <- m
			return
		}
		netns, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- made{err: err}
			return
		}
		defer netns.Close()
		far := tun.Config{Name: "eth0", MTU: 60 << 10, Addrs: []netip.Addr{netip.MustParseAddr("198.18.0.1")}}
		if m.wire, m.err = tun.Open(netns, far, link); m.err == nil {
			config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
			}}
			m.listener, m.err = config.Listen(context.Background(), "tcp4", "198.18.0.1:7")
		}
		done <- m
	}()
	m := <-done
	if m.err != nil {
		t.Fatal(m.err)
	}
	return m.listener, m.wire
}

// TestNoLink: a host that cannot give a container its way out refuses the run, and says what would help.
func TestNoLink(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		fix  string
	}{
		{"no device", fs.ErrNotExist, "modprobe tun"},
		{"a device without a driver", unix.ENODEV, "modprobe tun"},
		{"no capability", unix.EPERM, "CAP_NET_ADMIN"},
		{"a device that may not be opened", &fs.PathError{Op: "open", Path: "/dev/net/tun", Err: unix.EACCES}, "CAP_NET_ADMIN"},
	} {
		var unheld *driver.Unheld
		if err := noLink(fmt.Errorf("make network interface eth0: %w", test.err)); !errors.As(err, &unheld) || unheld.Promise != "network" || !strings.Contains(unheld.Fix, test.fix) {
			t.Errorf("%s: %v, want a refusal that names %s", test.name, err, test.fix)
		}
	}
	var unheld *driver.Unheld
	if err := noLink(unix.EBUSY); errors.As(err, &unheld) || !errors.Is(err, unix.EBUSY) {
		t.Errorf("what is the host's fault is %v", err)
	}
}

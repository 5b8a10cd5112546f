package packet

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
)

type message struct {
	ID        string
	Args, Env []string
}

func pair(t *testing.T) (a, b int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseAll(p[:]) })
	return p[0], p[1]
}

func TestSendReceive(t *testing.T) {
	for _, test := range []struct {
		name string
		req  message
	}{
		{"small", message{ID: "r", Args: []string{"true"}, Env: []string{"A=b c"}}},
		{"larger than a socket's buffer", message{ID: "r", Args: []string{"sh", "-c", strings.Repeat("x\x01\"", 200_000)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			testenv.NoLeaks(t)
			a, b := pair(t)
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			if err := Send(a, test.req, int(null.Fd()), int(null.Fd())); err != nil {
				t.Fatal(err)
			}
			var got message
			fds, err := Receive(b, &got)
			defer CloseAll(fds)
			if err != nil || len(fds) != 2 {
				t.Fatalf("Receive: %d descriptors, %v; want 2", len(fds), err)
			}
			if d := cmp.Diff(test.req, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReceiveEnd(t *testing.T) {
	a, b := pair(t)
	if err := unix.Shutdown(a, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	var m message
	if _, err := Receive(b, &m); !errors.Is(err, io.EOF) {
		t.Errorf("Receive after the peer left: %v, want EOF", err)
	}
	var c message
	if err := Read(b, &c); !errors.Is(err, io.EOF) {
		t.Errorf("Read after the peer left: %v, want EOF", err)
	}
}

func TestReceiveRefuses(t *testing.T) {
	for name, packet := range map[string][]byte{
		"what is no JSON":              []byte("{"),
		"a packet that is too long":    make([]byte, packetBytes+1),
		"a file that was not attached": []byte(inFile + "x"),
	} {
		t.Run(name, func(t *testing.T) {
			testenv.NoLeaks(t)
			a, b := pair(t)
			if err := unix.Sendmsg(a, packet, unix.UnixRights(b), nil, 0); err != nil {
				t.Fatal(err)
			}
			var m message
			if fds, err := Receive(b, &m); err == nil || fds != nil {
				t.Errorf("Receive took %s: %v, %+v", name, fds, m)
			}
		})
	}
}

func TestSendRefusesTheTooLarge(t *testing.T) {
	a, _ := pair(t)
	if err := Send(a, message{Args: []string{strings.Repeat("x", MaxMessageBytes)}}); err == nil {
		t.Error("Send took a message above the limit")
	}
}

// FuzzReceive sends bytes, as a packet and as a file beside one: they are a message or an error, and nothing stays open.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"ID":"r","Args":["a"]}`), uint8(0))
	f.Add([]byte(inFile), uint8(1))
	f.Add([]byte(`{"ID":1}`), uint8(2))
	f.Add([]byte{}, uint8(3))
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { CloseAll(p[:]) })
	lowest := func() int { // the next descriptor: what was left open is below it
		fd, err := unix.Dup(p[0])
		if err != nil {
			f.Fatal(err)
		}
		_ = unix.Close(fd)
		return fd
	}
	f.Fuzz(func(t *testing.T, b []byte, how uint8) {
		free := lowest()
		text, fds := b, make([]int, 0, 8)
		if how&1 != 0 { // in a file, whose name is a packet
			file, err := asFile(b)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(file)
			text, fds = []byte(inFile), append(fds, file)
		}
		for range how >> 1 & 3 {
			fds = append(fds, p[0])
		}
		var oob []byte
		if len(fds) > 0 {
			oob = unix.UnixRights(fds...)
		}
		if err := unix.Sendmsg(p[0], text, oob, nil, 0); errors.Is(err, unix.EMSGSIZE) {
			return // larger than the socket's buffer: nobody receives it
		} else if err != nil {
			t.Fatal(err)
		}
		var m message
		got, err := Receive(p[1], &m)
		if err != nil && got != nil && !errors.Is(err, io.EOF) {
			t.Errorf("an error with %d descriptors: %v", len(got), err)
		}
		CloseAll(got)
		if how&1 == 0 {
			if now := lowest(); now != free {
				t.Errorf("descriptor %d was free, now it is %d", free, now)
			}
		}
	})
}

func TestReceiveRefusesALargeFile(t *testing.T) {
	testenv.NoLeaks(t)
	a, b := pair(t)
	file, err := unix.MemfdCreate("large", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	if err := unix.Ftruncate(file, 1<<40); err != nil { // sparse
		t.Fatal(err)
	}
	if err := unix.Sendmsg(a, []byte(inFile), unix.UnixRights(file), nil, 0); err != nil {
		t.Fatal(err)
	}
	var m message
	if fds, err := Receive(b, &m); err == nil || fds != nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("Receive took a file of 1 TiB: %v, %v", fds, err)
	}
}

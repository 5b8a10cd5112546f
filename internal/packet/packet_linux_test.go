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

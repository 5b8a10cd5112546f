package docker

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/docker/launch"
)

// parties are the two ends of a packet socket: a party as silk has it, and who speaks to it.
func parties(t *testing.T) (party, *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ends[i] = c.(*net.UnixConn)
	}
	return party{conn: ends[0]}, ends[1]
}

// TestDescriptorsOfTheLauncher: one that is no listener is not kept, whatever it comes with.
func TestDescriptorsOfTheLauncher(t *testing.T) {
	for _, test := range []struct {
		name    string
		message []byte
		count   int
		kept    bool
	}{
		{"a listener", []byte{launch.Listens, 0, 0, 0, 0, 0, 0, 0}, 1, true},
		{"two", []byte{launch.Listens, 0, 0, 0, 0, 0, 0, 0}, 2, false},
		{"one with a failure", []byte{launch.Failed, 0, 0, 0, 0, 0, 0, 0}, 1, false},
		{"one with half a message", []byte{launch.Listens}, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, launcher := parties(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var fds []int
			for range test.count {
				fds = append(fds, int(w.Fd()))
			}
			if _, _, err := launcher.WriteMsgUnix(test.message, unix.UnixRights(fds...), nil); err != nil {
				t.Fatal(err)
			}
			w.Close()
			_, _, _, listener, err := p.receive(t.Context())
			if kept := listener >= 0; kept != test.kept {
				t.Errorf("descriptor %d, %v", listener, err)
			}
			if listener >= 0 {
				unix.Close(listener)
			}
			end := []unix.PollFd{{Fd: int32(r.Fd())}}
			if _, err := unix.Poll(end, 0); err != nil || end[0].Revents&unix.POLLHUP == 0 {
				t.Errorf("a descriptor was kept: %v", err)
			}
		})
	}
}

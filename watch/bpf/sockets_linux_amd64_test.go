package bpf

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/cgroup"
)

// grouped starts a program in a control group of its own.
func grouped(t *testing.T, program string) (*standIn, *cgroup.Group) {
	t.Helper()
	p := start(t, program)
	g, err := cgroup.Child(p.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := g.Add(p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return p, g
}

// TestWatchDeniesSockets: root itself gets no INET socket in a watched sandbox's control group, nor in a network namespace
// of its own; outside of the group and after the end of the watching it does.
func TestWatchDeniesSockets(t *testing.T) {
	w := opened(t, Config{}, 0)
	p, g := grouped(t, "sockets")
	const free, denied = "inet: 0, inet6: 0, packet: 0, unix: 0", "inet: 1, inet6: 1, packet: 0, unix: 0" // EPERM is 1
	if got := p.tell(t, "here"); got != free {
		t.Fatalf("before: %s", got)
	}
	s, err := w.Watch(p.Process.Pid, g.Path())
	if err != nil {
		t.Fatal(err)
	}
	if got := p.tell(t, "here"); got != denied {
		t.Errorf("watched: %s, want %s", got, denied)
	}
	if got := p.tell(t, "in another namespace"); got != denied {
		t.Errorf("watched, in a network namespace of its own: %s, want %s", got, denied)
	}
	other := start(t, "sockets")
	if got := other.tell(t, "here"); got != free {
		t.Errorf("in another control group: %s, want %s", got, free)
	}
	other.end(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := p.tell(t, "here"); got != free {
		t.Errorf("after the end of the watching: %s, want %s", got, free)
	}
	p.end(t)
}

// socketErrors makes a socket of each family and returns the numbers of the errors.
func socketErrors() (all [4]uintptr) {
	for i, family := range []uintptr{unix.AF_INET, unix.AF_INET6, unix.AF_PACKET, unix.AF_UNIX} {
		fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, family, unix.SOCK_DGRAM, 0)
		if all[i] = uintptr(errno); errno == 0 {
			_ = unix.Close(int(fd))
		}
	}
	return all
}

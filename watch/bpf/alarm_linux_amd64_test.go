package bpf

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/watch"
)

// watched starts a program, watches it for alarms, and lets it go.
func watched(t *testing.T, w *Watcher, arm bool, program string, args ...string) (*Scope, *standIn) {
	t.Helper()
	p := start(t, program, args...)
	s, err := w.Watch(p.Process.Pid, "")
	if err != nil {
		t.Fatal(err)
	}
	if arm {
		if err := s.Arm(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.stdin.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	return s, p
}

func TestAlarm(t *testing.T) {
	w := opened(t, Config{}, 0)
	s, p := watched(t, w, false, "calls")
	for _, line := range []string{"socket", "connect", "execve", "setuid", "capset", "mount", "blind"} {
		p.tell(t, line)
	}
	if n, _, err := s.Alarms(); n != 0 || err != nil {
		t.Errorf("before Arm: Alarms() = %d, %v", n, err)
	}
	if err := s.Arm(); err != nil {
		t.Fatal(err)
	}
	p.tell(t, "unix")
	p.tell(t, "openat")
	if n, first, err := s.Alarms(); n != 0 || err != nil {
		t.Errorf("what a sandbox's kernel does all the time is an alarm: %d, %+v, %v", n, first, err)
	}
	want := []string{
		"socket||AF_INET6 SOCK_DGRAM 17", "socket||AF_PACKET SOCK_RAW 0", "connect||192.0.2.1:443", "execve||/calls/execve",
		"setuid||-1", "capset", "mount||/calls/mount", "blind|io_uring_setup",
	}
	for i, line := range []string{"socket", "packet", "connect", "execve", "setuid", "capset", "mount", "blind"} {
		p.tell(t, line)
		n, first, err := s.Alarms()
		if n != uint64(i+1) || err != nil {
			t.Errorf("after %s: Alarms() = %d, %v, want %d", line, n, err, i+1)
		}
		if got := words([]watch.Event{first})[0]; got != want[0] || first.Process != p.Process.Pid {
			t.Errorf("the first alarm is %+v", first)
		}
		if got := words([]watch.Event{<-s.Events()})[0]; got != want[i] {
			t.Errorf("got %q, want %q", got, want[i])
		}
	}
	p.end(t)
}

func TestAlarmOfSeccompKill(t *testing.T) {
	w := opened(t, Config{}, 0)
	for program, want := range map[string]uint64{"killed-by-seccomp": 1, "trapped-by-seccomp": 0, "signal": 0} {
		s, p := watched(t, w, true, program)
		p.end(t)
		n, first, err := s.Alarms()
		if n != want || err != nil {
			t.Errorf("%s: Alarms() = %d, %+v, %v, want %d", program, n, first, err, want)
		}
		if n == 1 && words([]watch.Event{first})[0] != "sigsys|personality" {
			t.Errorf("the alarm is %+v", first)
		}
	}
}

// TestAlarmOfDescendants: threads that there were before Watch, threads and processes that came after, and a process
// that has left everything it could.
func TestAlarmOfDescendants(t *testing.T) {
	w := opened(t, Config{}, 0)
	for _, flag := range []int{pidfdThread, 1} { // 1: refused, as PIDFD_THREAD is before Linux 6.9
		w.threadFlag = flag
		s, p := watched(t, w, true, "thread")
		p.end(t)
		if n, first, err := s.Alarms(); n != 1 || err != nil || first.Thread == first.Process {
			t.Errorf("a thread: Alarms() = %d, %+v, %v", n, first, err)
		}
	}
	s, p := watched(t, w, true, "leave", topProcs(t), "/left")
	p.end(t)
	if n, first, err := s.Alarms(); n != 1 || err != nil || first.Kind != watch.Execve {
		t.Errorf("a child in other namespaces: Alarms() = %d, %+v, %v", n, first, err)
	}
}

func TestAlarmKills(t *testing.T) {
	w := opened(t, Config{Kill: true}, 0)
	s, p := watched(t, w, true, "calls")
	p.tell(t, "openat")
	if said := p.tell(t, "socket"); said != "" {
		t.Errorf("after its alarm it said %q", said)
	}
	state := p.end(t)
	if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", state)
	}
	n, first, err := s.Alarms()
	if n != 1 || err != nil || first.Result != "killed" {
		t.Errorf("Alarms() = %d, %+v, %v", n, first, err)
	}
}

// TestAlarmsAreCountedWithoutReader: many more than the ring and the channel take, and nobody reads.
func TestAlarmsAreCountedWithoutReader(t *testing.T) {
	w := opened(t, Config{}, 0)
	s, p := watched(t, w, true, "many")
	p.end(t)
	n, first, err := s.Alarms()
	if n != noise || err != nil || first.Kind != watch.CapSet {
		t.Errorf("Alarms() = %d, %+v, %v, want %d", n, first, err, noise)
	}
	if c, err := s.Counts(); err != nil || c.Delivered+c.Lost != 16 {
		t.Errorf("Counts() = %+v, %v, want 16: the shared ring is for others too", c, err)
	}
	// One that does not read takes nothing from another.
	other, q := watched(t, w, true, "calls")
	q.tell(t, "mount")
	if e := <-other.Events(); e.Kind != watch.Mount {
		t.Errorf("got %+v", e)
	}
	q.end(t)
}

// TestAlarmByCgroup: who is put into the sandbox's control group belongs to it, with or without a tag.
func TestAlarmByCgroup(t *testing.T) {
	w := opened(t, Config{}, 0)
	p, other := start(t, "wait"), start(t, "calls")
	var g *cgroup.Group
	for range 3 { // one below the other
		var err error
		if g, err = cgroup.Child(p.Process.Pid); err != nil {
			t.Fatal(err)
		}
		defer func(g *cgroup.Group) {
			if err := g.Remove(context.Background()); err != nil {
				t.Error(err)
			}
		}(g)
		if err := g.Add(p.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.Watch(p.Process.Pid, g.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Arm(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(other.Process.Pid); err != nil {
		t.Fatal(err)
	}
	other.tell(t, "\nconnect")
	if n, first, err := s.Alarms(); n != 1 || err != nil || first.Process != other.Process.Pid {
		t.Errorf("Alarms() = %d, %+v, %v", n, first, err)
	}
	other.end(t)
	p.end(t)
	if _, err := w.Watch(p.Process.Pid, "/proc"); err == nil {
		t.Error("a directory that is no control group was taken for one")
	}
}

// TestUntaggable: the kernel has no memory for a tag. The task is noted elsewhere; if that fails, the sandbox is lost.
func TestUntaggable(t *testing.T) {
	t.Run("noted", func(t *testing.T) {
		w := opened(t, Config{}, 1)
		s, p := watched(t, w, true, "leave", topProcs(t), "/left")
		p.end(t)
		if n, first, err := s.Alarms(); n != 1 || err != nil || first.Kind != watch.Execve {
			t.Errorf("Alarms() = %d, %+v, %v, want the child's exec", n, first, err)
		}
		var used uint32
		if err := w.kernel.NewbornsUsed.Get(&used); err != nil || used != 0 {
			t.Errorf("%d notes are left (%v), want none: those tasks have ended", used, err)
		}
	})
	t.Run("lost", func(t *testing.T) {
		w := opened(t, Config{}, 2)
		s, p := watched(t, w, false, "leave", os.DevNull, "/left")
		state := p.end(t)
		if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Errorf("it ended with %v, want a kill", state)
		}
		n, first, err := s.Alarms()
		if n == 0 || err != nil || first.Kind != watch.Clone || !strings.HasSuffix(first.Argument, "could not be tagged") {
			t.Errorf("Alarms() = %d, %+v, %v", n, first, err)
		}
	})
}

func TestKillFindsEverybody(t *testing.T) {
	w := opened(t, Config{}, 0)
	s, p := guest(t, w, "bomb", topProcs(t))
	go func() {
		for range s.Events() {
		}
	}()
	for { // until it has left its control group and forks
		line, err := p.stdout.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "go\n" {
			break
		}
	}
	if err := s.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	pids, err := s.Processes()
	if err != nil || len(pids) != 0 {
		t.Errorf("Processes() = %v, %v, want none", pids, err)
	}
	state := p.end(t)
	if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", state)
	}
}

// TestDoomedDieAtTheirNextCall: what Kill begins with ends a process before it is found.
func TestDoomedDieAtTheirNextCall(t *testing.T) {
	w := opened(t, Config{}, 0)
	s, p := watched(t, w, false, "calls")
	other, q := watched(t, w, false, "calls")
	if err := s.doom(); err != nil {
		t.Fatal(err)
	}
	if said := p.tell(t, "capset"); said != "" {
		t.Errorf("it said %q", said)
	}
	if said := q.tell(t, "capset"); said != "did capset" {
		t.Errorf("the one beside said %q", said)
	}
	p.end(t)
	q.end(t)
	if err := errors.Join(s.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	var dooming uint32
	if err := w.kernel.Dooming.Get(&dooming); err != nil || dooming != 0 {
		t.Errorf("%d scopes are being killed (%v), want none", dooming, err)
	}
}

// TestClosedScopeEndsNobody: what is left of a scope's process after its Close is no business of the watcher.
func TestClosedScopeEndsNobody(t *testing.T) {
	w := opened(t, Config{Kill: true}, 0)
	s, p := watched(t, w, true, "calls")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if said := p.tell(t, "mount"); said != "did mount" {
		t.Errorf("it said %q", said)
	}
	p.end(t)
}

func TestScopesAreReused(t *testing.T) {
	w := opened(t, Config{Scopes: 1}, 0)
	s, p := watched(t, w, true, "calls")
	if _, err := w.Watch(p.Process.Pid, ""); !errors.Is(err, ErrFull) {
		t.Errorf("a second scope: %v, want ErrFull", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Processes(); !errors.Is(err, ErrClosed) {
		t.Errorf("Processes() after Close: %v", err)
	}
	if err := s.Arm(); !errors.Is(err, ErrClosed) {
		t.Errorf("Arm() after Close: %v", err)
	}
	// Its process lives on with a tag of the same slot.
	next, q := watched(t, w, true, "calls")
	p.tell(t, "mount")
	if n, first, err := next.Alarms(); n != 0 || err != nil {
		t.Errorf("an alarm of another sandbox's process: %d, %+v, %v", n, first, err)
	}
	q.tell(t, "mount")
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	q.tell(t, "mount")
	third, err := w.Watch(q.Process.Pid, "")
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := third.Alarms()
	c, err2 := third.Counts()
	if n != 0 || c != (Counts{}) || err != nil || err2 != nil {
		t.Errorf("a new scope in an old slot has %d alarms and %+v: %v, %v", n, c, err, err2)
	}
	for _, end := range []func() error{w.Check, w.Close} { // also after the watcher's end
		if err := end(); err != nil {
			t.Error(err)
		}
		if n, first, err := next.Alarms(); n != 1 || err != nil || first.Kind != watch.Mount {
			t.Errorf("Alarms() = %d, %+v, %v", n, first, err)
		}
		if n, _, err := s.Alarms(); n != 0 || err != nil {
			t.Errorf("Alarms() of the first one = %d, %v", n, err)
		}
	}
	if _, err := w.Watch(1<<22+1, ""); err == nil { // above the highest pid there can be, proc_sys_kernel(5)
		t.Error("a process that does not exist is watched")
	}
	p.end(t)
	q.end(t)
}

func TestCheckNoticesDetachedPrograms(t *testing.T) {
	for _, test := range []struct {
		name  string
		at    int  // in links
		known bool // its descriptor is asked, else only what it saw of our calls tells
	}{
		{"entry of system calls", 0, false},
		{"exit of system calls", 1, false},
		{"births", 2, true},
		{"ends", 3, true},
		{"signals", 4, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := opened(t, Config{}, 0)
			if err := w.Check(); err != nil {
				t.Fatal(err)
			}
			l := w.links[test.at]
			if !test.known {
				w.links = slices.Delete(w.links, test.at, test.at+1)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if err := w.Check(); err == nil {
				t.Error("Check() = nil")
			}
			if test.known {
				w.links = slices.Delete(w.links, test.at, test.at+1)
			}
		})
	}
}

func TestReaderThatDiesIsNoticed(t *testing.T) {
	for name, kill := range map[string]func(*Watcher, *Scope) error{
		"the reader of alarms":     func(w *Watcher, _ *Scope) error { return w.ring.Close() },
		"the reader of the events": func(_ *Watcher, s *Scope) error { return s.ring.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := opened(t, Config{}, 0)
			s, p := guest(t, w, "wait")
			if err := kill(w, s); err != nil {
				t.Fatal(err)
			}
			select {
			case <-s.Lost():
			case <-time.After(10 * time.Second):
				t.Fatal("Lost stays open")
			}
			<-w.Done() // the same
			if err := w.Check(); !errors.Is(err, ErrClosed) {
				t.Errorf("Check() = %v", err)
			}
			if _, err := w.Watch(p.Process.Pid, ""); !errors.Is(err, ErrClosed) {
				t.Errorf("Watch() = %v", err)
			}
			p.end(t)
		})
	}
}

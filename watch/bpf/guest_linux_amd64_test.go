package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/watch"
)

// opened is a watcher for a test.
func opened(t *testing.T, c Config, faults uint32) *Watcher {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.BPF)
	testenv.NoLeaks(t)
	w, err := open(t.Context(), c, faults)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// guest starts a program as a guest and releases it.
func guest(t *testing.T, w *Watcher, program string, args ...string) (*Scope, *standIn) {
	t.Helper()
	p := start(t, program, args...)
	s, err := w.Guest(t.Context(), p.Process.Pid, p.stdin)
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

// collect receives events until the channel is closed.
func collect(s *Scope) chan []watch.Event {
	done := make(chan []watch.Event, 1)
	go func() {
		var all []watch.Event
		for e := range s.Events() {
			all = append(all, e)
		}
		done <- all
	}()
	return done
}

// run runs a program to its end as a guest and returns what was seen of it, without births and ends of tasks, which are
// the Go runtime's.
func run(t *testing.T, w *Watcher, program string, args ...string) []watch.Event {
	t.Helper()
	s, p := guest(t, w, program, args...)
	events := collect(s)
	p.end(t)
	if c, err := s.Counts(); err != nil || c.Lost != 0 {
		t.Errorf("Counts() = %+v, %v, want nothing lost", c, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(<-events, func(e watch.Event) bool { return e.Kind == watch.Clone || e.Kind == watch.Exit })
}

// words are the parts of events that a test can know before.
func words(events []watch.Event) (out []string) {
	for _, e := range events {
		line := string(e.Kind) + "|" + e.Syscall + "|" + e.Argument + "|" + e.Result
		out = append(out, strings.TrimRight(line, "|"))
	}
	return out
}

func TestGuestSeesEachCallOnce(t *testing.T) {
	w := opened(t, Config{}, 0)
	for _, test := range []struct {
		program string
		want    []string
	}{
		{"seven", []string{
			"socket||AF_INET SOCK_STREAM 6",
			"connect||192.0.2.1:443",
			"connect||[2001:db8::1]:443",
			"connect||unix:/run/seven",
			"connect||unix:@seven",
			"openat||/seven/\ufffd[31mpath",
			"execve||/seven/program",
			"setuid||-1",
			"capset",
			"mount||/seven/target",
		}},
		{"variants", []string{
			"openat|open|/variants/open",
			"openat|creat|/variants/creat",
			"openat|openat2|/variants/openat2",
			"openat||/variants/" + strings.Repeat("long", 200),
			"execve|execveat|descriptor 12345",
			"setuid|setresuid|-1 -1 -1",
			"setuid|setregid|-1 -1",
			"mount|umount2|/variants/umount",
			"mount|pivot_root|/variants/pivot",
			"mount|fsopen|variantfs",
			"blind|io_uring_setup",
		}},
		{"refused", []string{
			"openat||/refused|EACCES",
			"denied|personality||EPERM",
			"denied|ptrace||EPERM",
		}},
		{"killed-by-seccomp", []string{"sigsys|personality"}},
		{"trapped-by-seccomp", nil}, // the program's own handler got it
	} {
		t.Run(test.program, func(t *testing.T) {
			before := time.Now().Add(-time.Second)
			events := run(t, w, test.program)
			got := words(events)
			if test.program == "trapped-by-seccomp" { // what Go's runtime does as it dies is not asked
				got = slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "sigsys") })
			}
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			for _, e := range events {
				if e.Origin != watch.Host || e.Process == 0 || e.Thread == 0 || e.At.Before(before) || e.At.After(time.Now().Add(time.Second)) {
					t.Errorf("an event without its circumstances: %+v", e)
				}
			}
		})
	}
}

// TestForbiddenCallEndsTheGuest: all of it, in the kernel, whether or not anybody reads.
func TestForbiddenCallEndsTheGuest(t *testing.T) {
	w := opened(t, Config{Guarded: true}, 0)
	s, p := guest(t, w, "forbidden")
	beside, q := guest(t, w, "calls")
	state := p.end(t)
	if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", state)
	}
	for began := time.Now(); ; { // its child dies at the end of a call, by itself
		pids, err := s.Processes()
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) == 0 {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%v live on", pids)
		}
	}
	n, first, err := s.Alarms()
	if n != 1 || err != nil || first.Kind != watch.Socket || first.Argument != "AF_INET SOCK_STREAM 6" || first.Result != "killed" {
		t.Errorf("Alarms() = %d, %+v, %v", n, first, err)
	}
	events := collect(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := words(<-events); !slices.Contains(got, "denied|sethostname||ENOSYS") || slices.Contains(got, "denied|sethostname||EPERM") {
		t.Errorf("events %q, want the answered call among them", got)
	}
	if said := q.tell(t, "capset"); said != "did capset" {
		t.Errorf("the one beside said %q", said)
	}
	if n, _, err := beside.Alarms(); n != 0 || err != nil {
		t.Errorf("the one beside has %d alarms (%v)", n, err)
	}
	q.end(t)
	if err := beside.Close(); err != nil {
		t.Error(err)
	}
	var dooming uint32
	if err := w.kernel.Dooming.Get(&dooming); err != nil || dooming != 0 {
		t.Errorf("%d scopes are looked at (%v), want none", dooming, err)
	}
}

func TestGuestSeesThreadKilledBySeccomp(t *testing.T) {
	w := opened(t, Config{}, 0)
	s, p := guest(t, w, "thread-killed-by-seccomp")
	for e := range s.Events() {
		if e.Kind == watch.SigSys {
			if e.Process != p.Process.Pid || e.Thread == e.Process {
				t.Errorf("got %+v, want a thread of %d", e, p.Process.Pid)
			}
			break
		}
	}
}

func TestGuestSeesBirthsAndEnds(t *testing.T) {
	w := opened(t, Config{}, 0)
	s, p := guest(t, w, "exit 3")
	events := collect(s)
	p.end(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := <-events
	want := []string{"exit||3"}
	if diff := cmp.Diff(want, words(slices.DeleteFunc(got, func(e watch.Event) bool { return e.Kind != watch.Exit }))); diff != "" {
		t.Errorf("ends of processes (-want +got):\n%s", diff)
	}

	s, p = guest(t, w, "leave", os.DevNull, "/dev/null")
	events = collect(s)
	p.end(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got = <-events
	i := slices.IndexFunc(got, func(e watch.Event) bool {
		return e.Kind == watch.OpenAt && e.Argument == "/dev/null" && e.Process != p.Process.Pid
	})
	if i < 0 {
		t.Fatalf("the child did not open: %q", words(got))
	}
	if born := fmt.Sprintf("process %d", got[i].Process); !slices.ContainsFunc(got[:i], func(e watch.Event) bool { return e.Kind == watch.Clone && e.Argument == born }) {
		t.Errorf("the birth of %s was not seen: %q", born, words(got[:i]))
	}
}

func TestGuestSees32BitCalls(t *testing.T) {
	w := opened(t, Config{}, 0)
	got := words(run(t, w, "compat"))
	want := []string{"blind|32-bit call 20", "blind|32-bit call 1"}
	if len(got) < 2 || !slices.Equal(got[len(got)-2:], want) {
		t.Errorf("got %q, want %q at the end", got, want)
	}
}

// TestGuestCannotLeave: the program leaves its control group, then starts another one in namespaces of its own.
func TestGuestCannotLeave(t *testing.T) {
	w := opened(t, Config{}, 0)
	top := topProcs(t)
	if got := words(run(t, w, "leave", top, "/left")); !slices.Contains(got, "openat||/left") {
		t.Errorf("what it did outside was not seen: %q", got)
	}
}

// TestGuestByTagAlone: where no control group can be had.
func TestGuestByTagAlone(t *testing.T) {
	w := opened(t, Config{}, 0)
	p := start(t, "leave", os.DevNull, "/left")
	w.tagOnly = true
	s, err := w.Guest(t.Context(), p.Process.Pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := s.Processes(); s.Cgroup() != "" || err != nil || !slices.Equal(pids, []int{p.Process.Pid}) {
		t.Errorf("Cgroup() = %q, Processes() = %v, %v", s.Cgroup(), pids, err)
	}
	if _, err := p.stdin.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	events := collect(s)
	p.end(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := words(<-events); !slices.Contains(got, "openat||/left") {
		t.Errorf("what its child did was not seen: %q", got)
	}
}

// TestGuestByCgroup: a process that others put into the guest's control group belongs to the guest, also when it has left.
func TestGuestByCgroup(t *testing.T) {
	w := opened(t, Config{}, 0)
	s, p := guest(t, w, "wait")
	if dir := s.Cgroup(); !strings.HasPrefix(dir, filepath.Dir(topProcs(t))) {
		t.Fatalf("Cgroup() = %q", dir)
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.Process.Pid) + "/cgroup")
	if err != nil || !strings.Contains(string(b), "/"+filepath.Base(s.Cgroup())+"\n") {
		t.Errorf("the guest is in %q (%v), want %s", b, err, s.Cgroup())
	}
	other := start(t, "calls")
	below := filepath.Join(s.Cgroup(), "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	move := func(procs string) {
		t.Helper()
		if err := os.WriteFile(procs, []byte(strconv.Itoa(other.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	other.tell(t, "\nopenat") // its first byte, then outside
	move(filepath.Join(below, "cgroup.procs"))
	other.tell(t, "socket")
	move(topProcs(t))
	other.tell(t, "capset")
	other.end(t)
	p.end(t)
	if err := unix.Rmdir(below); err != nil {
		t.Error(err)
	}
	var got []watch.Event
	events := collect(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, e := range <-events {
		if e.Process == other.Process.Pid && e.Kind != watch.Clone && e.Kind != watch.Exit {
			got = append(got, e)
		}
	}
	if diff := cmp.Diff([]string{"socket||AF_INET6 SOCK_DGRAM 17", "capset"}, words(got)); diff != "" {
		t.Errorf("events of the other process (-want +got):\n%s", diff)
	}
}

// TestOutsideIsNotSeen: a process of another scope and one of none do the same at the same time.
func TestOutsideIsNotSeen(t *testing.T) {
	w := opened(t, Config{}, 0)
	in, inside := guest(t, w, "wait")
	neighbour, other := guest(t, w, "seven")
	seen, others := collect(in), collect(neighbour)
	outside := start(t, "seven")
	if _, err := outside.stdin.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	call(unix.SYS_CAPSET, 0, 0) // this process
	outside.end(t)
	other.end(t)
	inside.end(t)
	for _, s := range []*Scope{in, neighbour} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range <-seen {
		if e.Process != inside.Process.Pid {
			t.Errorf("seen: %+v", e)
		}
	}
	for _, e := range <-others {
		if e.Process != other.Process.Pid {
			t.Errorf("seen in the scope beside: %+v", e)
		}
	}
}

func TestTwoWatchers(t *testing.T) {
	w := opened(t, Config{}, 0)
	second, err := Open(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}()
	p := start(t, "open", "/twice")
	var scopes []*Scope
	for _, w := range []*Watcher{w, second} {
		s, err := w.Guest(t.Context(), p.Process.Pid, nil)
		if err != nil {
			t.Fatal(err)
		}
		scopes = append(scopes, s)
	}
	if _, err := p.stdin.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	events := []chan []watch.Event{collect(scopes[0]), collect(scopes[1])}
	p.end(t)
	for i := range slices.Backward(scopes) { // the second one's group is below the first one's
		if err := scopes[i].Close(); err != nil {
			t.Error(err)
		}
		if got := words(<-events[i]); !slices.Contains(got, "openat||/twice") {
			t.Errorf("watcher %d saw %q", i, got)
		}
	}
}

// TestLostEventsAreCounted: nobody receives while a guest makes more events than the ring has room for.
func TestLostEventsAreCounted(t *testing.T) {
	w := opened(t, Config{GuestBytes: 1 << 16}, 0)
	s, p := guest(t, w, "noise", "/noise")
	p.end(t)
	c, err := s.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if c.Lost == 0 || c.Delivered < guestRoom {
		t.Errorf("Counts() = %+v, want some of each", c)
	}
	other := 0
	got := 0
	for range c.Delivered {
		if e := <-s.Events(); e.Kind == watch.OpenAt {
			got++
		} else {
			other++
		}
	}
	// Births and ends are the Go runtime's; some of them may have been lost too.
	if n := got + int(c.Lost); n < noise || n > noise+40 {
		t.Errorf("received %d, lost %d of %d calls (and %d births and ends)", got, c.Lost, noise, other)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if e, ok := <-s.Events(); ok {
		t.Errorf("one more than was counted: %+v", e)
	}
}

func TestCloseDoesNotHang(t *testing.T) {
	w := opened(t, Config{}, 0)
	s, p := guest(t, w, "noise", "/noise")
	p.end(t)
	began := time.Now()
	if err := s.Close(); err != nil { // the channel is full and nobody receives
		t.Error(err)
	}
	if took := time.Since(began); took > 2*closeGrace {
		t.Errorf("Close took %v", took)
	}
	received := uint64(0)
	for e := range s.Events() { // what the channel has
		if received++; e.Kind == "" {
			t.Errorf("an empty event: %+v", e)
		}
	}
	c, err := s.Counts()
	if err != nil || c.Delivered != received || c.Delivered+c.Lost < noise {
		t.Errorf("received %d, Counts() = %+v, %v of %d and more", received, c, err, noise)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	idle, q := guest(t, w, "wait")
	if err := w.Close(); err != nil { // with a scope that nothing has happened in
		t.Error(err)
	}
	for range idle.Events() { // is closed too
	}
	q.end(t)
	if _, err := w.Guest(t.Context(), os.Getpid(), nil); err == nil {
		t.Error("a closed watcher watches")
	}
	select {
	case <-w.Done():
	default:
		t.Error("Done is open after Close")
	}
}

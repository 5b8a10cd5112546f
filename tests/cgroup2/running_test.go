package cgroup2

import (
	"bufio"
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/run"
)

// running is a silk whose program has begun and does not end by itself.
type running struct {
	cmd     *exec.Cmd
	sandbox []int         // processes below silk
	ended   chan struct{} // closed when silk is reaped
}

// start starts silk with a program that says that it runs, and goes on with script.
func (s *silk) start(t *testing.T, script string, flags ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	args := append([]string{"run", "-p", labText, "--timeout", "4m"}, flags...)
	r := &running{cmd: s.command(ctx, append(args, "--", "sh", "-c", "echo begun; "+script)...), ended: make(chan struct{})}
	var stderr strings.Builder
	r.cmd.Stderr = &stderr
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.started(r.cmd)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() { defer close(r.ended); _ = r.cmd.Wait() }()
	t.Cleanup(func() { cancel(); <-r.ended })
	if line != "begun\n" {
		cancel()
		<-r.ended
		t.Fatalf("silk printed %q (%v), want that the program runs; stderr: %s", line, err, stderr.String())
	}
	if r.sandbox = descendants(r.cmd.Process.Pid); len(r.sandbox) == 0 {
		t.Fatal("silk has no process below it while its program runs")
	}
	return r
}

// cancel ends silk as Ctrl-C does, and waits.
func (r *running) cancel(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-r.ended
	if got := r.cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("silk exited with %d after SIGINT, want 130", got)
	}
}

// TestWhatHoldsTheLimits looks at a running sandbox from outside.
func TestWhatHoldsTheLimits(t *testing.T) {
	s := newSilk(t)
	r := s.start(t, "sleep 600", "--memory", "128MiB", "--processes", "20", "--cpus", "1")
	if s.root == nil {
		if dirs := s.groups(t); len(dirs) > 0 {
			t.Errorf("there are the groups %q, where none can be made", dirs)
		}
		for _, pid := range r.sandbox {
			for thread, cpus := range processors(t, pid) {
				if strings.ContainsAny(cpus, ",-") {
					t.Errorf("%s: it may use the processors %s, want one", thread, cpus)
				}
			}
		}
		r.cancel(t)
		return
	}
	g := s.onlyGroup(t)
	members := g.processes(t)
	for _, pid := range r.sandbox {
		if !members[pid] {
			t.Errorf("process %d is in another group than %s", pid, g)
		}
	}
	if members[r.cmd.Process.Pid] {
		t.Error("silk is in the group of its sandbox")
	}
	// The sandbox's own kernel holds these two; the group is a backstop around it, so wider.
	if n := g.number(t, "memory.max"); n < 128<<20 || n > 1<<30 {
		t.Errorf("memory.max is %d, want 128 MiB and an allowance", n)
	}
	if n := g.number(t, "pids.max"); n < 20 || n > 2000 {
		t.Errorf("pids.max is %d, want 20 and an allowance", n)
	}
	if n := g.number(t, "memory.swap.max"); n != 0 {
		t.Errorf("memory.swap.max is %d, want 0", n)
	}
	if got := g.read(t, "cpu.max"); got != "100000 100000" {
		t.Errorf("cpu.max is %q, want one processor", got)
	}
	r.cancel(t)
}

func TestShareOfAProcessor(t *testing.T) {
	s := newSilk(t)
	if s.root == nil {
		got := s.shell(t, "echo ESCAPED", "--cpus", "0.5")
		got.want(t, run.Denied, 126)
		for _, part := range []string{"0.5 CPUs", s.why.Error(), "--cpus"} {
			if !strings.Contains(got.Message, part) {
				t.Errorf("message %q, want %q in it", got.Message, part)
			}
		}
		return
	}
	r := s.start(t, "(while :; do :; done) & while :; do :; done", "--cpus", "0.5")
	g := s.onlyGroup(t)
	used, throttled, began := g.cpu(t, "usage_usec"), g.cpu(t, "nr_throttled"), time.Now()
	<-time.After(4 * time.Second)
	wall := time.Since(began)
	share := float64(g.cpu(t, "usage_usec")-used) / float64(wall.Microseconds())
	t.Logf("two loops used %.2f processors in %v", share, wall)
	if share < 0.1 || share > 0.6 {
		t.Errorf("two loops used %.2f processors, want 0.5", share)
	}
	if g.cpu(t, "nr_throttled") == throttled {
		t.Error("the group was not throttled")
	}
	r.cancel(t)
}

// TestKilledSilk kills silk, which then can tidy up nothing.
func TestKilledSilk(t *testing.T) {
	s := newSilk(t)
	r := s.start(t, "(sleep 600 &); sleep 600")
	killed := time.Now()
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for alive := r.sandbox; len(alive) > 0; <-tick.C {
		if alive = living(r.sandbox); time.Since(killed) > time.Minute {
			t.Fatalf("processes %v outlived silk by a minute", alive)
		}
	}
	took := time.Since(killed)
	t.Logf("the sandbox was gone %v after silk was killed", took)
	const most = 5 * time.Second // the promise is one; an emulated processor is some twenty times slower, and its host may be busy
	if took > most {
		t.Errorf("the sandbox was gone after %v, want %v at most", took, most)
	}
	<-r.ended
	if s.root != nil && len(s.groups(t)) != 1 {
		t.Errorf("groups are %q, want the one of the silk that was killed", s.groups(t))
	}
	s.shell(t, "true").want(t, run.OK, 0)
	if left := s.groups(t); len(left) > 0 { // the next silk has swept
		t.Errorf("control groups are left: %q", left)
	}
}

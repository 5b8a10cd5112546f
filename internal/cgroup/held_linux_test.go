package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// What the kernel does with our limits. The programs that meet them are this test binary, started again.

const envProgram = "CGROUP_TEST_PROGRAM"

var programs = map[string]func(){
	"eat": func() {
		if err := exec.CommandContext(context.Background(), "sleep", "60").Start(); err != nil {
			fmt.Println(err)
		}
		var kept [][]byte
		for range 256 { // MiB
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1 // a page that was not written takes no memory
			}
			kept = append(kept, b)
		}
		fmt.Println("ate", len(kept))
	},
	"fork": func() {
		for range 200 {
			cmd := exec.CommandContext(context.Background(), "sleep", "60")
			if err := cmd.Start(); err != nil {
				fmt.Println(errors.Is(err, unix.EAGAIN), err)
				return
			}
		}
		fmt.Println("forked 200 times")
	},
	"spin": func() {
		before, began := cpuTime(), time.Now()
		for time.Since(began) < 2*time.Second {
		}
		fmt.Println(cpuTime() - before)
	},
	"tell": func() {
		b, err := os.ReadFile("/proc/self/cgroup")
		fmt.Println(string(b), err)
	},
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestMain(m *testing.M) {
	if program := programs[os.Getenv(envProgram)]; program != nil {
		_, _ = io.ReadAll(os.Stdin) // until our starter has moved us
		program()
		return
	}
	os.Exit(m.Run())
}

// inGroup runs a program in a group with limits, as a process that is moved there.
func inGroup(t *testing.T, program string, l Limits) (g *Group, output string, state *os.ProcessState) {
	t.Helper()
	r := find(t)
	g, err := r.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := g.Limit(l); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envProgram+"="+program)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	output, _ = bufio.NewReader(stdout).ReadString('\n') // not to its end: its children may hold it open
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return g, output, cmd.ProcessState
}

func TestMemoryIsHeldAndCounted(t *testing.T) {
	g, output, state := inGroup(t, "eat", Limits{MemoryBytes: 64 << 20})
	if status := state.Sys().(syscall.WaitStatus); output != "" || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("a program that takes 256 MiB printed %q and ended with %v, want a kill", output, state)
	}
	want := int64(1)
	if g.root.Version == 2 { // with its child
		want = 2
	}
	if n, err := g.OOMKills(); n < want || err != nil { // the kernel counts the first one twice
		t.Errorf("OOMKills() = %d, %v, want %d at least", n, err, want)
	}
}

func TestProcessesAreHeld(t *testing.T) {
	// The Go runtime's threads count: it starts a few more than it has processors, and dies if it gets none.
	_, output, state := inGroup(t, "fork", Limits{Processes: 40})
	if !strings.HasPrefix(output, "true ") {
		t.Errorf("a program that forks 200 times printed %q and ended with %v, want EAGAIN", output, state)
	}
}

func TestCPUTimeIsHeld(t *testing.T) {
	_, output, state := inGroup(t, "spin", Limits{CPUs: 0.25})
	used, err := time.ParseDuration(strings.TrimSpace(output))
	if err != nil || used > time.Second {
		t.Errorf("a loop of two seconds used %q (%v) of a quarter of a processor", output, state)
	}
}

func TestBirthInGroup(t *testing.T) {
	r := find(t)
	g, err := r.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	dir, err := g.Dir()
	if err != nil || (dir == nil) != (r.Version == 1) {
		t.Fatalf("Dir() = %v, %v, with version %d", dir, err, r.Version)
	}
	if dir == nil {
		return // version 1 cannot do it
	}
	defer dir.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envProgram+"=tell")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if name := filepath.Base(g.dirs[0]); !strings.Contains(string(out), "/"+name) {
		t.Errorf("it was born in %q, want %s", out, name)
	}
}

// TestBirthInGroupOfThread moves a thread into a group of version 1: what it makes is born there, the thread is back afterwards,
// and neither the kernel's list of the group's processes, which names ours then, nor the group's end, kills us.
func TestBirthInGroupOfThread(t *testing.T) {
	r := find(t)
	if r.Version != 1 {
		return // TestBirthInGroup: processes are born in groups of version 2 by clone3
	}
	g, err := r.New()
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	done := make(chan struct{})
	go func() { // on a thread of its own: the test's may be the process's first
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			_, err := g.Enter()
			first <- err
			second := make(chan struct{})
			go func() {
				defer close(second)
				runtime.LockOSThread()
				enterAndBear(t, g)
			}()
			<-second
			return
		}
		enterAndBear(t, g)
	}()
	<-done
	select {
	case err := <-first:
		if err == nil {
			t.Error("the first thread of the process entered the group: its memory would count there")
		}
	default:
	}
	if err := g.Remove(context.Background()); err != nil {
		t.Error(err)
	}
}

func enterAndBear(t *testing.T, g *Group) {
	before, err := readPaths("/proc/thread-self/cgroup")
	if err != nil {
		t.Error(err)
	}
	leave, err := g.Enter()
	if err != nil {
		t.Error(err)
		return
	}
	g.Kill() // this process is listed
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envProgram+"=tell")
	out, err := cmd.Output()
	if err := errors.Join(err, leave()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(string(out), "/"+filepath.Base(g.dirs[0])+"\n"); n != len(g.dirs) {
		t.Errorf("it was born in %q, want %d groups of ours", out, len(g.dirs))
	}
	after, err := readPaths("/proc/thread-self/cgroup")
	if d := cmp.Diff(before, after); d != "" || err != nil {
		t.Errorf("the thread did not come back (%v):\n%s", err, d)
	}
}

// TestParentOfUsers is about the place of an ordinary user's groups; the directories stand in for the kernel's.
func TestParentOfUsers(t *testing.T) {
	const someone = 1234
	top := t.TempDir()
	mine := filepath.Join(top, "user", "mine")
	if err := os.MkdirAll(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(top, "user", "cgroup.subtree_control")
	if err := os.WriteFile(control, []byte("cpu memory pids io"), 0o600); err != nil {
		t.Fatal(err)
	}
	if dir, err := parent2(mount{"/", top}, "/user/mine", someone); err == nil || !strings.Contains(err.Error(), "delegated") {
		t.Errorf("parent2 = %q, %v, want that it is not delegated: no process can be moved there", dir, err)
	}
	if err := os.WriteFile(filepath.Join(top, "user", "cgroup.procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := mount{"/", top}
	if dir, err := parent2(m, "/user/mine", someone); err != nil || dir != filepath.Join(top, "user") {
		t.Errorf("parent2 = %q, %v, want the parent of our own group", dir, err)
	}
	for _, own := range []string{"/", "/../elsewhere"} {
		if dir, err := parent2(m, own, someone); err == nil || !strings.Contains(err.Error(), "topmost") {
			t.Errorf("parent2 of %q = %q, %v, want that it is the topmost group", own, dir, err)
		}
	}
	if dir, err := parent2(m, "/user", someone); err == nil {
		t.Errorf("parent2 = %q, want an error: the top hands out no controllers", dir)
	}
}

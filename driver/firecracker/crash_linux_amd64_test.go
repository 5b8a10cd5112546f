package firecracker

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// envChild makes a child of the test, and has the directory of its parent.
const envChild = "SILK_TEST_MICROVM_CHILD"

// A silk that is killed at any moment leaves no VMM, and an empty control group at most, which the next one sweeps.
func TestKilled(t *testing.T) {
	if os.Getenv(envChild) != "" {
		child(t)
		return
	}
	d := newDriver(t)
	testenv.NoLeaks(t)
	for i := range trials() {
		delay := moment(i)
		waitGone(t, killChild(t, "TestKilled", delay))
		if err := d.Sweep(t.Context()); err != nil {
			t.Errorf("killed after %v: %v", delay, err)
		}
	}
}

// family are a process and those that come from it, by number and start time.
type family map[int]uint64

// familyOf is what comes from a process now.
func familyOf(t *testing.T, pid int) family {
	t.Helper()
	f := family{}
	for todo := []int{pid}; len(todo) > 0; {
		pid, todo = todo[0], todo[1:]
		start, err := cgroup.StartTime(pid)
		if err != nil { // it has just ended
			continue
		}
		f[pid] = start
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range lists {
			b, _ := os.ReadFile(name) // of a thread that has just ended
			for _, word := range strings.Fields(string(b)) {
				n, err := strconv.Atoi(word)
				if err != nil {
					t.Fatal(err)
				}
				todo = append(todo, n)
			}
		}
	}
	return f
}

// waitGone waits until each of a family has ended, whoever is to reap it. What has no name goes with them: sockets, namespaces, memory.
func waitGone(t *testing.T, f family) {
	t.Helper()
	for pid, start := range f {
		for testenv.Alive(pid) {
			if now, err := cgroup.StartTime(pid); err != nil || now != start {
				break
			}
			select {
			case <-t.Context().Done():
				t.Fatalf("process %d lives on", pid)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// trials are how often each of silk, VMM and agent is killed.
func trials() int {
	if everything() {
		return 10
	}
	return 2
}

// moment is when the trial of a number kills: at once, or at random while a machine boots and after.
func moment(trial int) time.Duration {
	if trial == 0 {
		return 0
	}
	return rand.N(20 * time.Second)
}

// A VMM that is killed at any moment ends its run with an error that says so, and nothing of it is left.
func TestVMMKilled(t *testing.T) {
	d := newDriver(t)
	testenv.NoLeaks(t)
	vmms := make(chan int, 1)
	vmmStarted = func(pid int) { vmms <- pid }
	defer func() { vmmStarted = nil }()
	for i := range trials() {
		delay := moment(i)
		go func() {
			pid := <-vmms
			<-time.After(delay)
			_ = syscall.Kill(pid, syscall.SIGKILL) // it is waited for by its driver, which waits for nothing else
		}()
		if err := startAndWait(t, d); err == nil || !strings.Contains(err.Error(), "has ended before its time (qemu: signal: killed)") {
			t.Errorf("killed after %v: %v", delay, err)
		}
	}
}

// An agent that is ended at any moment takes the machine with it, and the run ends with an error.
func TestAgentKilled(t *testing.T) {
	d := newDriver(t)
	d.config.Agent = buildDying(t)
	if b, err := d.prepared(t.Context()); err != nil { // it is kept
		t.Fatal(err)
	} else if err := b.close(); err != nil {
		t.Fatal(err)
	}
	testenv.NoLeaks(t)
	for range trials() {
		if err := startAndWait(t, d); err == nil || !strings.Contains(err.Error(), "has ended before its time") || !strings.Contains(err.Error(), "Kernel panic") {
			t.Errorf("got %v", err)
		}
	}
}

// buildDying makes an agent that ends at a random moment.
func buildDying(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for from, to := range map[string]string{"testdata/dying/main.go": "main.go", testenv.AgentPath(): "silk-guest"} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "dying", "main.go")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	build.WaitDelay = time.Second
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "dying")
}

// startAndWait has a machine whose program does not end by itself.
func startAndWait(t *testing.T, d *Driver) error {
	t.Helper()
	root := openLabText(t)
	defer root.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	s, err := d.Start(t.Context(), driver.Spec{
		ID: "killed", Image: root, Stdout: w, Stderr: w, Args: []string{"sleep", "1000"}, Env: []string{"PATH=/usr/bin"}, Dir: "/", Network: driver.NetworkDeny, Trees: []string{"/usr"},
		MemoryBytes: 128 << 20, WorkspaceBytes: 1 << 20, TmpBytes: 1 << 20, ShmBytes: 1 << 20, Processes: 10, CPUs: 1,
	})
	if err != nil {
		return err
	}
	_, err = s.Wait()
	return err
}

// killChild starts a silk with a machine, as a test does of that name, and kills it some time after the VMM was started. It returns what came from it.
func killChild(t *testing.T, test string, delay time.Duration) family {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+test+"$")
	dir, err := home()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), envChild+"="+dir)
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		said = append(said, lines.Text())
		if text, ok := strings.CutPrefix(lines.Text(), "vmm "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	if pid == 0 {
		t.Fatalf("the child has no machine: %q", said)
	}
	<-time.After(delay)
	f := familyOf(t, cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, ok := f[pid]; !ok {
		t.Errorf("the VMM, process %d, was not among %v", pid, f)
	}
	return f
}

// child has a machine until it is killed.
func child(t *testing.T) {
	d := newDriver(t)
	vmms := make(chan int, 1)
	vmmStarted = func(pid int) { vmms <- pid }
	go func() { fmt.Println("vmm", <-vmms) }()
	t.Fatal("it ended by itself: ", startAndWait(t, d))
}

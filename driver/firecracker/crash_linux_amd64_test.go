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
		pid := killChild(t, delay)
		for deadline := time.Now().Add(10 * time.Second); testenv.Alive(pid); {
			if time.Now().After(deadline) {
				t.Fatalf("killed after %v: the VMM, process %d, lives on", delay, pid)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	if err := d.Sweep(t.Context()); err != nil {
		t.Error(err)
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

// killChild starts a silk with a machine and kills it some time after the machine was switched on. It returns the VMM's number.
func killChild(t *testing.T, delay time.Duration) (pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestKilled$")
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
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "vmm "); ok {
			pid, _ = strconv.Atoi(text)
			break
		}
	}
	if pid == 0 {
		t.Fatalf("the child has no machine: %v", lines.Err())
	}
	<-time.After(delay)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return pid
}

// child has a machine until it is killed.
func child(t *testing.T) {
	d := newDriver(t)
	vmms := make(chan int, 1)
	vmmStarted = func(pid int) { vmms <- pid }
	go func() { fmt.Println("vmm", <-vmms) }()
	t.Fatal("it ended by itself: ", startAndWait(t, d))
}

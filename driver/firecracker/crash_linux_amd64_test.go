package firecracker

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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
	trials := 2
	if everything() {
		trials = 30
	}
	testenv.NoLeaks(t)
	for i := range trials {
		delay := time.Duration(rand.Int64N(int64(20 * time.Second)))
		if i == 0 {
			delay = 0
		}
		pid := killChild(t, delay)
		for deadline := time.Now().Add(10 * time.Second); alive(pid); {
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

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ") && syscall.Kill(pid, 0) == nil
}

// child has a machine until it is killed.
func child(t *testing.T) {
	d := newDriver(t)
	root := openLabText(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	vmms := make(chan int, 1)
	vmmStarted = func(pid int) { vmms <- pid }
	go func() { fmt.Println("vmm", <-vmms) }()
	s, err := d.Start(context.Background(), driver.Spec{
		ID: "killed", Image: root, Stdout: w, Stderr: w, Args: []string{"sleep", "1000"}, Env: []string{"PATH=/usr/bin"}, Dir: "/", Network: driver.NetworkDeny, Trees: []string{"/usr"},
		MemoryBytes: 128 << 20, WorkspaceBytes: 1 << 20, TmpBytes: 1 << 20, ShmBytes: 1 << 20, Processes: 10, CPUs: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Wait()
	t.Fatal("it ended by itself: ", err)
}

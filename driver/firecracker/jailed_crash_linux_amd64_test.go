package firecracker

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// A silk that is killed at any moment leaves no VMM, though that has changed its user: the reaper ends it. What is left, a jail, the next silk sweeps.
func TestJailedKilled(t *testing.T) {
	if os.Getenv(envChild) != "" {
		jailedChild(t)
		return
	}
	d := newJailedDriver(t, nil)
	trials := 2
	if everything() {
		trials = 30
	}
	testenv.NoLeaks(t)
	for i := range trials {
		delay := time.Duration(rand.Int64N(int64(15 * time.Second)))
		if i == 0 {
			delay = 0
		}
		pid := killJailedChild(t, delay)
		for testenv.Alive(pid) {
			select {
			case <-t.Context().Done():
				t.Fatalf("killed after %v: the VMM, process %d, lives on", delay, pid)
			case <-time.After(10 * time.Millisecond):
			}
		}
		if left, err := d.Leftovers(); err != nil || len(left) != 1 {
			t.Errorf("left are %q, %v, want one jail", left, err)
		}
		if err := d.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, d)
		noInmates(t, d)
	}
}

// noInmates waits until no process has its working directory in a jail: of a double, its machine dies with it, but a moment later.
func noInmates(t *testing.T, d *Driver) {
	t.Helper()
	for {
		dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			t.Fatal(err)
		}
		lives := ""
		for _, dir := range dirs {
			if to, err := os.Readlink(dir); err == nil && strings.HasPrefix(to, d.host.vmm.(*jailed).base) {
				lives = dir
			}
		}
		if lives == "" {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s is still in a jail", lives)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// killJailedChild starts a silk with a machine and kills it some time after the jailer was started, and returns the VMM's number.
func killJailedChild(t *testing.T, delay time.Duration) (pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestJailedKilled$")
	dir, err := home()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env, cmd.WaitDelay = append(os.Environ(), envChild+"="+dir), time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
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
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return pid
}

// jailedChild has a machine until it is killed.
func jailedChild(t *testing.T) {
	d := newJailedDriver(t, nil)
	vmms := make(chan int, 1)
	vmmStarted = func(pid int) { vmms <- pid }
	go func() { fmt.Println("vmm", <-vmms) }()
	s, err := d.Start(context.Background(), jailedSpec(t, "killed"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Wait()
	t.Fatal("it ended by itself: ", err)
}

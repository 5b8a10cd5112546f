package e2e

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

var (
	kills    = flag.Int("kills", defaultKills(), "how many runs TestRandomKills ends at random moments (SILK_TEST_KILLS)")
	killSeed = flag.Uint64("killseed", 0, "seed of TestRandomKills, to repeat one; 0: another each time")
)

// defaultKills is what SILK_TEST_KILLS says, since a flag cannot be given when other packages are tested too. CI says 200.
func defaultKills() int {
	if n, err := strconv.Atoi(os.Getenv("SILK_TEST_KILLS")); err == nil {
		return n
	}
	return 12
}

// victims are programs that are busy in different ways when they are ended.
var victims = [][]string{
	{"sleep", "600"},
	{"yes"},
	{"sh", "-c", "while :; do echo x >> file; done"},
	{"sh", "-c", "for i in 1 2 3 4 5 6; do sleep 600 & done; wait"},
	{"sh", "-c", "trap '' TERM INT HUP; while :; do sleep 0.1; done"},
	{"true"},
	{"sh", "-c", "head -c 20000000 /dev/zero > big"},
}

// ends are the ways in which runs are ended. Each says whether there was something to end.
var ends = []struct {
	name string
	act  func(t *testing.T, s silk, pid int) (hit bool)
}{
	{"kill silk", signals(syscall.SIGKILL)},
	{"kill silk", signals(syscall.SIGKILL)}, // twice as often
	{"kill the sandbox kernel", func(t *testing.T, s silk, _ int) bool {
		pids, err := sentriesOf(s.Home)
		if err != nil {
			t.Error(err)
		}
		for _, pid := range pids {
			signal(t, pid, syscall.SIGKILL)
		}
		return len(pids) > 0
	}},
	{"interrupt", signals(syscall.SIGINT)},
	{"terminate", signals(syscall.SIGTERM)},
}

func signals(sig syscall.Signal) func(*testing.T, silk, int) bool {
	return func(t *testing.T, _ silk, pid int) bool {
		signal(t, pid, sig)
		return true
	}
}

// TestRandomKills ends runs at random moments of their lives. Each sandbox is gone soon after, silk itself never hangs,
// and when all is over nothing is left on the host: the next run clears away what the killed ones could not.
func TestRandomKills(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	testenv.NoLeaks(t)
	s := newSilk(t, "lab:text")
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -killseed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var worst time.Duration
	for i := range *kills {
		victim, end := victims[rng.IntN(len(victims))], ends[rng.IntN(len(ends))]
		after := time.Duration(rng.IntN(600)) * time.Millisecond
		took, err := endOne(t, s, victim, after, end.act)
		if err != nil {
			t.Fatalf("run %d, %q, %s after %v: %v", i, victim, end.name, after, err)
		}
		worst = max(worst, took)
	}
	t.Logf("the slowest sandbox was gone %v after its end was asked for", worst)

	got, err := s.run(t.Context(), defaultMost, "-p", "lab:text", "--", "true")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range (want{Outcome: "ok"}).problems(got) {
		t.Errorf("the run after all: %s", p)
	}
	checkState(t, s)
}

// soon is how long a sandbox may take to be gone: a second by promise, more on a machine that is busy with other tests.
const soon = 10 * time.Second

// endOne starts one victim, ends it, and waits until silk and its sandbox are gone.
func endOne(t *testing.T, s silk, victim []string, after time.Duration, act func(*testing.T, silk, int) bool) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("silk did not end by itself"))
	defer cancel()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	cmd := s.Command(ctx, append([]string{"run", "-p", "lab:text", "--"}, victim...)...)
	cmd.Stdout, cmd.Stderr = null, null
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	moment := time.NewTimer(after)
	defer moment.Stop()
	select {
	case err := <-ended: // "true" may be quicker
		return 0, unlessExit(err)
	case <-moment.C:
	}
	begun := time.Now()
	hit := act(t, s, cmd.Process.Pid)
	if !hit || after < 100*time.Millisecond { // the sandbox kernel was not there yet, or had not begun: then silk goes on
		again := time.AfterFunc(2*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
		defer again.Stop()
	}
	if err := unlessExit(<-ended); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := sentriesOf(s.Home)
		if err != nil || len(left) == 0 {
			return time.Since(begun), err
		}
		if time.Since(begun) > soon {
			return 0, fmt.Errorf("sandbox kernels %v are still there after %v", left, soon)
		}
		<-tick.C
	}
}

// started runs a program that says when it is up, and returns once it is.
func started(t *testing.T, s silk, flags ...string) (cmd *exec.Cmd, stdout *bufio.Reader) {
	t.Helper()
	args := append(append([]string{"run", "-p", "lab:text"}, flags...), "--", "sh", "-c", "echo up; sleep 600")
	cmd = s.Command(t.Context(), args...)
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stdout = bufio.NewReader(pipe)
	for {
		switch line, err := stdout.ReadString('\n'); {
		case err != nil:
			t.Fatalf("the program said %q, %v", line, err)
		case strings.Contains(line, "up"):
			return cmd, stdout
		}
	}
}

// The first line arrives while the program runs, Ctrl-C ends the run, and sentriesOf sees what the other tests here
// rely on it to see.
func TestInterrupt(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	testenv.NoLeaks(t)
	s := newSilk(t, "lab:text")
	for sig, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 130} {
		cmd, stdout := started(t, s)
		if pids, err := sentriesOf(s.Home); err != nil || len(pids) == 0 {
			t.Errorf("no sandbox kernel is seen while a program runs: %v", err)
		}
		signal(t, cmd.Process.Pid, sig)
		if _, err := io.Copy(io.Discard, stdout); err != nil {
			t.Error(err)
		}
		if err := unlessExit(cmd.Wait()); err != nil || cmd.ProcessState.ExitCode() != status {
			t.Errorf("after %v silk exited with %d, %v; want %d", sig, cmd.ProcessState.ExitCode(), err, status)
		}
	}
}

// Losing the sandbox kernel is a fault of the host, never the program's success or failure.
func TestKernelLost(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	testenv.NoLeaks(t)
	s := newSilk(t, "lab:text")
	cmd, stdout := started(t, s, "--jsonl")
	pids, err := sentriesOf(s.Home)
	if err != nil || len(pids) == 0 {
		t.Fatalf("no sandbox kernel is seen while a program runs: %v", err)
	}
	for _, pid := range pids {
		signal(t, pid, syscall.SIGKILL)
	}
	rest, err := io.ReadAll(stdout)
	if err = errors.Join(err, unlessExit(cmd.Wait())); err != nil {
		t.Error(err)
	}
	if status := cmd.ProcessState.ExitCode(); status != 125 || !strings.Contains(string(rest), `"outcome":"error"`) {
		t.Errorf("silk exited with %d and said %s; want 125 and outcome error", status, short(string(rest)))
	}
}

// checkState looks at what the killed runs left in the state directory.
func checkState(t *testing.T, s silk) {
	t.Helper()
	output := func(args ...string) []byte {
		t.Helper()
		cmd := s.Command(t.Context(), args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("silk %s: %v", strings.Join(args, " "), err)
		}
		return out
	}
	var running []json.RawMessage
	if err := json.Unmarshal(output("runs", "ls", "--json", "--limit", "1000", "--outcome", "running"), &running); err != nil || len(running) > 0 {
		t.Errorf("%d runs are said to be running, %v: %.300s", len(running), err, running)
	}
	output("audit", "verify")
	engines, err := os.ReadDir(filepath.Join(s.Home, "engines"))
	if err != nil && !errors.Is(err, os.ErrNotExist) || len(engines) > 0 {
		t.Errorf("marks of engines are left: %v, %v", engines, err)
	}
}

// sentriesOf lists the sandbox kernels that were started from the state directory home.
func sentriesOf(home string) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, dir := range dirs {
		exe, err := os.Readlink(filepath.Join(dir, "exe"))
		if err != nil || !strings.HasPrefix(exe, home+"/") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
}

// unlessExit drops the error of a program that ended with whatever status.
func unlessExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func sum(data string) string {
	s := sha256.Sum256([]byte(data))
	return hex.EncodeToString(s[:])
}

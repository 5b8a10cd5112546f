package gvisor_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// TestIntruderStays kills an engine with SIGKILL while an intruder in the sandbox kernel's place does what it can to
// outlive it. What it has started never does. The process itself, which the parent-death signal ends, can only if it gets
// to take that away, which the kernel's seccomp filter forbids (TestIntruderMeetsFilter): then the next sweep ends it,
// where there are control groups.
func TestIntruderStays(t *testing.T) {
	path := buildIntruder(t)
	if way := os.Getenv("SILK_TEST_STAY"); way != "" {
		intrudersEngine(t, path, way)
		return
	}
	testenv.NoLeaks(t)
	for _, way := range []string{"orphan", "init"} {
		t.Run(way, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestIntruderStays$")
			cmd.Env = append(os.Environ(), "SILK_TEST_STAY="+way, intruderVariable+"="+path)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var pids []int
			for _, field := range strings.Fields(line) {
				pid, err := strconv.Atoi(field)
				if err != nil {
					t.Fatalf("the engine said %q", line)
				}
				pids = append(pids, pid)
			}
			if len(pids) != 2 {
				t.Fatalf("the intruder has processes %v, want itself and an orphan", pids)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			d, _ := intruding(t, path, nil)
			left, err := d.Leftovers()
			if err != nil {
				t.Fatal(err)
			}
			if way == "init" {
				if !running(pids[0]) {
					t.Error("the intruder ended: this test shows nothing of the sweep")
				}
				if len(left) == 0 { // no control groups: nothing finds it
					if err := unix.Kill(pids[0], unix.SIGKILL); err != nil {
						t.Error(err)
					}
				}
				if err := d.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}
			// TestEngineKilled is about how long it takes.
			for deadline := time.Now().Add(10 * time.Second); running(pids[0]) || running(pids[1]); {
				if time.Now().After(deadline) {
					t.Fatalf("of the processes %v there are still %t and %t", pids, running(pids[0]), running(pids[1]))
				}
			}
			if err := d.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// intrudersEngine is the process that TestIntruderStays kills. It prints the processes of its sandbox.
func intrudersEngine(t *testing.T, path, way string) {
	d, s := intruding(t, path, map[string]any{"Stay": way})
	if _, err := d.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var pids []string
	for list := childrenOf(t, strconv.Itoa(os.Getpid())); len(list) > 0; list = list[1:] {
		pids = append(pids, list[0])
		list = append(list, childrenOf(t, list[0])...)
	}
	if _, err := fmt.Println(strings.Join(pids, " ")); err != nil {
		t.Fatal(err)
	}
	select {} // until killed
}

func childrenOf(t *testing.T, pid string) (all []string) {
	t.Helper()
	lists, err := filepath.Glob("/proc/" + pid + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err == nil {
			all = append(all, strings.Fields(string(text))...)
		}
	}
	return all
}

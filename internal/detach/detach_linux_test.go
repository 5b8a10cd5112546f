package detach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// helper is the variable that makes the test's executable a process with a network namespace of its own.
const helper = "SILK_TEST_DETACH"

func init() {
	if os.Getenv(helper) != "" {
		runtime.LockOSThread() // the main goroutine, on the first thread
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(helper) == "" {
		os.Exit(m.Run())
	}
	before, _ := os.Readlink("/proc/self/ns/net")
	err := Network()
	own, _ := os.Readlink("/proc/self/ns/net") // of the first thread
	others := make(chan string)
	go func() {
		name, _ := os.Readlink("/proc/thread-self/ns/net")
		others <- name
	}()
	fmt.Println(err, own != before, <-others == before)
}

func TestNetwork(t *testing.T) {
	testenv.Require(t, testenv.Root) // only root makes network namespaces without one of users
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helper+"=1")
	out, err := cmd.CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "<nil> true true" {
		t.Errorf("%v: error, whether the first thread has another namespace, whether the others do not: %s", err, got)
	}
}

// sleeper is a process that waits to be killed.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// lives says whether a process lives on for a moment.
func lives(t *testing.T, pid int) error {
	t.Helper()
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, enough)
	defer cancel()
	if err := Gone(ctx, pid); !errors.Is(err, enough) {
		return fmt.Errorf("%w, want the context's cause", err)
	}
	return nil
}

func TestGone(t *testing.T) {
	cmd := sleeper(t)
	if err := lives(t, cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- Gone(t.Context(), cmd.Process.Pid) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if err := Gone(t.Context(), cmd.Process.Pid); err != nil {
		t.Errorf("when it is reaped: %v", err)
	}
}

func TestKill(t *testing.T) {
	cmd := sleeper(t)
	if err := Kill(cmd.Process.Pid, func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	if err := lives(t, cmd.Process.Pid); err != nil {
		t.Errorf("another process of that number: %v", err)
	}
	if err := Kill(cmd.Process.Pid, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
}

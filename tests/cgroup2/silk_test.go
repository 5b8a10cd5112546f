package cgroup2

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/run"
)

// envHeld says how limits must be held here: "group" by control groups of version 2, "none" without any. Empty: either.
const envHeld = "SILK_TEST_HELD"

const labText = "lab:text"

// most is how long one silk may take, on an emulated processor too.
const most = 5 * time.Minute

// silk is the program under test, with a state directory of its own.
type silk struct {
	home, config string
	root         *cgroup.Root // where its groups are made; nil if it can make none
	why          error        // it cannot
	pids         []string     // of all that were started
}

func newSilk(t *testing.T) *silk {
	t.Helper()
	testenv.Require(t, testenv.Silk, testenv.Image(labText))
	root, err := cgroup.Find()
	if err == nil && root.Version != 2 {
		testenv.Require(t, testenv.CgroupV2)
	}
	if want := os.Getenv(envHeld); want != "" && (want == "group") != (err == nil) {
		t.Fatalf("%s is %q here, but Find says %v", envHeld, want, err)
	}
	dir := t.TempDir()
	s := &silk{home: filepath.Join(dir, "home"), config: filepath.Join(dir, "config.yaml"), root: root, why: err}
	text := fmt.Sprintf("system_store: %q\n", filepath.Join(testenv.Home(), "images"))
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left := s.groups(t); len(left) > 0 {
			t.Errorf("control groups are left: %q", left)
		}
	})
	return s
}

// command is silk with args. The caller starts it and calls started.
func (s *silk) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, testenv.SilkPath(), args...)
	cmd.Env = append(os.Environ(), "SILK_HOME="+s.home, "SILK_CONFIG="+s.config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// started notes the pid of a silk.
func (s *silk) started(cmd *exec.Cmd) { s.pids = append(s.pids, strconv.Itoa(cmd.Process.Pid)) }

// result is what came of one run.
type result struct {
	run.Outcome
	status int // silk's own
}

// shell runs script with lab:text's shell.
func (s *silk) shell(t *testing.T, script string, flags ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), most, errors.New("silk did not end by itself"))
	defer cancel()
	args := append([]string{"run", "--json", "-p", labText, "--timeout", "4m"}, flags...) // a later --timeout replaces ours
	cmd := s.command(ctx, append(args, "--", "sh", "-c", script)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.started(cmd)
	err := cmd.Wait()
	if ctx.Err() != nil {
		t.Fatalf("%v; stderr: %s", context.Cause(ctx), stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	got := result{status: cmd.ProcessState.ExitCode()}
	if err := json.Unmarshal(stdout.Bytes(), &got.Outcome); err != nil {
		t.Fatalf("read the outcome: %v; exit status %d, stdout: %s, stderr: %s", err, got.status, stdout.String(), stderr.String())
	}
	return got
}

// want fails t unless the run ended as kind, with the status that silk and the program exit with.
func (r result) want(t *testing.T, kind run.Kind, status int) {
	t.Helper()
	if r.Kind != kind || r.status != status {
		t.Fatalf("outcome %q, status %d, want %q, %d; message %q, stdout %q, stderr %q, flags %v",
			r.Kind, r.status, kind, status, r.Message, text(r.Stdout), text(r.Stderr), r.Flags)
	}
}

func text(c run.Channel) string {
	if c.Text == nil {
		return ""
	}
	return *c.Text
}

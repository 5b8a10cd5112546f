package fuzz

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/tests/fuzz/tree"
)

// sides are the two kernels.
type sides struct {
	dir   string // a place for files
	silk  string
	probe string
}

// uid is the user of a sandbox; the host's side has the same.
const uid = "1000"

func newSides(t *testing.T) sides {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Silk, testenv.Image("lab:text"))
	s := sides{dir: t.TempDir(), silk: testenv.SilkPath()}
	s.probe = filepath.Join(s.dir, "probe")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", s.probe, "./tests/fuzz/probe")
	cmd.Dir, cmd.Env = testenv.RepoRoot(), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the probe: %v\n%s", err, out)
	}
	config := fmt.Sprintf("system_store: %q\n", filepath.Join(testenv.Home(), "images"))
	if err := os.WriteFile(filepath.Join(s.dir, "config.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// write puts cases where the probe looks for them.
func (s sides) write(cases []tree.Case) error {
	data, err := json.Marshal(cases)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "cases.json"), data, 0o644)
}

// patience is how long one batch may take, and limit what the run in it may.
const (
	patience = 3 * time.Minute
	limit    = "110s"
)

// host asks the host's own kernel.
func (s sides) host(ctx context.Context, cases []tree.Case) ([]tree.Answers, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	root := filepath.Join(s.dir, "root")
	if err := errors.Join(os.MkdirAll(root, 0o755), s.write(cases)); err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, s.probe, "enter", root, uid, "file", "names")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = s.dir, &stdout, &stderr, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run the cases on the host's kernel: %w: %s", err, stderr.String())
	}
	return answersOf(&stdout, len(cases))
}

func answersOf(r *bytes.Buffer, want int) ([]tree.Answers, error) {
	var all []tree.Answers
	for dec := json.NewDecoder(r); dec.More(); {
		var a tree.Answers
		if err := dec.Decode(&a); err != nil {
			return all, fmt.Errorf("read answers: %w", err)
		}
		all = append(all, a)
	}
	if len(all) != want {
		return all, fmt.Errorf("%d cases have answers, want %d", len(all), want)
	}
	return all, nil
}

// event is what a line of silk's says.
type event struct {
	Type     string
	Kind     string
	PID      int
	Argument string
	Result   string
	Outcome  string
	Rule     string
	Message  string
	Stderr   json.RawMessage
	Data     string
}

// boxed is what came of cases in a sandbox.
type boxed struct {
	answers []tree.Answers
	events  map[int]event // the first of each question, by its number
	last    event
	killed  int // the number of the question that ended the run, or of the last one
	killer  event
}

// box asks the sandbox's kernel.
func (s sides) box(ctx context.Context, cases []tree.Case) (b boxed, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	artifacts, err := os.MkdirTemp(s.dir, "artifacts")
	if err != nil {
		return b, err
	}
	defer os.RemoveAll(artifacts)
	if err := s.write(cases); err != nil {
		return b, err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, s.silk, "run", "--jsonl", "--events", "-p", "lab:text", "--file", s.probe, "--file", filepath.Join(s.dir, "cases.json"),
		"--artifacts", artifacts, "--timeout", limit, "--", "/workspace/probe", "file", "none")
	cmd.Env = append(os.Environ(), "SILK_HOME="+filepath.Join(s.dir, "home"), "SILK_CONFIG="+filepath.Join(s.dir, "config.yaml"))
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return b, err
	}
	if err := cmd.Start(); err != nil {
		return b, err
	}
	b.events = map[int]event{}
	asked := -1
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return b, errors.Join(fmt.Errorf("read an event: %w", err), cmd.Wait())
		}
		if n, ok := strings.CutPrefix(e.Argument, tree.Marks); ok && e.Kind == "openat" {
			if asked, err = strconv.Atoi(n); err != nil {
				return b, errors.Join(err, cmd.Wait())
			}
			continue
		}
		if _, ok := b.events[asked]; !ok && asked >= 0 && (e.Kind == "openat" || e.Kind == "execve") {
			e.Argument = string(tree.Self([]byte(e.Argument), e.PID))
			b.events[asked] = e
		}
		if e.Result == "killed" {
			b.killed, b.killer = asked, e
		}
		b.last = e
	}
	if b.killer.Result == "" {
		b.killed = asked
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if lines.Err() != nil || err != nil && !errors.As(err, &exit) || b.last.Type != "exit" {
		return b, fmt.Errorf("run silk: %w: %s", errors.Join(err, lines.Err()), stderr.String())
	}
	if b.last.Outcome != "ok" {
		return b, nil
	}
	data, err := os.ReadFile(filepath.Join(artifacts, "answers.json"))
	if err != nil {
		return b, err
	}
	b.answers, err = answersOf(bytes.NewBuffer(data), len(cases))
	return b, err
}

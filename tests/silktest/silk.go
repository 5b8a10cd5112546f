//go:build unix

// Package silktest starts silk as the tests of several packages do: the executable, as somebody, with a state directory and a configuration of
// its own.
package silktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// Silk is one silk.
type Silk struct {
	Path   string              // of the executable; "": the one that was built of this tree
	Home   string              // its state directory
	Config string              // the file
	Dir    string              // where it is started; "": where the tests are
	Env    []string            // beside the test's own
	User   *syscall.Credential // who runs it; nil: whoever runs the tests
}

// End is how a silk has ended.
type End struct {
	Status  int
	Stderr  string
	Started time.Time
	Wall    time.Duration
}

// Command is silk with args, in a process group of its own. The caller starts it.
func (s Silk) Command(ctx context.Context, args ...string) *exec.Cmd {
	path := s.Path
	if path == "" {
		path = testenv.SilkPath()
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "SILK_HOME="+s.Home, "SILK_CONFIG="+s.Config)
	cmd.Env = append(cmd.Env, s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.User}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Run runs silk with args, which make it print one JSON object, and reads that into outcome, which must know all of it. most is how long it may take.
func (s Silk) Run(ctx context.Context, most time.Duration, outcome any, args ...string) (end End, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errors.New("silk did not end by itself"))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := s.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	end.Started = time.Now()
	err = cmd.Run()
	end.Wall, end.Stderr = time.Since(end.Started), stderr.String()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return end, fmt.Errorf("%w after %v; stderr: %s", context.Cause(ctx), end.Wall, short(end.Stderr))
	case err != nil && !errors.As(err, &exit):
		return end, err
	}
	end.Status = cmd.ProcessState.ExitCode()
	dec := json.NewDecoder(&stdout)
	dec.DisallowUnknownFields()
	if err := dec.Decode(outcome); err != nil {
		return end, fmt.Errorf("read the outcome: %w; status %d, stderr: %s", err, end.Status, short(end.Stderr))
	}
	if dec.More() {
		return end, errors.New("--json printed more than one object")
	}
	return end, nil
}

// short bounds what a test says of an output.
func short(s string) string { return s[:min(len(s), 2000)] }

// Own gives everything below dir to the user who runs silk.
func (s Silk) Own(dir string) error {
	if s.User == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(s.User.Uid), int(s.User.Gid))
	})
}

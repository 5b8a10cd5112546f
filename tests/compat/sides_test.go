package compat

import (
	"bytes"
	"context"
	"encoding/base64"
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

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/tests/silktest"
)

const (
	imageTag  = "compat:python"
	recorder  = "record.py"
	profiled  = "lab:python" // whose limits, environment and rules are compared
	userID    = 1000         // of the program, on both sides
	longest   = 10 * time.Minute
	seed      = "1"
	silkGrace = 30 * time.Second // in which silk must end after its own limit
)

// report is what came of running tests once, on one side.
type report struct {
	results  results
	complete bool
	outcome  run.Outcome // of silk
	detail   string      // for people: how it ended
}

// side runs Python's tests somewhere. arguments are those of regrtest.
type side func(ctx context.Context, arguments ...string) (report, error)

// python is the command line that both sides run in /workspace.
func python(arguments []string) []string {
	return append([]string{"python3", recorder, "-v", "--randseed", seed}, arguments...)
}

// newSilk returns the side of silk: the lab:python profile with the image that has the tests in it, loopback, and limits
// that a test program needs.
func newSilk(t *testing.T) side {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("system_store: %q\nprofiles:\n  compat: {from: %q, image: %q, summary: Python with its tests}\n",
		filepath.Join(testenv.Home(), "images"), profiled, imageTag)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, arguments ...string) (report, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, longest+silkGrace, errors.New("silk did not end by itself"))
		defer cancel()
		flags := []string{
			"run", "--json", "-p", "compat", "--net", "loopback", "--timeout", longest.String(), "--memory", "2GiB", "--processes", "512",
			"--cpus", "2", "--file", filepath.Join("testdata", recorder), "--",
		}
		cmd := command(ctx, testenv.SilkPath(), append(flags, python(arguments)...)...)
		cmd.Env = append(os.Environ(), "SILK_HOME="+filepath.Join(dir, "home"), "SILK_CONFIG="+config)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := finish(ctx, cmd); err != nil {
			return report{}, err
		}
		var o run.Outcome
		if err := json.Unmarshal(stdout.Bytes(), &o); err != nil {
			return report{}, fmt.Errorf("read the outcome: %w; stderr: %.2000s", err, stderr.String())
		}
		output, err := kept(o.Stdout)
		if err != nil {
			return report{}, err
		}
		r := report{outcome: o, detail: fmt.Sprintf("outcome %q, message %q, rule %q %s(%.100q)", o.Kind, o.Message, o.Rule, o.Syscall, o.Argument)}
		r.results, r.complete, err = parse(output)
		return r, err
	}
}

// kept is the whole of a channel.
func kept(c run.Channel) (string, error) {
	switch {
	case c.Truncated:
		return "", fmt.Errorf("the tests wrote %d bytes, of which silk keeps the first part only", c.Bytes)
	case c.Text != nil:
		return *c.Text, nil
	case c.B64 != nil:
		data, err := base64.StdEncoding.DecodeString(*c.B64)
		return string(data), err
	}
	return "", nil
}

// newBwrap returns the other side: the image's files in a directory, under bubblewrap, with the same environment and uid
// and a network of its own. It starts as that user, so that no privilege of ours shines through.
func newBwrap(t *testing.T) side {
	t.Helper()
	root := filepath.Join(sharedDir(t), "root")
	silktest.Unpack(t, imageTag, root)
	p, err := profile.NewSet().Lookup(profiled)
	if err != nil {
		t.Fatal(err)
	}
	id := strconv.Itoa(userID)
	return func(ctx context.Context, arguments ...string) (report, error) {
		workspace, err := newWorkspace(filepath.Dir(root))
		if err != nil {
			return report{}, err
		}
		defer os.RemoveAll(workspace)
		flags := []string{
			"--unshare-all", "--unshare-user", "--uid", id, "--gid", id, "--cap-drop", "ALL", "--die-with-parent", "--new-session",
			"--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp",
			"--bind", workspace, "/workspace", "--chdir", "/workspace", "--clearenv",
		}
		for key, value := range p.Env {
			flags = append(flags, "--setenv", key, value)
		}
		ctx, cancel := context.WithTimeoutCause(ctx, longest, errors.New("the tests did not end under bwrap"))
		defer cancel()
		cmd := command(ctx, "bwrap", append(append(flags, "--"), python(arguments)...)...)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: userID, Gid: userID}
		}
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := finish(ctx, cmd); err != nil {
			return report{}, err
		}
		r := report{detail: fmt.Sprintf("%v; stderr: %.2000s", cmd.ProcessState, stderr.String())}
		r.results, r.complete, err = parse(stdout.String())
		return r, err
	}
}

// command is a process of its own group without input. The caller starts it.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// finish runs a process to its end; any exit status will do.
func finish(ctx context.Context, cmd *exec.Cmd) error {
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("run %s: %w", cmd.Path, context.Cause(ctx))
	case err != nil && !errors.As(err, &exit):
		return fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	return nil
}

// newWorkspace makes a directory for one run under bwrap, with the recorder in it.
func newWorkspace(dir string) (string, error) {
	workspace, err := os.MkdirTemp(dir, "workspace")
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join("testdata", recorder))
	if err != nil {
		return "", err
	}
	file := filepath.Join(workspace, recorder)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return "", err
	}
	if os.Geteuid() != 0 {
		return workspace, nil
	}
	return workspace, errors.Join(os.Chown(file, userID, userID), os.Chown(workspace, userID, userID))
}

// sharedDir is a temporary directory that the program's user can reach.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

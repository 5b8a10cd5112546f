package egress

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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/run"
)

// Images that programs of rows run in.
const (
	python = "lab:python"
	node   = "lab:node"
	curl   = "egress:curl"
)

// nobody is an ordinary user on every Linux.
const nobody = 65534

// silk is the program under test, with a state directory of its own.
type silk struct {
	dir    string
	user   *syscall.Credential // nil: root
	env    []string
	config string // the file
}

// newSilk prepares silk: it writes to a temporary directory and reads images from the test store. more are
// further lines of the configuration, which follow its profiles.
func newSilk(t testing.TB, user *syscall.Credential, more string, images ...string) silk {
	t.Helper()
	enterWorld(t)
	for _, tag := range images {
		testenv.Require(t, testenv.Image(tag))
	}
	if user != nil {
		testenv.Require(t, testenv.Userns)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // testing's directories are closed to others
		t.Fatal(err)
	}
	s := silk{dir: dir, user: user}
	if err := s.configure(more); err != nil {
		t.Fatal(err)
	}
	return s
}

// configure writes the configuration anew.
func (s *silk) configure(more string) error {
	s.config = filepath.Join(s.dir, "config.yaml")
	text := fmt.Sprintf("system_store: %q\nprofiles:\n  curl: {from: lab:text, image: %q, summary: curl}\n  strict: {from: lab:python, on_refused: kill, summary: ends at the first refusal}\n%s",
		filepath.Join(testenv.Home(), "images"), curl, more)
	if err := os.WriteFile(s.config, []byte(text), 0o644); err != nil {
		return err
	}
	return s.own(s.dir)
}

// own gives everything below dir to the user who runs silk.
func (s silk) own(dir string) error {
	if s.user == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(s.user.Uid), int(s.user.Gid))
	})
}

// command is silk with args. The caller starts it.
func (s silk) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, testenv.SilkPath(), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "SILK_HOME="+filepath.Join(s.dir, "home"), "SILK_CONFIG="+s.config, "TMPDIR="+s.dir)
	cmd.Env = append(cmd.Env, s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.user}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// result is what came of one silk run.
type result struct {
	outcome run.Outcome
	stderr  string
	status  int
}

// run runs silk run --json.
func (s silk) run(ctx context.Context, args ...string) (r result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("silk did not end by itself"))
	defer cancel()
	cmd := s.command(ctx, append([]string{"run", "--json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("%w; stderr: %s", context.Cause(ctx), stderr.String())
	case err != nil && !errors.As(err, &exit):
		return r, err
	}
	r.status, r.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	if err := json.Unmarshal(stdout.Bytes(), &r.outcome); err != nil {
		return r, fmt.Errorf("read the outcome: %w; status %d, stderr: %s", err, r.status, r.stderr)
	}
	return r, nil
}

// text is what is kept of a channel.
func text(c run.Channel) string {
	switch {
	case c.Text != nil:
		return *c.Text
	case c.B64 != nil:
		return *c.B64
	}
	return ""
}

// refusal finds what an outcome says of something that was refused.
func (r result) refusal(kind, host string, port int, rule string) (run.Destination, bool) {
	for _, d := range r.outcome.Egress {
		if !d.Allowed && d.Kind == kind && strings.EqualFold(d.Host, host) && d.Port == port && d.Rule == rule {
			return d, true
		}
	}
	return run.Destination{}, false
}

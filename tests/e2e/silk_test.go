package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
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
)

// silk is the program under test, with a state directory of its own.
type silk struct {
	path   string
	home   string
	config string
	env    []string
	user   *syscall.Credential // who runs it; nil: whoever runs the tests
}

// newSilk prepares silk for t: it writes to a temporary directory and reads images from the test store.
func newSilk(t testing.TB, images ...string) silk {
	t.Helper()
	testenv.Require(t, testenv.Silk)
	for _, tag := range images {
		testenv.Require(t, testenv.Image(tag))
	}
	dir := t.TempDir()
	s := silk{path: testenv.SilkPath(), home: filepath.Join(dir, "home"), config: filepath.Join(dir, "config.yaml")}
	if err := put(s.config, fmt.Sprintf("system_store: %q\n", filepath.Join(testenv.Home(), "images"))); err != nil {
		t.Fatal(err)
	}
	return s
}

// command is silk with args. The caller starts it.
func (s silk) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.path, args...)
	cmd.Env = append(os.Environ(), "SILK_HOME="+s.home, "SILK_CONFIG="+s.config)
	cmd.Env = append(cmd.Env, s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.user}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// hang is how long after its own limit a silk is ended that does not end.
const hang = 30 * time.Second

// run runs silk with --json and reads what it prints. most is how long it may take.
func (s silk) run(ctx context.Context, most time.Duration, args ...string) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, most+hang, errors.New("silk did not end by itself"))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := s.command(ctx, append([]string{"run", "--json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	got := result{started: time.Now()}
	err := cmd.Run()
	got.wall = time.Since(got.started)
	if ctx.Err() != nil {
		return got, fmt.Errorf("%w after %v; stderr: %s", context.Cause(ctx), got.wall, short(stderr.String()))
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return got, err
	}
	got.status = cmd.ProcessState.ExitCode()
	dec := json.NewDecoder(&stdout)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got.outcome); err != nil {
		return got, fmt.Errorf("read the outcome: %w; exit status %d, stderr: %s", err, got.status, short(stderr.String()))
	}
	if dec.More() {
		return got, errors.New("--json printed more than one object")
	}
	return got, nil
}

// runRow runs silk as r says, in a fresh directory below dir.
func (s silk) runRow(ctx context.Context, r row, dir string) (result, error) {
	src, artifacts := filepath.Join(dir, "src"), filepath.Join(dir, "artifacts")
	if err := os.MkdirAll(src, 0o755); err != nil {
		return result{}, err
	}
	if err := r.prepare(src); err != nil {
		return result{}, err
	}
	args := []string{"--dir", src, "--artifacts", artifacts, "--timeout", "60s"}
	if r.Profile != "none" {
		args = append(args, "-p", r.Profile)
	}
	if input, ok := r.input(); ok {
		stdin := filepath.Join(dir, "stdin")
		if err := put(stdin, input); err != nil {
			return result{}, err
		}
		args = append(args, "--stdin", stdin)
	}
	args = append(args, r.Flags...) // a later --timeout replaces ours
	if r.File != "" {
		args = append(args, filepath.Join(src, r.File))
	}
	if len(r.Run) > 0 {
		args = append(append(args, "--"), r.Run...)
	}
	for name, value := range r.HostEnv {
		s.env = append(s.env, name+"="+value)
	}
	if err := s.own(dir); err != nil {
		return result{}, err
	}
	before, err := listing(src)
	if err != nil {
		return result{}, err
	}
	most := r.Want.Most
	if most == 0 {
		most = defaultMost
	}
	got, err := s.run(ctx, most, args...)
	got.artifacts = artifacts
	if err != nil {
		return got, err
	}
	after, err := listing(src)
	if err == nil && after != before {
		err = fmt.Errorf("the directory given with --dir was changed from\n%sto\n%s", before, after)
	}
	return got, err
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

// listing says what is in a directory, for comparison.
func listing(dir string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			fmt.Fprintf(&b, "%q dir\n", path)
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var sum [sha256.Size]byte
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum = sha256.Sum256(data)
		}
		fmt.Fprintf(&b, "%q %v %d %x\n", path, info.Mode(), info.Size(), sum[:8])
		return nil
	})
	return b.String(), err
}

// withCommand lists processes of the host whose command line has text in it.
func withCommand(text string) ([]string, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && bytes.Contains(line, []byte(text)) && filepath.Base(dir) != fmt.Sprint(os.Getpid()) {
			found = append(found, filepath.Base(dir)+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found, nil
}

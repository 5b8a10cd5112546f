package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/tests/silktest"
)

// silk is the program under test, with a state directory of its own.
type silk struct{ silktest.Silk }

// newSilk prepares silk for t: it writes to a temporary directory and reads images from the test store.
func newSilk(t testing.TB, images ...string) silk {
	t.Helper()
	testenv.Require(t, testenv.Silk)
	for _, tag := range images {
		testenv.Require(t, testenv.Image(tag))
	}
	dir := t.TempDir()
	s := silk{silktest.Silk{Home: filepath.Join(dir, "home"), Config: filepath.Join(dir, "config.yaml")}}
	if err := put(s.Config, fmt.Sprintf("system_store: %q\n", filepath.Join(testenv.Home(), "images"))); err != nil {
		t.Fatal(err)
	}
	return s
}

// hang is how long after its own limit a silk is ended that does not end.
const hang = 30 * time.Second

// run runs silk with --json and reads what it prints. most is how long it may take.
func (s silk) run(ctx context.Context, most time.Duration, args ...string) (got result, err error) {
	end, err := s.Run(ctx, most+hang, &got.outcome, append([]string{"run", "--json"}, args...)...)
	got.started, got.wall, got.status = end.Started, end.Wall, end.Status
	return got, err
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
		s.Env = append(s.Env, name+"="+value)
	}
	if err := s.Own(dir); err != nil {
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

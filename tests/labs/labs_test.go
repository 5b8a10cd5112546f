//go:build unix

package labs

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/tests/silktest"
)

var update = flag.Bool("update", false, "keep the pictures for the documentation")

// pictures is where the documentation has them.
const pictures = "../../docs/howto/images"

// patience is how long one program may take: a loaded machine is no fault.
const patience = 5 * time.Minute

// nobody is an ordinary user on every Linux.
const nobody = 65534

// end is the part of what --json prints that the tests look at.
type end struct {
	Outcome   string
	Rule      string
	ExitCode  *int `json:"exit_code"`
	Stdout    struct{ Text string }
	Stderr    struct{ Text string }
	Artifacts []struct {
		Path string
		Size int64
	}
}

func TestPrograms(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name(), func(t *testing.T) {
			needLab(t, p.lab)
			t.Run("as root", func(t *testing.T) {
				testenv.Require(t, testenv.Root)
				p.test(t, nil)
			})
			t.Run("as an ordinary user", func(t *testing.T) {
				credential := &syscall.Credential{Uid: nobody, Gid: nobody}
				if os.Getuid() != 0 {
					credential = nil // we are one
				}
				testenv.Require(t, testenv.Userns)
				p.test(t, credential)
			})
		})
	}
}

// needLab skips t unless the lab is one of those whose images every test has, or all are asked for.
func needLab(t *testing.T, lab string) {
	t.Helper()
	if !slices.Contains(light, lab) && os.Getenv("SILK_TEST_LABS") != "all" {
		t.Skipf("%s has a large image: make test-labs builds and tests it", lab)
	}
	testenv.Require(t, testenv.Silk, testenv.Image(lab))
}

func (p program) test(t *testing.T, user *syscall.Credential) {
	got, artifacts := p.run(t, user)
	if got.Outcome != p.outcome() {
		t.Errorf("outcome %q, want %q", got.Outcome, p.outcome())
	}
	for _, pattern := range p.stdout {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(got.Stdout.Text) {
			t.Errorf("stdout does not match %q", pattern)
		}
	}
	for _, pattern := range p.stderr {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(got.Stderr.Text) {
			t.Errorf("stderr does not match %q", pattern)
		}
	}
	for _, name := range p.artifacts {
		data, err := os.ReadFile(filepath.Join(artifacts, name))
		if err != nil {
			t.Errorf("artifact: %v", err)
			continue
		}
		if filepath.Ext(name) == ".png" && !isPicture(data) {
			t.Errorf("artifact %s is no picture: %d bytes", name, len(data))
		}
		if shown := p.pictures[name]; shown != "" && *update {
			if err := os.WriteFile(filepath.Join(pictures, shown), data, 0o644); err != nil {
				t.Error(err)
			}
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", got.Stdout.Text, got.Stderr.Text)
	}
}

// isPicture reports whether data is a PNG file that is not almost empty.
func isPicture(data []byte) bool {
	return len(data) > 1000 && bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) && bytes.Contains(data, []byte("IEND"))
}

// run runs the program on a copy of its lab's examples, and returns how it ended and where its artifacts are.
func (p program) run(t *testing.T, user *syscall.Credential) (got end, artifacts string) {
	t.Helper()
	dir := t.TempDir()
	s := silktest.Silk{Home: filepath.Join(dir, "home"), Config: filepath.Join(dir, "config.yaml"), User: user}
	source := filepath.Join(dir, "examples")
	artifacts = filepath.Join(dir, "artifacts")
	config := fmt.Sprintf("system_store: %q\n", filepath.Join(testenv.Home(), "images"))
	err := errors.Join(
		os.CopyFS(source, os.DirFS(p.folder())),
		os.WriteFile(s.Config, []byte(config), 0o644),
		os.Chmod(filepath.Dir(dir), 0o711), // testing's directories are closed to others
		s.Own(dir),
	)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--json", "--artifacts", artifacts}, p.flags...)
	if p.dir {
		args = append(args, "--dir", source)
	} else {
		args = append(args, filepath.Join(source, p.file))
	}
	if len(p.args) > 0 {
		args = append(append(args, "--"), p.args...)
	}
	var raw json.RawMessage // the whole object is the end-to-end tests' business
	if _, err := s.Run(t.Context(), patience, &raw, args...); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	return got, artifacts
}

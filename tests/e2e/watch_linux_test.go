package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// Where it can be had, the host's kernel watches a run that asks for it, and finds nothing wrong with ordinary ones.
func TestHostWatch(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.BPF)
	testenv.NoLeaks(t)
	s := newSilk(t, "lab:python")
	code := "import subprocess, threading, tempfile\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n" +
		"subprocess.run(['sh', '-c', 'echo child'], check=True)\nopen('/workspace/x', 'w').write('x')"
	got, err := s.run(t.Context(), time.Minute, "-p", "lab:python", "--require-watch", "-c", code)
	if err != nil {
		t.Fatal(err)
	}
	if got.status != 0 {
		t.Fatalf("exit status %d: %+v", got.status, got.outcome)
	}
	out, err := s.Command(t.Context(), "runs", "show", got.outcome.Run, "--json").Output()
	var record struct{ Decisions []struct{ What, Text string } }
	if err := errors.Join(err, json.Unmarshal(out, &record)); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(record.Decisions, func(d struct{ What, Text string }) bool {
		return d.What == "watched" && strings.Contains(d.Text, "the host's")
	}) {
		t.Errorf("the record does not say who watched: %v", record.Decisions)
	}
}

// Where it cannot be had, a run that requires it is refused, by flag and by configuration, before any code.
func TestHostWatchRefused(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Userns)
	for _, by := range []string{"flag", "configuration"} {
		t.Run(by, func(t *testing.T) {
			s := newSilk(t, "lab:text")
			args := []string{"-p", "lab:text"}
			if by == "flag" {
				args = append(args, "--require-watch")
			} else if err := errors.Join(os.Remove(s.Config), put(s.Config, fmt.Sprintf("system_store: %q\nrequire_watch: true\n", filepath.Join(testenv.Home(), "images")))); err != nil {
				t.Fatal(err)
			}
			s.User = &syscall.Credential{Uid: nobody, Gid: nobody}
			if err := errors.Join(os.Chmod(filepath.Dir(filepath.Dir(s.Home)), 0o711), s.Own(filepath.Dir(s.Home))); err != nil {
				t.Fatal(err)
			}
			got, err := s.run(t.Context(), time.Minute, append(args, "--", "echo", "ran")...)
			if err != nil {
				t.Fatal(err)
			}
			if got.status != 126 || got.outcome.Rule != "watch" || got.outcome.Stdout.Bytes != 0 {
				t.Errorf("exit status %d, rule %q: %+v", got.status, got.outcome.Rule, got.outcome)
			}
		})
	}
}

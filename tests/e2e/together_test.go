package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// Fifty starts at once: names, ports and directories that are made up, or counted, collide sooner or later.
func TestFiftyAtOnce(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	testenv.NoLeaks(t)
	s := newSilk(t, "lab:text")
	const many = 50
	faults := make(chan string, many)
	for i := range many {
		go func() { faults <- oneOfMany(t, s, i) }()
	}
	for range many {
		if fault := <-faults; fault != "" {
			t.Error(fault)
		}
	}
}

func oneOfMany(t *testing.T, s silk, i int) string {
	got, err := s.run(t.Context(), 3*time.Minute, "-p", "lab:text", "--", "sh", "-c", fmt.Sprint("echo ", i, "; echo e", i, " >&2"))
	if err != nil {
		return fmt.Sprintf("run %d: %v", i, err)
	}
	out, wrong := fmt.Sprintln(i), fmt.Sprintf("e%d\n", i)
	w := want{Outcome: "ok", Stdout: channel{Is: &out}, Stderr: channel{Is: &wrong}, Most: 3 * time.Minute}
	if p := w.problems(got); len(p) > 0 {
		return fmt.Sprintf("run %d: %s", i, strings.Join(p, "; "))
	}
	return ""
}

// What cannot be read, found or allowed is said before anything runs, with the status that stands for it.
func TestRefused(t *testing.T) {
	s := newSilk(t, "lab:text")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := put(file, "x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		args    []string
		outcome string
		says    string
	}{
		{"a directory that does not exist", []string{"--dir", dir + "/none", "--", "true"}, "error", dir + "/none"},
		{"a file as the directory", []string{"--dir", file, "--", "true"}, "error", "directory"},
		{"a file that does not exist", []string{"--file", dir + "/none", "--", "true"}, "error", dir + "/none"},
		{"a program that does not exist", []string{dir + "/none.sh"}, "error", dir + "/none.sh"},
		{"input that does not exist", []string{"--stdin", dir + "/none", "--", "cat"}, "error", dir + "/none"},
		{"a time limit of nothing", []string{"--timeout", "0s", "--", "true"}, "error", "0s"},
		{"a driver that does not exist", []string{"--driver", "gvizor", "--", "true"}, "error", "gvisor"},
		{"a mount from outside the stores", []string{"--mount", "/etc", "--", "true"}, "denied", "/etc"},
		{"a mount over the system", []string{"--mount", dir + ":/usr", "--", "true"}, "denied", "/workspace"},
		{"a mount through a link", []string{"--mount", dir + "/link", "--", "true"}, "denied", "link"},
		{"a stronger isolation than there is", []string{"--isolation", "microvm", "--", "true"}, "denied", "microvm"},
		{"the whole internet without approval", []string{"--net", "allow", "--", "true"}, "denied", "approval needed for network allow"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := s.run(t.Context(), 20*time.Second, append([]string{"-p", "lab:text"}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range (want{Outcome: test.outcome, Message: test.says}).problems(got) {
				t.Error(p)
			}
			if got.outcome.ExitCode != nil {
				t.Errorf("exit code %d, want none: no program ran", *got.outcome.ExitCode)
			}
		})
	}
}

// Once the deadline has passed, nothing of the run changes a file any more: a descendant that lives on would.
func TestNothingChangesAfterTimeout(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	testenv.NoLeaks(t)
	s := newSilk(t, "lab:text")
	artifacts := t.TempDir()
	got, err := s.run(t.Context(), time.Minute, "-p", "lab:text", "--timeout", "2s", "--artifacts", artifacts, "--", "sh", "-c",
		"(while :; do echo tick >> ticks; done) & (while :; do echo tock >> ticks; sleep 0.01; done) & sleep 600 & wait")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range (want{Outcome: "timeout", Most: 30 * time.Second}).problems(got) {
		t.Error(p)
	}
	for _, a := range got.outcome.Artifacts {
		if data, err := os.ReadFile(filepath.Join(artifacts, a.Path)); err == nil && a.SHA256 != sum(string(data)) {
			t.Errorf("%s changed after the run", a.Path)
		}
	}
	if left, err := sentriesOf(s.Home); err != nil || len(left) > 0 {
		t.Errorf("sandbox kernels %v are left, %v", left, err)
	}
}

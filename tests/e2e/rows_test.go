package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// TestRows runs every row of testdata/rows.
func TestRows(t *testing.T) {
	files, err := filepath.Glob("testdata/rows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find rows: %d files, %v", len(files), err)
	}
	for _, file := range files {
		s, err := loadSuite(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			for _, r := range s.Rows {
				t.Run(r.Name, func(t *testing.T) {
					t.Parallel()
					testRow(t, r)
				})
			}
		})
	}
}

// asOrdinaryUser are rows of every kind of promise that root keeps by other means than an ordinary user: cgroups,
// user namespaces, ownership.
var asOrdinaryUser = map[string][]string{
	"artifacts": {"links out", "odd names", "unchanged input and caches"},
	"exits":     {"status 42", "a crash", "a command that does not exist"},
	"files":     {"the user database", "what a program may know about itself", "writing anywhere but in three places"},
	"input":     {"the environment", "a dialogue"},
	"limits":    {"output before a time-out", "memory, bit by bit", "memory of a child", "a full /tmp", "a full workspace"},
	"network":   {"a TCP connection", "a server and its client, under loopback"},
	"output":    {"thirty megabytes", "much on both channels at once"},
	"privilege": {"becoming root", "new namespaces", "becoming another group"},
	"processes": {"an orphan that ignores signals", "fork until it fails", "no spawn"},
}

// nobody is an ordinary user on every Linux.
const nobody = 65534

// TestRowsAsOrdinaryUser runs some rows without any privilege, on images that somebody else built.
func TestRowsAsOrdinaryUser(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Userns) // root, to become somebody else
	for file, names := range asOrdinaryUser {
		s, err := loadSuite(filepath.Join("testdata", "rows", file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			i := slices.IndexFunc(s.Rows, func(r row) bool { return r.Name == name })
			if i < 0 {
				t.Fatalf("%s has no row %q", file, name)
			}
			t.Run(file+"/"+name, func(t *testing.T) {
				t.Parallel()
				testRowAs(t, s.Rows[i], &syscall.Credential{Uid: nobody, Gid: nobody})
			})
		}
	}
}

func testRow(t *testing.T, r row) { testRowAs(t, r, nil) }

func testRowAs(t *testing.T, r row, user *syscall.Credential) {
	images := r.Needs
	if strings.HasPrefix(r.Profile, "lab:") {
		images = append(images, r.Profile)
	}
	s := newSilk(t, images...)
	if s.User = user; user != nil {
		// testing's directories are closed to others.
		if err := errors.Join(os.Chmod(filepath.Dir(filepath.Dir(s.Home)), 0o711), s.Own(filepath.Dir(s.Home))); err != nil {
			t.Fatal(err)
		}
	}
	testRowWith(t, s, r)
	if user != nil {
		info, err := os.Stat(s.Home)
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != user.Uid {
			t.Errorf("silk did not run as uid %d: %v, %v", user.Uid, info, err)
		}
	}
}

// testRowWith runs a row with a silk that may have run others.
func testRowWith(t *testing.T, s silk, r row) {
	t.Helper()
	var all []result
	for range max(1, r.Times) {
		got, err := s.runRow(t.Context(), r, t.TempDir())
		if err != nil {
			t.Fatalf("%v\nwhy this row: %s", err, r.Why)
		}
		all = append(all, got)
		for _, p := range r.Want.problems(got) {
			t.Error(p)
		}
		if r.Want.Gone != "" {
			if left, err := withCommand(r.Want.Gone); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		}
	}
	for _, p := range r.Want.problemsOfAll(all) {
		t.Error(p)
	}
	if t.Failed() {
		last := all[len(all)-1].outcome
		t.Logf("why this row: %s\nrun %s: stdout %s\nstderr %s", r.Why, last.Run, short(text(last.Stdout)), short(text(last.Stderr)))
	}
}

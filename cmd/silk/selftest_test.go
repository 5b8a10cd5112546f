//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/selftest"
)

// interrupted is a driver under which somebody presses Ctrl-C.
type interrupted struct{ *drivertest.Fake }

func (interrupted) Start(ctx context.Context, _ driver.Spec) (driver.Sandbox, error) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// killedScratch makes what a silk leaves that is killed.
func killedScratch(t *testing.T, prefix string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lockfile.Create(filepath.Join(dir, scratchLock))
	if err := errors.Join(err, lock.Leave(), os.Mkdir(filepath.Join(dir, "state"), 0o700)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSelftest: against a driver that runs nothing no row holds, the report says so, and nothing is left behind.
func TestSelftest(t *testing.T) {
	testenv.NoLeaks(t)
	t.Setenv("TMPDIR", t.TempDir())
	home := t.TempDir()
	tree := filepath.Join(home, "tree/bin")
	if err := errors.Join(os.MkdirAll(tree, 0o755), os.WriteFile(tree+"/true", nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	silk := func(d driver.Driver, args ...string) (status int, stdout, stderr string) {
		var out, errs bytes.Buffer
		a := newApp(func(driverConfig) (hostTools, error) { return hostTools{Drivers: []driver.Driver{d}}, nil })
		a.out, a.err = &out, &errs
		a.env = func(name string) string { return map[string]string{"SILK_HOME": home, "SILK_CONFIG": os.DevNull}[name] }
		status = a.main(args)
		return status, out.String(), errs.String()
	}
	if status, _, stderr := silk(&drivertest.Fake{}, "image", "import", filepath.Dir(tree), "lab:text"); status != 0 {
		t.Fatalf("import an image: %s", stderr)
	}

	if _, err := selftest.Attack(); errors.Is(err, selftest.ErrNotBuilt) { // before the first `make build`
		if status, _, stderr := silk(&drivertest.Fake{}, "selftest"); status != 125 || !strings.Contains(stderr, "make build") {
			t.Errorf("without an attack program: status %d, %s", status, stderr)
		}
		return
	}
	dead, deadNote := killedScratch(t, selftestDirs), killedScratch(t, noteDirs)
	status, stdout, _ := silk(&drivertest.Fake{}, "gc", "--dry-run")
	if _, err := os.Stat(dead); status != 0 || err != nil || !strings.Contains(stdout, "would remove "+dead) {
		t.Errorf("gc --dry-run: status %d, %s, %v", status, stdout, err)
	}
	if status, stdout, _ = silk(&drivertest.Fake{}, "gc"); status != 0 || !strings.Contains(stdout, "removed "+dead) || !strings.Contains(stdout, "removed "+deadNote) {
		t.Errorf("gc: status %d, %s", status, stdout)
	}
	living, release, err := scratchDir(selftestDirs)
	if err != nil {
		t.Fatal(err)
	}
	killedScratch(t, selftestDirs)
	others := filepath.Join(os.TempDir(), "silk-selftest-mine")
	if err := errors.Join(os.Mkdir(others, 0o700), os.WriteFile(filepath.Join(others, scratchLock), nil, 0o600)); err != nil {
		t.Fatal(err)
	}

	status, stdout, stderr := silk(&drivertest.Fake{}, "selftest", "--only", "chroot|spellings", "--json")
	var report selftest.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v; %s", err, stderr)
	}
	if status != 1 || report.Schema != "silk.selftest/v1" || report.Driver != "fake" || report.Image != "lab:text" || len(report.Rows) != 13 ||
		report.Totals[selftest.NotReached] != 13 || !strings.HasPrefix(report.Digest, "sha256:") {
		t.Errorf("status %d, %+v; want 13 rows that were not reached", status, report)
	}
	if !strings.Contains(stderr, "13 of 13 rows do not hold") {
		t.Errorf("stderr %q", stderr)
	}

	status, stdout, _ = silk(&drivertest.Fake{}, "selftest", "--only", "chroot")
	if status != 1 || !strings.Contains(stdout, "HOLE") || !strings.Contains(stdout, "not reached: roots, priorities and limits/chroot(2): expected EPERM by system.chroot") {
		t.Errorf("status %d, %s", status, stdout)
	}

	status, stdout, stderr = silk(&drivertest.Fake{StartErr: errors.New("no more room")}, "selftest", "--only", "chroot|spellings")
	if status != 125 || stdout != "" || !strings.Contains(stderr, "no more room") {
		t.Errorf("where nothing starts: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}

	status, _, stderr = silk(interrupted{&drivertest.Fake{}}, "selftest", "--only", "chroot|spellings")
	if status != 130 || !strings.Contains(stderr, "interrupted") {
		t.Errorf("interrupted: status %d, %s", status, stderr)
	}

	if _, err := os.Stat(living); err != nil {
		t.Errorf("what belongs to a selftest that lives was removed: %v", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("what somebody else has made was removed: %v", err)
	}
	if err := errors.Join(os.RemoveAll(others), release()); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "silk-selftest-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(home, "silk.db")); err == nil {
		t.Error("the user's own records were written")
	}
}

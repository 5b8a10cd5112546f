package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/selftest"
)

// everything says that what takes many containers is tested, too: `make test-containers`.
func everything() bool { return os.Getenv("SILK_TEST_CONTAINERS") == "all" }

// TestSelftests attacks containers whose runtime is silk, and skills in them.
func TestSelftests(t *testing.T) {
	if !everything() {
		t.Skip("some minutes: make test-containers")
	}
	d := newDaemon(t)
	for _, image := range []string{tag, "lab:python"} {
		testenv.Require(t, testenv.Image(image))
	}
	t.Run("sandboxes", func(t *testing.T) { attackSandboxes(t, d) })
	t.Run("skills", func(t *testing.T) { attackSkills(t, d) })
}

// attackSandboxes: every row of the suite holds.
func attackSandboxes(t *testing.T, d *daemon) {
	t.Helper()
	want := len(selftest.All())
	var report selftest.Report
	d.attack(t, &report, "selftest")
	t.Logf("%d rows in %d ms", len(report.Rows), report.WallMs)
	if len(report.Rows) != want || report.Driver != "docker/silk" {
		t.Errorf("%d rows were run with %s, want %d", len(report.Rows), report.Driver, want)
	}
	for _, row := range report.Rows {
		if row.Verdict != selftest.Holds {
			t.Errorf("%s/%s: %s: %q", row.Class, row.Name, row.Verdict, row.Problems)
		}
	}
}

// attackSkills: every test holds.
func attackSkills(t *testing.T, d *daemon) {
	t.Helper()
	want := len(selftest.SkillTests())
	var report selftest.SkillReport
	d.attack(t, &report, "skill", "selftest")
	t.Logf("%d tests in %d ms", len(report.Tests), report.WallMs)
	if len(report.Tests) != want {
		t.Errorf("%d tests were run, want %d", len(report.Tests), want)
	}
	for _, test := range report.Tests {
		if c := test.On["docker/silk"]; c.Verdict != selftest.Holds {
			t.Errorf("%s: %s: %q", test.Name, c.Verdict, c.Problems)
		}
	}
}

// attack runs a selftest, and reads its report; nothing is left of its containers.
func (d *daemon) attack(t *testing.T, report any, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	args = append([]string{"--home", filepath.Join(d.dir, "asking"), "--config", d.withImages()}, append(args, "--driver", "docker/silk", "--json")...)
	cmd := exec.CommandContext(ctx, testenv.SilkPath(), args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+d.host)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("silk %s: %v; %s", strings.Join(args, " "), err, &stderr)
	}
	if err := json.Unmarshal(stdout.Bytes(), report); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	if left := d.must("ps", "-aq"); left != "" {
		t.Errorf("containers are left: %s", left)
	}
	if left, err := filepath.Glob(filepath.Join(d.home, "containers/*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

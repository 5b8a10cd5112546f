package escape

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/selftest"
)

// TestSelftestInContainers attacks containers of a Docker Engine: every row that shows something about them holds.
func TestSelftestInContainers(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Silk, testenv.Docker, testenv.BPF, testenv.Landlock, testenv.Image("lab:text"))
	testenv.NoLeaks(t)
	s := newSilk(t, testenv.SilkPath(), testImages())
	cmd := s.command(t.Context(), "selftest", "--driver", "docker", "--json")
	cmd.Env = append(cmd.Env, "DOCKER_HOST="+testenv.DockerHost())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("silk selftest: %v; %s", err, stderr.String())
	}
	var report selftest.Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, n := range report.LeftOut {
		left += n
	}
	if len(report.Rows)+left != len(selftest.All()) || len(report.Rows) < 300 || report.Driver != "docker" {
		t.Errorf("%d rows were run with %s, and %v left out of %d", len(report.Rows), report.Driver, report.LeftOut, len(selftest.All()))
	}
	for _, row := range report.Rows {
		if row.Verdict != selftest.Holds {
			t.Errorf("%s/%s: %s: %q", row.Class, row.Name, row.Verdict, row.Problems)
		}
	}
	nothingLeft(t, s)
}

package escape

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/selftest"
)

// TestSelftestInContainers attacks containers of a Docker Engine: every row that shows something about them holds.
func TestSelftestInContainers(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Silk, testenv.Docker, testenv.BPF, testenv.Landlock, testenv.Image("lab:text"))
	testenv.NoLeaks(t)
	s := newSilk(t, testenv.SilkPath(), testImages())
	cmd := s.command(t.Context(), "selftest", "--driver", "docker", "--json")
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

// TestEgressControlsInContainers switches off refusals of the way out of containers, one of each kind in each class: the row then does not hold, and what
// happens instead is what it says. So it was the gateway that stopped it, and nothing that a container has besides.
func TestEgressControlsInContainers(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Silk, testenv.Docker, testenv.BPF, testenv.Landlock, testenv.Image("lab:text"))
	testenv.NoLeaks(t)
	s := newSilk(t, controlSilk(t), testImages())
	s.driver = "docker"
	suite := newSuite(t, s)
	type kind struct{ class, rule string }
	tried := map[kind]bool{}
	t.Run("row", func(t *testing.T) {
		for _, r := range rows {
			k := kind{r.Class, r.Rule}
			if applies, _ := r.Applies("docker"); !applies || tried[k] || !strings.HasPrefix(r.Rule, selftest.Egress) || len(r.Behind) == 0 {
				continue
			}
			tried[k] = true
			off := r.Off(0)
			t.Run(r.ID()+" without "+strings.Join(off, ","), func(t *testing.T) {
				t.Parallel()
				got, err := suite.Once(t.Context(), r, without(off...))
				if err != nil {
					t.Fatal(err)
				}
				if verdict, problems := r.JudgeWithout(0, got); verdict != selftest.Holds {
					t.Errorf("%s: %q; outcome %s, rule %q, refused %v; it said %.500q", verdict, problems, got.Outcome, got.Rule, got.Refused, got.Output)
				}
				if verdict, _ := r.Judge(got); verdict == selftest.Holds {
					t.Error("the row holds without its rule, so it shows nothing of it")
				}
			})
		}
	})
	for _, one := range egress.Kinds() {
		seen := false
		for k := range tried {
			seen = seen || k.rule == selftest.Egress+one
		}
		if !seen {
			t.Errorf("no row is about refusals of kind %s", one)
		}
	}
	nothingLeft(t, s)
}

package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/selftest"
)

// nobody is an ordinary user on every Linux.
const nobody = 65534

// testImages is the store with the images that tests use.
func testImages() string { return filepath.Join(testenv.Home(), "images") }

// TestSelftest runs the command that users run, as root and as one of them: all rows hold, and nothing is left.
func TestSelftest(t *testing.T) {
	testenv.Require(t, testenv.Silk, testenv.Image("lab:text"))
	testenv.NoLeaks(t)
	for _, who := range []string{"whoever tests", "an ordinary user"} {
		t.Run(who, func(t *testing.T) {
			s := newSilk(t, testenv.SilkPath(), testImages())
			if who != "whoever tests" {
				testenv.Require(t, testenv.Root, testenv.Userns) // root, to become somebody else
				s.become(t, nobody)
			}
			var stdout, stderr bytes.Buffer
			cmd := s.command(t.Context(), "selftest", "--json")
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Errorf("silk selftest: %v; %s", err, stderr.String())
			}
			var report selftest.Report
			dec := json.NewDecoder(&stdout)
			dec.DisallowUnknownFields()
			if err := dec.Decode(&report); err != nil {
				t.Fatal(err)
			}
			if len(report.Rows) != len(selftest.All()) {
				t.Errorf("%d rows were run, there are %d", len(report.Rows), len(selftest.All()))
			}
			for _, row := range report.Rows {
				if row.Verdict != selftest.Holds {
					t.Errorf("%s/%s: %s: %q", row.Class, row.Name, row.Verdict, row.Problems)
				}
			}
			nothingLeft(t, s)
		})
	}
}

// nothingLeft says what s has left: a state directory may have its sandbox kernel, and no run.
func nothingLeft(t *testing.T, s silk) {
	t.Helper()
	temporary, err := filepath.Glob(filepath.Join(filepath.Dir(s.home), "silk-selftest-*"))
	if err != nil || len(temporary) > 0 {
		t.Errorf("left behind: %q, %v", temporary, err)
	}
	for _, name := range []string{"silk.db", "runs", "engines"} {
		if entries, err := os.ReadDir(filepath.Join(s.home, name)); !errors.Is(err, fs.ErrNotExist) && len(slices.DeleteFunc(entries, fs.DirEntry.IsDir)) > 0 {
			t.Errorf("%s was left in the state directory: %v", name, err)
		}
	}
}

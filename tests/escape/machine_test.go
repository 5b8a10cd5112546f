package escape

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/selftest"
)

// inMachines are the rows that are always run in virtual machines, which take half a minute each where they are emulated on a busy host: what attacks the
// agent, and the way out of the machine. `make test-microvm` runs all.
const inMachines = `^network\.vsock$|^privilege\.reboot$|/ending process 1$|/a writable root$`

// TestSelftestInMachines attacks virtual machines: every row that shows something about them holds.
func TestSelftestInMachines(t *testing.T) {
	testenv.Require(t, testenv.Silk, testenv.QEMU, testenv.Image("kernel"), testenv.Image("lab:text"))
	testenv.NoLeaks(t)
	s := newSilk(t, testenv.SilkPath(), testImages())
	all := os.Getenv("SILK_TEST_MICROVM") == "all"
	args, least := []string{"selftest", "--driver", "qemu", "--json"}, 500
	if !all {
		args, least = append(args, "--only", inMachines), 5
	}
	cmd := s.command(t.Context(), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("silk selftest: %v; %s", err, stderr.String())
	}
	var report selftest.Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) < least || report.Driver != "qemu" {
		t.Errorf("%d rows were run with %s, want %d", len(report.Rows), report.Driver, least)
	}
	for _, row := range report.Rows {
		if row.Verdict != selftest.Holds {
			t.Errorf("%s/%s: %s: %q", row.Class, row.Name, row.Verdict, row.Problems)
		}
	}
	nothingLeft(t, s)
}

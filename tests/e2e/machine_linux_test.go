package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/selftest"
)

// inMachines are the rows that are always tried in virtual machines, which take half a minute each where they are emulated on a busy host.
// `make test-microvm` tries all.
var inMachines = map[string][]string{
	"exits":  {"status 42"},
	"limits": {"memory, bit by bit"},
	"output": {"much on both channels at once"},
}

// notInMachines are rows that say something else of a virtual machine, and why.
var notInMachines = map[string]string{
	"limits/one call that makes the kernel answer with gigabytes": "about a kernel in user space",
	"limits/one call that reserves more than the memory limit":    "about a kernel in user space; programs in machines have no memfd",
	"limits/a hole larger than all there is":                      "Linux makes it",
	"startup/a leak checker":                                      "programs in machines may not trace their children",
}

// slow is how much longer than elsewhere a program may take in an emulated machine on a host that has other things to do.
const slow = 10 * time.Minute

// start is how much longer it may take to start: rows that are about a limit of time want to see what their programs say first.
const start = time.Minute

// TestRowsInMachines runs rows in virtual machines: their programs end as in other sandboxes, and silk says the same of it.
func TestRowsInMachines(t *testing.T) {
	testenv.Require(t, testenv.QEMU, testenv.Image("kernel"), testenv.Image("lab:text"))
	s := newSilk(t)
	all := os.Getenv("SILK_TEST_MICROVM") == "all"
	files, err := filepath.Glob("testdata/rows/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range files {
		rows, err := loadSuite(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		for _, r := range rows.Rows {
			if _, no := notInMachines[name+"/"+r.Name]; no || !all && !slices.Contains(inMachines[name], r.Name) {
				continue
			}
			tried++
			t.Run(name+"/"+r.Name, func(t *testing.T) {
				for _, tag := range append(slices.Clone(r.Needs), r.Profile) {
					if strings.HasPrefix(tag, "lab:") {
						testenv.Require(t, testenv.Image(tag))
					}
				}
				t.Parallel()
				if r.Want.Most == 0 {
					r.Want.Most = defaultMost
				}
				r.Want.Most += slow
				limit := slow
				if i := slices.Index(r.Flags, "--timeout"); i >= 0 {
					own, err := time.ParseDuration(r.Flags[i+1])
					if err != nil {
						t.Fatal(err)
					}
					limit = own + start
				}
				r.Flags = append(slices.Clone(r.Flags), "--timeout", limit.String(), "--driver", "qemu")
				testRowWith(t, s, r)
			})
		}
	}
	if want := 3; tried < want {
		t.Errorf("%d rows were tried, want %d", tried, want)
	}
}

// The sample skills do in a virtual machine what they do elsewhere, within the time that their manifests give them.
func TestSkillExamplesInMachines(t *testing.T) {
	if os.Getenv("SILK_TEST_MICROVM") == "all" {
		testenv.Require(t, testenv.QEMU, testenv.Image("kernel"))
		testSkillExamples(t, "--driver", "qemu")
	}
}

// Every attack on a skill's sandbox fails in a virtual machine, too.
func TestSkillSelftestInMachines(t *testing.T) {
	if os.Getenv("SILK_TEST_MICROVM") != "all" {
		return
	}
	s := newSilk(t, "lab:python")
	testenv.Require(t, testenv.QEMU, testenv.Image("kernel"))
	var report selftest.SkillReport
	end, err := s.Run(t.Context(), time.Hour, &report, "skill", "selftest", "--driver", "qemu", "--json")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range report.Tests {
		if c := test.On["qemu"]; c.Verdict != selftest.Holds {
			t.Errorf("%s: %s: %q", test.Name, c.Verdict, c.Problems)
		}
	}
	if want := len(selftest.SkillTests()); len(report.Tests) != want || end.Status != 0 {
		t.Errorf("%d tests, want %d; status %d", len(report.Tests), want, end.Status)
	}
}

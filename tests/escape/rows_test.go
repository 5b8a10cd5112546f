package escape

import (
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/selftest"
)

// rows are those of selftest, and some about files that only a planted image has.
var rows = slices.Concat(selftest.All(), plantedRows())

func plantedRows() []selftest.Row {
	rows := []selftest.Row{
		{Name: "read", Attack: []string{"read", "/planted/secret"}},
		{Name: "read through a link", Attack: []string{"link", "2", "/planted/secret"}},
		{Name: "executed", Attack: []string{"exec", "/planted/program"}},
		{Name: "executed through a link", Attack: []string{"exec-link", "/planted/program"}},
		{Name: "executed by descriptor", Attack: []string{"exec-fd", "/planted/program"}},
		{Name: "an interpreter of scripts", Attack: []string{"exec-script", "/planted/program ran"}},
		{Name: "a loader of programs", Attack: []string{"exec-elf", "/planted/program"}},
		{Name: "swapped for the own program", Attack: []string{"race-exec", "40", "/planted/program"}},
		{Name: "swapped for an innocent one", Attack: []string{"race-link", "3000", "/planted/secret"}},
	}
	for i := range rows {
		rows[i].Class, rows[i].Rule, rows[i].Behind = "planted files", rules.FileUnlisted, []selftest.Layer{{Effect: true}}
	}
	return rows
}

// TestPlanted runs the rows about files on the planted image. All rows run in TestSelftest.
func TestPlanted(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	testenv.NoLeaks(t)
	suite := newSuite(t, newSilk(t, testenv.SilkPath(), plantedImages(t)))
	t.Run("row", func(t *testing.T) {
		for _, r := range rows {
			if !strings.HasPrefix(r.Rule, "file.") {
				continue
			}
			t.Run(r.ID(), func(t *testing.T) {
				t.Parallel()
				for range max(r.Times, 1) {
					got, err := suite.Once(t.Context(), r, nil)
					if err != nil {
						t.Fatal(err)
					}
					if verdict, problems := r.Judge(got); verdict != selftest.Holds {
						t.Errorf("%s: %q; it said %.500q", verdict, problems, got.Output)
					}
				}
			})
		}
	})
}

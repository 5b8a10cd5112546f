package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/display"
)

// TestResults: the modules in the images make files that are results, in the order of the first call, with what was shown last.
func TestResults(t *testing.T) {
	s := newSilk(t, "lab:python", "lab:node")
	for _, test := range []struct {
		file string
		want []string          // types, in order
		text map[string]string // of files
	}{
		{
			"results.py",
			[]string{display.JSON, display.Table, display.PNG, display.HTML},
			map[string]string{
				"0001.json":       `{"steps": 5, "sum": 3}`,
				"0002.table.json": `{"columns": ["", "step", "left", "right"], "rows": [[0, 1, 0, 1], [1, 2, 1, 0], [2, 3, 0, 2], [3, 4, 2, 1], [4, 5, 1, 3]], "total": 5}`,
			},
		},
		{
			"results.mjs",
			[]string{display.JSON, display.Table},
			map[string]string{
				"0001.json":       `{"sum":30}`,
				"0002.table.json": `{"columns":["n","square"],"rows":[[0,0],[1,1],[2,4],[3,9],[4,16]],"total":5}`,
			},
		},
		{
			"show.cjs",
			[]string{display.Text, display.Table, display.SVG, display.Text},
			map[string]string{"0001.txt": "2 of 2", "0004.txt": "<ref *1> { self: [Circular *1] }"},
		},
		{
			"show.py",
			[]string{display.Table, display.JSON, display.SVG, display.Text, display.Text},
			map[string]string{
				"0001.table.json": `{"columns": ["a", "b"], "rows": [[1, null], [null, "x"]], "total": 2}`, "0004.txt": "{'a': inf}", "0005.txt": "child",
			},
		},
	} {
		t.Run(test.file, func(t *testing.T) {
			file := filepath.Join("../../examples", test.file)
			if _, err := os.Stat(file); err != nil {
				file = filepath.Join("testdata/results", test.file)
			}
			out := t.TempDir()
			got, err := s.run(t.Context(), time.Minute, "--timeout", "60s", "--artifacts", out, file)
			if err != nil || got.outcome.Kind != "ok" {
				t.Fatalf("%+v, %v", got.outcome, err)
			}
			var types []string
			for _, a := range got.outcome.Artifacts {
				types = append(types, a.Display)
			}
			if diff := cmp.Diff(test.want, types); diff != "" {
				t.Errorf("types:\n%s", diff)
			}
			for name, want := range test.text {
				text, err := os.ReadFile(filepath.Join(out, display.Dir, name))
				if err != nil || string(text) != want {
					t.Errorf("%s has %q, %v, want %q", name, text, err, want)
				}
			}
		})
	}
}

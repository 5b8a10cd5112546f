package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/strictyaml"
)

// difference is one test whose result in silk may be, and must be, another than under bwrap.
type difference struct {
	Test   string // unittest's id
	Silk   string // its result in silk; violated: the test ends the sandbox, so it runs alone
	Bwrap  string // its result under bwrap
	Rule   string // what it rests on: the rule of the violation, or a name of docs/compatibility.md
	Reason string
}

// violated is the result of a test that ends the sandbox.
const violated = "violated"

// readDifferences reads the committed list.
func readDifferences() ([]difference, error) {
	file := filepath.Join("testdata", "differences.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseDifferences(file, data)
}

func parseDifferences(file string, data []byte) ([]difference, error) {
	d, root := strictyaml.Open(file, data)
	var list []difference
	seen := map[string]bool{}
	d.Items(root, "the list of differences", func(n strictyaml.Node) {
		var e difference
		text := func(dst *string, what string) func(strictyaml.Node) {
			return func(n strictyaml.Node) { *dst = d.Text(n, what) }
		}
		d.Fields(n, "a difference", map[string]func(strictyaml.Node){
			"test": text(&e.Test, "test"), "silk": text(&e.Silk, "silk"), "bwrap": text(&e.Bwrap, "bwrap"),
			"rule": text(&e.Rule, "rule"), "reason": text(&e.Reason, "reason"),
		})
		switch {
		case e.Test == "" || e.Rule == "" || e.Reason == "":
			d.Fail(n, "a difference needs test, silk, bwrap, rule and reason")
		case e.Silk != violated && !slices.Contains(badness, e.Silk), !slices.Contains(badness, e.Bwrap):
			d.Fail(n, "%s: %q or %q is not a result", e.Test, e.Silk, e.Bwrap)
		case e.Silk == e.Bwrap:
			d.Fail(n, "%s: the results do not differ", e.Test)
		case seen[e.Test]:
			d.Fail(n, "%s is listed twice", e.Test)
		}
		seen[e.Test] = true
		list = append(list, e)
	})
	return list, d.Err()
}

// of returns the differences in the tests of one module, such as test_json.
func of(module string, list []difference) []difference {
	return slices.DeleteFunc(slices.Clone(list), func(e difference) bool { return !strings.HasPrefix(e.Test, "test."+module+".") })
}

// problems says what is wrong with the results of one module: differences that are not in the list, and entries of the
// list that are not true any more. Tests that end the sandbox were left out in silk.
func problems(silk, bwrap results, list []difference) []string {
	var p []string
	known := map[string]bool{}
	for _, e := range list {
		known[e.Test] = true
		if got := bwrap[e.Test].kind; got != e.Bwrap {
			p = append(p, fmt.Sprintf("%s: bwrap: %s; the list says %s", e.Test, bwrap.describe(e.Test), e.Bwrap))
		}
		if got := silk[e.Test].kind; e.Silk != violated && got != e.Silk {
			p = append(p, fmt.Sprintf("%s: silk: %s; the list says %s", e.Test, silk.describe(e.Test), e.Silk))
		}
	}
	for _, name := range different(silk, bwrap) {
		if !known[name] {
			p = append(p, fmt.Sprintf("%s: silk: %s; bwrap: %s", name, silk.describe(name), bwrap.describe(name)))
		}
	}
	return p
}

func TestParseDifferences(t *testing.T) {
	entry := func(test, silk, bwrap string) string {
		return fmt.Sprintf("- {test: %s, silk: %s, bwrap: %s, rule: r, reason: because}\n", test, silk, bwrap)
	}
	for _, test := range []struct{ name, data, want string }{
		{"good", entry("a", "violated", "ok") + entry("b", "fail", "ok"), ""},
		{"the same test twice", entry("a", "fail", "ok") + entry("a", "skip", "ok"), "listed twice"},
		{"no difference", entry("a", "ok", "ok"), "do not differ"},
		{"not a result", entry("a", "bad", "ok"), "not a result"},
		{"a violation under bwrap", entry("a", "ok", "violated"), "not a result"},
		{"no reason", "- {test: a, silk: fail, bwrap: ok, rule: r}\n", "needs"},
		{"an unknown key", "- {test: a, silk: fail, bwrap: ok, rule: r, reason: x, since: y}\n", "since"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseDifferences("list", []byte(test.data))
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	of := func(kind string) results { return results{"test.m.a": {kind: kind}} }
	listed := []difference{{Test: "test.m.a", Silk: "fail", Bwrap: "ok"}}
	fatal := []difference{{Test: "test.m.a", Silk: violated, Bwrap: "skip"}}
	for _, test := range []struct {
		name        string
		silk, bwrap results
		list        []difference
		want        int
	}{
		{"the same", of("ok"), of("ok"), nil, 0},
		{"a difference that is not listed", of("fail"), of("ok"), nil, 1},
		{"a test that did not run in silk", results{}, of("ok"), nil, 1},
		{"a test that ran in silk only", of("ok"), results{}, nil, 1},
		{"a listed difference", of("fail"), of("ok"), listed, 0},
		{"a listed difference that has gone", of("ok"), of("ok"), listed, 1},
		{"a listed difference that is another", of("error"), of("ok"), listed, 1},
		{"a listed test that does not exist", results{}, results{}, listed, 2},
		{"a listed violation is left out", results{}, of("skip"), fatal, 0},
		{"a listed violation with another result under bwrap", results{}, of("ok"), fatal, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := problems(test.silk, test.bwrap, test.list); len(got) != test.want {
				t.Errorf("%d problems, want %d: %q", len(got), test.want, got)
			}
		})
	}
}

func TestListIsInOrder(t *testing.T) {
	list, err := readDifferences()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if !slices.ContainsFunc(modules, func(m string) bool { return len(of(m, []difference{e})) == 1 }) {
			t.Errorf("%s belongs to no module that is compared", e.Test)
		}
	}
	if !slices.IsSortedFunc(list, func(a, b difference) int { return strings.Compare(a.Test, b.Test) }) {
		t.Error("the list is not sorted by test")
	}
}

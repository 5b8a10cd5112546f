package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mark begins a line of testdata/record.py's report; what tests print stands between.
const mark = "@silk-compat "

// result is how one test ended, in unittest's words.
type result struct {
	kind string
	why  string // for people
}

// started is a test that did not end, badness orders how tests end: a test of several parts ends as its worst part.
const started = "start"

var badness = []string{"ok", "skip", "expected failure", "unexpected success", "fail", "error"}

// results are the tests of one module on one side, by the id that unittest gives them.
type results map[string]result

// parse reads a report. complete is false if the program ended before its tests did.
func parse(output string) (r results, complete bool, err error) {
	r = results{}
	for line := range strings.Lines(output) {
		text, ok := strings.CutPrefix(line, mark)
		if !ok {
			continue
		}
		var said struct {
			Test, Result, Why string
			End               bool
		}
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			return nil, false, fmt.Errorf("read the report line %.200q: %w", line, err)
		}
		if said.End {
			complete = true
			continue
		}
		rank := slices.Index(badness, said.Result)
		if said.Test == "" || rank < 0 && said.Result != started {
			return nil, false, fmt.Errorf("the report line %.200q is not understood", line)
		}
		if old, seen := r[said.Test]; !seen || rank > slices.Index(badness, old.kind) {
			r[said.Test] = result{kind: said.Result, why: said.Why}
		}
	}
	return r, complete, nil
}

// different are the tests whose results are not the same on both sides, sorted.
func different(a, b results) []string {
	var names []string
	for name := range maps.Keys(union(a, b)) {
		if a[name].kind != b[name].kind {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func union(a, b results) results {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// describe says how a test ended on one side.
func (r results) describe(name string) string {
	got, ran := r[name]
	switch {
	case !ran:
		return "did not run"
	case got.kind == started:
		return "did not end"
	case got.why == "":
		return got.kind
	}
	return fmt.Sprintf("%s (%s)", got.kind, got.why)
}

func TestParse(t *testing.T) {
	line := func(test, result string) string {
		return fmt.Sprintf("\n%s{\"test\": %q, \"result\": %q}\n", mark, test, result)
	}
	for _, test := range []struct {
		name     string
		output   string
		want     results
		complete bool
	}{
		{"a test that passes", line("a", "start") + line("a", "ok"), results{"a": {kind: "ok"}}, false},
		{"a test that ends the sandbox", line("a", "ok") + line("b", "start"), results{"a": {kind: "ok"}, "b": {kind: started}}, false},
		{"a failed part fails its test", line("a", "start") + line("a", "fail") + line("a", "ok"), results{"a": {kind: "fail"}}, false},
		{"output of a test before and after", "a ... " + line("a", "ok") + "more" + line("b", "skip"), results{"a": {kind: "ok"}, "b": {kind: "skip"}}, false},
		{"all tests have run", line("a", "ok") + "\n" + mark + "{\"end\": true}\n", results{"a": {kind: "ok"}}, true},
		{"nothing", "", results{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, complete, err := parse(test.output)
			if err != nil || complete != test.complete {
				t.Errorf("parse: complete %t, error %v; want %t, nil", complete, err, test.complete)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("parse (-want +got):\n%s", diff)
			}
		})
	}
	for _, bad := range []string{line("a", "fine"), line("", "ok"), mark + "{"} {
		if _, _, err := parse(bad); err == nil {
			t.Errorf("parse(%q) understands it", bad)
		}
	}
}

func TestDifferent(t *testing.T) {
	a := results{"same": {kind: "ok"}, "other": {kind: "ok"}, "only here": {kind: "ok"}, "why": {kind: "skip", why: "this"}}
	b := results{"same": {kind: "ok"}, "other": {kind: "skip"}, "only there": {kind: "ok"}, "why": {kind: "skip", why: "that"}}
	if diff := cmp.Diff([]string{"only here", "only there", "other"}, different(a, b)); diff != "" {
		t.Errorf("different (-want +got):\n%s", diff)
	}
}

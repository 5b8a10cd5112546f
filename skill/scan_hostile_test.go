package skill

import (
	"runtime"
	"strings"
	"testing"
)

// TestHostileSources: files that are made to use up memory are read as others of their length. Each of them once had its beginning copied with each
// of its pieces.
func TestHostileSources(t *testing.T) {
	const size, most = 256 << 10, 1000 // bytes that are allocated for each of the file's
	for _, test := range []struct{ name, ext, unit string }{
		{"a name with many parts", ".py", "a."},
		{"text of many pieces, side by side", ".py", `"a"`},
		{"text of many pieces, added", ".py", `"a"+`},
		{"text of many pieces", ".js", `"a"+`},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := []byte(strings.Repeat(test.unit, size/len(test.unit)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			Scan([]Source{{Path: "a" + test.ext, Text: text}}, Manifest{})
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / size; each > most {
				t.Errorf("%d bytes for each of the file's", each)
			}
		})
	}
}

// TestEndlessSources: files that are made to keep a reader busy, for hours of this test's time.
func TestEndlessSources(t *testing.T) {
	for _, test := range []struct {
		name, ext, unit string
		size            int
	}{
		{"calls in calls", ".py", "open(", 1 << 20},
		{"imports that go on", ".py", "from a import b,\n", 1 << 20},
		{"a number without an end", ".py", "1e+1e+", maxSource},
		{"regular expressions without an end", ".js", "/[", maxSource},
	} {
		t.Run(test.name, func(*testing.T) {
			Scan([]Source{{Path: "a" + test.ext, Text: []byte(strings.Repeat(test.unit, test.size/len(test.unit)))}}, Manifest{})
		})
	}
	// One that has an end comes behind one that has none.
	if found := Scan([]Source{{Path: "a.js", Text: []byte("a = /[ ; b = /'/ ; eval(c)\n")}}, Manifest{}); len(found) != 1 || found[0].Rule != RuleEval {
		t.Errorf("found %v", found)
	}
}

// TestNestedText goes to the depth that once ended the process: its stack has a gigabyte at most.
func TestNestedText(t *testing.T) {
	_ = Scan([]Source{{Path: "a.py", Text: []byte(strings.Repeat(`f"{:{`, maxSource/5))}}, Manifest{})
	found := Scan([]Source{{Path: "a.py", Text: []byte(strings.Repeat(`f"{`, maxNested+1))}}, Manifest{})
	if len(found) == 0 || found[0].Rule != RuleObfuscation || !strings.Contains(found[0].Message, "deeper") {
		t.Errorf("found %v", found)
	}
	if found := Scan([]Source{{Path: "a.py", Text: []byte(`f"{f'{eval(x)}'}"` + "\n")}}, Manifest{}); len(found) != 1 || found[0].Rule != RuleEval {
		t.Errorf("in text in text: %v", found)
	}
}

// TestFindingsAreBounded: what refuses a skill is there, however many warnings are before it.
func TestFindingsAreBounded(t *testing.T) {
	found := Scan([]Source{
		{Path: "a.py", Text: []byte(strings.Repeat("import marshal\n", maxFindings+10))},
		{Path: "b.py", Text: []byte("import marshal\neval(x)\neval(y)\n")},
	}, Manifest{})
	last := found[len(found)-1]
	if len(found) != maxFindings+1 || last.File != "b.py" || last.Line != 2 || last.Severity != SeverityError {
		t.Errorf("%d findings, the last is %+v", len(found), last)
	}
	long := Source{Path: "long.js", Text: make([]byte, maxSource+1)}
	if found := Scan([]Source{long}, Manifest{}); len(found) != 1 || found[0].Rule != RuleRead || found[0].Severity != SeverityError {
		t.Errorf("of a file that is too long: %v", found)
	}
}

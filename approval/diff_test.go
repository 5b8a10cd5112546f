package approval

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// version is an approval as Ask stores it.
func version(t testing.TB, run, code, plan string) Approval {
	t.Helper()
	r := request(run, "tok", code)
	r.Plan = json.RawMessage(plan)
	a, err := r.approval()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func granted(a Approval) Approval {
	a.State, a.Decided = Granted, noon
	return a
}

const plan1, plan2 = `{"profile":"lab:python","limits":{"memory":1}}`, `{"profile":"lab:python","limits":{"memory":2}}`

func TestDiff(t *testing.T) {
	command := func(run string) Approval {
		a := version(t, run, "", plan1)
		a.CodeSHA256 = ""
		return a
	}
	otherToken := granted(version(t, "01A", "a\n", plan1))
	otherToken.Token = "tok9"
	light := granted(version(t, "01A", "a\n", plan1))
	light.Code = ""
	const header = "# compared with what was approved on 2026-05-28T20:26:40Z\n"
	for _, test := range []struct {
		name     string
		old, new Approval
		want     string
	}{
		{
			"a changed line", granted(version(t, "01A", "a\nb\nc\n", plan1)), version(t, "01B", "a\nB\nc\n", plan1),
			header + "--- run 01A code\n+++ run 01B code\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
		},
		{
			"a changed plan", granted(version(t, "01A", "a\n", plan1)), version(t, "01B", "a\n", plan2),
			header + "# the code is the same, byte for byte\n--- run 01A plan\n+++ run 01B plan\n@@ -1,6 +1,6 @@\n {\n   \"profile\": \"lab:python\",\n   \"limits\": {\n-    \"memory\": 1\n+    \"memory\": 2\n   }\n }\n",
		},
		{
			"nothing changed", granted(version(t, "01A", "a\n", plan1)), version(t, "01B", "a\n", plan1),
			header + "# the code is the same, byte for byte\n# there is no difference to be seen\n",
		},
		{
			"the first version",
			Approval{},
			version(t, "01B", "a\n", `1`),
			"# no version of lab:python main.py was approved before: all of it is new\n--- nothing code\n+++ run 01B code\n@@ -0,0 +1,1 @@\n+a\n--- nothing plan\n+++ run 01B plan\n@@ -0,0 +1,1 @@\n+1\n",
		},
		{
			"asked for by another", otherToken, version(t, "01B", "a\n", plan1),
			header + "# that was asked for by another token: tok9\n# the code is the same, byte for byte\n# there is no difference to be seen\n",
		},
		{
			"the end of a line", granted(version(t, "01A", "a\n", plan1)), version(t, "01B", "a", plan1),
			header + "--- run 01A code\n+++ run 01B code\n@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n",
		},
		{
			"a carriage return", granted(version(t, "01A", "a\n", plan1)), version(t, "01B", "a\r\n", plan1),
			header + "# code: 1 character is invisible or steering how others are shown: ⟨U+000D⟩\n--- run 01A code\n+++ run 01B code\n@@ -1,1 +1,1 @@\n-a\n+a⟨U+000D⟩\n",
		},
		{
			"a steering character in a plan", granted(version(t, "01A", "a\n", `"x"`)), version(t, "01B", "a\n", "\"\u202ex\""),
			header + "# the code is the same, byte for byte\n--- run 01A plan\n+++ run 01B plan\n@@ -1,1 +1,1 @@\n-\"x\"\n+\"⟨U+202E⟩x\"\n",
		},
		{
			"what looks like a remark, and like a header", granted(version(t, "01A", "", plan1)), version(t, "01B", "# fine\n++ b\n@@ -1 +1 @@\n", plan1),
			header + "--- run 01A code\n+++ run 01B code\n@@ -0,0 +1,3 @@\n+# fine\n+++ b\n+@@ -1 +1 @@\n",
		},
		{
			"no text now", granted(version(t, "01A", "a\n", plan1)), version(t, "01B", strings.Repeat("\x00", 99), plan1),
			header + "# asked for now: no text: 99 bytes, not shown\n--- run 01A code\n+++ run 01B code\n@@ -1,1 +0,0 @@\n-a\n",
		},
		{
			"no text before, nor now", granted(version(t, "01A", strings.Repeat("\x00", 98), plan1)), version(t, "01B", strings.Repeat("\x00", 99), plan1),
			header + "# approved before: no text: 98 bytes, not shown\n# asked for now: no text: 99 bytes, not shown\n# the code is another one, but not in what is shown of it\n# there is no difference to be seen\n",
		},
		{
			"a difference behind what is shown", granted(version(t, "01A", strings.Repeat("a\n", MaxCodeBytes), plan1)), version(t, "01B", strings.Repeat("a\n", MaxCodeBytes-1)+"b\n", plan1),
			header + "# approved before: only the first 262144 of 524288 bytes are shown\n# asked for now: only the first 262144 of 524288 bytes are shown\n# the code is another one, but not in what is shown of it\n# there is no difference to be seen\n",
		},
		{
			"commands without code", granted(command("01A")), command("01B"),
			header + "# there is no difference to be seen\n",
		},
		{
			"a plan that is broken", granted(version(t, "01A", "a\n", plan1)),
			Approval{Run: "01B", Token: "tok", CodeSHA256: sum("a\n"), Code: "a\n", Plan: []byte("\u202e")},
			header + "# the code is the same, byte for byte\n--- run 01A plan\n+++ run 01B plan\n@@ -1,6 +1,1 @@\n-{\n-  \"profile\": \"lab:python\",\n-  \"limits\": {\n-    \"memory\": 1\n-  }\n-}\n+⟨U+202E⟩\n",
		},
		{
			"read without its code", light, version(t, "01B", "", plan1),
			header + "# approved before: the code was not read, so it is not shown\n# the code is another one, but not in what is shown of it\n# there is no difference to be seen\n",
		},
	} {
		if d := cmp.Diff(test.want, Diff(test.old, test.new)); d != "" {
			t.Errorf("%s: %s", test.name, d)
		}
	}
}

func TestDiffIsBounded(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < MaxCodeBytes-20; i++ {
		fmt.Fprintf(&b, "%c%x\n", markOpen, i)
	}
	old, new := granted(version(t, "01A", b.String(), plan1)), version(t, "01B", strings.ReplaceAll(b.String(), "\n", ";\n"), plan1)
	began := time.Now()
	got := Diff(old, new)
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %s", d)
	}
	if len(got) > MaxDiffBytes+4096 {
		t.Errorf("%d bytes", len(got))
	}
	whole := unified("run 01A code", "run 01B code", old.Code, new.Code)
	var told int
	for line := range strings.Lines(got) {
		if _, err := fmt.Sscanf(line, "# the difference of the code is long: its last %d lines are not shown\n", &told); err == nil {
			break
		}
	}
	shown := 0
	for line := range strings.Lines(got) {
		if line[0] != '#' {
			shown++
		}
	}
	if told == 0 || told+shown != strings.Count(whole, "\n") {
		t.Errorf("%d lines are shown and %d are said to be left out, of %d", shown, told, strings.Count(whole, "\n"))
	}
	if !strings.HasSuffix(got, fmt.Sprintf("\n# here %d lines of the code are left out\n", told)) {
		t.Errorf("it ends with %q", got[len(got)-80:])
	}
}

// What is beside the code is shown as the code is.
func TestDiffOfFiles(t *testing.T) {
	with := func(run string, change func(*Request)) Approval {
		r := request(run, "tok", "import lib\n")
		change(&r)
		a, err := r.approval()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	const same = "# the code is the same, byte for byte\n"
	lib := func(content string) func(*Request) {
		return func(r *Request) { r.Files = []Upload{{Name: "lib.py", Content: content}} }
	}
	big := strings.Repeat("x", MaxFilesBytes+1)
	for _, test := range []struct {
		name     string
		old, new func(*Request)
		want     string
	}{
		{"the same file", lib("a\n"), lib("a\n"), same + "# there is no difference to be seen\n"},
		{
			"a changed file", lib("a\n"), lib("b\n"),
			same + "# /workspace/lib.py is not the same: 2 bytes\n--- run 01A /workspace/lib.py\n+++ run 01B /workspace/lib.py\n@@ -1,1 +1,1 @@\n-a\n+b\n",
		},
		{
			"a new file", func(*Request) {}, lib("b\u202e\n"),
			same + "# /workspace/lib.py is new: 5 bytes\n# /workspace/lib.py: 1 character is invisible or steering how others are shown: ⟨U+202E⟩\n" +
				"--- run 01A /workspace/lib.py\n+++ run 01B /workspace/lib.py\n@@ -0,0 +1,1 @@\n+b⟨U+202E⟩\n",
		},
		{
			"a file that is gone", lib("a\n"), func(*Request) {},
			same + "# /workspace/lib.py is gone\n--- run 01A /workspace/lib.py\n+++ run 01B /workspace/lib.py\n@@ -1,1 +0,0 @@\n-a\n",
		},
		{
			"a file that can be run now", lib("a\n"), func(r *Request) { r.Files = []Upload{{Name: "lib.py", Content: "a\n", Executable: true}} },
			same + "# /workspace/lib.py can be run as a program\n# there is no difference to be seen\n",
		},
		{
			"input", func(r *Request) { r.Stdin = "a\n" }, func(r *Request) { r.Stdin = "b\n" },
			same + "# stdin is not the same: 2 bytes\n--- run 01A stdin\n+++ run 01B stdin\n@@ -1,1 +1,1 @@\n-a\n+b\n",
		},
		{
			"input that comes later, as before", func(r *Request) { r.StdinOpen = true }, func(r *Request) { r.StdinOpen = true },
			same + "# stdin: it is sent while the program runs, so nobody can see it before\n# there is no difference to be seen\n",
		},
		{
			"a file that is too large, as before", lib(big), lib(big),
			same + "# /workspace/lib.py: 524289 bytes, not shown: there is too much\n# there is no difference to be seen\n",
		},
		{
			"a file that is too large and another one", lib(big), lib(big + "x"),
			same + "# /workspace/lib.py is not the same: 524290 bytes\n# /workspace/lib.py: 524290 bytes, not shown: there is too much\n# there is no difference to be seen\n",
		},
		{
			"a file that is no text", lib("a\n"), lib(strings.Repeat("\x00", 99)),
			same + "# /workspace/lib.py is not the same: 99 bytes\n# /workspace/lib.py: no text: 99 bytes, not shown\n" +
				"--- run 01A /workspace/lib.py\n+++ run 01B /workspace/lib.py\n@@ -1,1 +0,0 @@\n-a\n",
		},
	} {
		got := Diff(granted(with("01A", test.old)), with("01B", test.new))
		if d := cmp.Diff("# compared with what was approved on 2026-05-28T20:26:40Z\n"+test.want, got); d != "" {
			t.Errorf("%s: %s", test.name, d)
		}
	}
}

// A part that is long does not push another one out of sight.
func TestDiffKeepsRoomForEachPart(t *testing.T) {
	r := request("01B", "tok", "evil()\n")
	r.Plan = json.RawMessage(`["` + strings.Repeat(`x", "`, 60_000) + `"]`)
	r.Files = []Upload{{Name: "a", Content: strings.Repeat("x\n", MaxFilesBytes/2)}}
	a, err := r.approval()
	if err != nil {
		t.Fatal(err)
	}
	got := Diff(Approval{}, a)
	for _, want := range []string{"\n+evil()\n", " run 01B plan\n", "# the difference of the plan is long", "# the difference of the files and input is long"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in it", want)
		}
	}
	if len(got) > 3*MaxDiffBytes {
		t.Errorf("%d bytes", len(got))
	}
}

// Whatever is compared, the diff leads from what was approved to what is asked for: nothing is hidden by it.
func TestDiffIsComplete(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		code := rapid.Custom(func(rt *rapid.T) string {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "\u202e", "+a", "-a", " a", "# a", "@@ -1,1 +1,1 @@", "\\ No newline at end of file", "--- a", "+++ b", "⟨"}), 0, 12).Draw(rt, "lines")
			return strings.Join(lines, "\n")
		})
		old, new := granted(version(t, "01A", code.Draw(rt, "old"), plan1)), version(t, "01B", code.Draw(rt, "new"), plan1)
		got, err := patch(old.Code, unified("a", "b", old.Code, new.Code))
		if err != nil || got != new.Code {
			rt.Fatalf("%v: %q leads to %q, not to %q", err, old.Code, got, new.Code)
		}
		remarks := true
		for line := range strings.Lines(Diff(old, new)) {
			if line[0] == '#' && !remarks {
				rt.Fatalf("a line of code looks like a remark: %q", line)
			}
			remarks = remarks && line[0] == '#'
		}
	})
}

// patch applies a unified diff of one text.
func patch(text, diff string) (string, error) {
	if diff == "" {
		return text, nil
	}
	var old []string
	for line := range strings.Lines(text) {
		old = append(old, line)
	}
	var lines []string
	for line := range strings.Lines(diff) {
		lines = append(lines, line)
	}
	var out strings.Builder
	at := 0
	for i := 2; i < len(lines); { // after --- and +++
		var from, n, to, m int
		if _, err := fmt.Sscanf(lines[i], "@@ -%d,%d +%d,%d @@\n", &from, &n, &to, &m); err != nil {
			return "", fmt.Errorf("%q: %w", lines[i], err)
		}
		if n > 0 {
			from--
		}
		for ; at < from; at++ {
			out.WriteString(old[at])
		}
		for i++; n > 0 || m > 0; i++ {
			kind, line := lines[i][0], lines[i][1:]
			if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\\ ") {
				line = strings.TrimSuffix(line, "\n")
			}
			switch kind {
			case '\\':
				continue
			case ' ', '-':
				if at >= len(old) || old[at] != line {
					return "", fmt.Errorf("line %d is not %q", at, line)
				}
				at, n = at+1, n-1
			}
			if kind == ' ' || kind == '+' {
				out.WriteString(line)
				m--
			}
		}
		for i < len(lines) && strings.HasPrefix(lines[i], "\\ ") {
			i++
		}
	}
	for ; at < len(old); at++ {
		out.WriteString(old[at])
	}
	return out.String(), nil
}

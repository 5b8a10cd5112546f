package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/tests/silktest"
)

// With these variables the test binary is a silk that does nothing but print what it is told: the runner of rows has to
// be right before there is anything to run.
const (
	fakeOutput = "E2E_FAKE_OUTPUT" // what to print
	fakeStatus = "E2E_FAKE_STATUS" // what to exit with
	fakeArgs   = "E2E_FAKE_ARGS"   // file that receives the arguments, as JSON
)

func TestMain(m *testing.M) {
	if output, ok := os.LookupEnv(fakeOutput); ok {
		os.Exit(beFake(output))
	}
	os.Exit(m.Run())
}

func beFake(output string) int {
	fmt.Print(output)
	status, err := strconv.Atoi(os.Getenv(fakeStatus))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	args, err := json.Marshal(os.Args[1:])
	if err == nil {
		err = put(os.Getenv(fakeArgs), string(args))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	return status
}

func fakeSilk(t *testing.T, output string, status int) (s silk, args func() []string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "args")
	s = silk{silktest.Silk{Path: exe, Home: t.TempDir(), Env: []string{fakeOutput + "=" + output, fakeStatus + "=" + strconv.Itoa(status), fakeArgs + "=" + file}}}
	return s, func() (args []string) {
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &args)
		}
		if err != nil {
			t.Fatal(err)
		}
		return args
	}
}

func TestRowCommandLine(t *testing.T) {
	stdin := "in"
	s, args := fakeSilk(t, `{"outcome":"failed","exit_code":3,"stdout":{"bytes":0,"truncated":false,"sha256":""},`+
		`"stderr":{"bytes":0,"truncated":false,"sha256":""},"artifacts":[],"flags":{},"wall_ms":1,"usage":{},"run":"R"}`, 3)
	dir := t.TempDir()
	got, err := s.runRow(t.Context(), row{
		Profile: "lab:text", File: "a/b.sh", Run: []string{"x", "-y"}, Flags: []string{"--timeout", "1s"},
		Files: map[string]string{"a/b.sh": "true"}, Lib: []string{"attack.py"}, Stdin: &stdin,
	}, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"run", "--json", "--dir", dir + "/src", "--artifacts", dir + "/artifacts", "--timeout", "60s", "-p", "lab:text",
		"--stdin", dir + "/stdin", "--timeout", "1s", dir + "/src/a/b.sh", "--", "x", "-y",
	}
	if diff := cmp.Diff(want, args()); diff != "" {
		t.Error(diff)
	}
	if got.status != 3 || got.outcome.Kind != run.Failed || got.outcome.Run != "R" {
		t.Errorf("read %+v", got)
	}
	for name, content := range map[string]string{"stdin": "in", "src/a/b.sh": "true"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != content {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "src", "attack.py")); err != nil {
		t.Error(err)
	}
}

func TestUnreadableOutcomes(t *testing.T) {
	for name, output := range map[string]string{
		"nothing":              "",
		"text":                 "all is well\n",
		"an unknown field":     `{"outcome":"ok","surprise":1}`,
		"two objects":          `{"outcome":"ok"} {"outcome":"ok"}`,
		"an unfinished object": `{"outcome":"ok"`,
	} {
		s, _ := fakeSilk(t, output, 0)
		if _, err := s.run(t.Context(), time.Minute); err == nil {
			t.Errorf("%s was read as an outcome", name)
		}
	}
}

// goodResult is a result that fits goodWant; the cases of TestProblems change one of the two.
func goodResult(t *testing.T) result {
	t.Helper()
	dir := t.TempDir()
	if err := put(filepath.Join(dir, "a.png"), "\x89PNG"); err != nil {
		t.Fatal(err)
	}
	out, code := "hello\nworld\n", 0
	return result{
		wall: time.Second, artifacts: dir,
		outcome: run.Outcome{
			Kind: run.OK, ExitCode: &code, Flags: map[string]int64{"tmp_full": 2},
			Stdout:    run.Channel{Bytes: 12, Text: &out, SHA256: sum(out)},
			Stderr:    run.Channel{SHA256: sum("")},
			Artifacts: []run.Artifact{{Path: "a.png", Type: "file", Size: 4, SHA256: sum("\x89PNG")}, {Path: "link", Type: "link"}},
		},
	}
}

func goodWant() want {
	out, zero, twelve, no := "hello\nworld\n", 0, int64(12), false
	return want{
		Outcome: "failed|ok", Exit: &zero, Flags: []string{"tmp_full"}, Artifacts: []string{"a.png"}, Magic: map[string]string{"a.png": "8950"},
		Unread: []string{"link"}, NoFile: "^core", SomeFile: "png$",
		Stdout: channel{
			Is: &out, Has: texts{"lo\nwo"}, Match: texts{"^world$"}, Lacks: texts{"^w$"}, SHA256: sum(out), Bytes: &twelve,
			Truncated: &no, Kept: []int{12, 12},
		},
	}
}

func TestProblems(t *testing.T) {
	if p := goodWant().problems(goodResult(t)); len(p) > 0 {
		t.Fatalf("a good result has problems: %q", p)
	}
	other, two := "other", 2
	for _, test := range []struct {
		name   string
		change func(w *want, r *result)
		says   string
	}{
		{"another outcome", func(w *want, r *result) { w.Outcome = "timeout" }, `outcome "ok", want "timeout"`},
		{"a status that does not fit", func(w *want, r *result) { r.status = 1 }, `silk exited with 1`},
		{"another exit code", func(w *want, r *result) { w.Exit = &two }, "exit code 0, want 2"},
		{"no exit code", func(w *want, r *result) { r.outcome.ExitCode = nil }, "exit code null"},
		{"a signal", func(w *want, r *result) { r.outcome.Signal = 9 }, "signal 9, want 0"},
		{"another rule", func(w *want, r *result) { w.Rule = "file"; r.outcome.Rule = "network" }, `rule "network", want "file"`},
		{"another sentence", func(w *want, r *result) { w.Message = "because" }, `want "because" in it`},
		{"other output", func(w *want, r *result) { w.Stdout.Is = &other }, `want "other"`},
		{"a missing part", func(w *want, r *result) { w.Stdout.Has = texts{"absent"} }, `want "absent" in it`},
		{"no match", func(w *want, r *result) { w.Stdout.Match = texts{"^o"} }, `want a match of "^o"`},
		{"an unwanted match", func(w *want, r *result) { w.Stdout.Lacks = texts{"^w"} }, `stdout has "world"`},
		{"an escape", func(w *want, r *result) {
			said := "fine\nESCAPED: out\n"
			r.outcome.Stderr = run.Channel{Text: &said, Bytes: int64(len(said)), SHA256: sum(said)}
		}, `stderr has "ESCAPED: out"`},
		{"truncated", func(w *want, r *result) { r.outcome.Stdout.Truncated = true }, "truncated is true"},
		{"another count", func(w *want, r *result) { r.outcome.Stdout.Bytes = 13 }, "counts 13 bytes"},
		{"a hash that does not fit", func(w *want, r *result) { r.outcome.Stdout.SHA256 = sum("x") }, "what is kept differs"},
		{"too little kept", func(w *want, r *result) { w.Stdout.Kept = []int{13, 20} }, "keeps 12 bytes"},
		{"a missing artifact", func(w *want, r *result) { w.Artifacts = []string{"b"} }, `artifact "b" is missing`},
		{"an artifact that was not copied", func(w *want, r *result) { r.artifacts = filepath.Join(r.artifacts, "none") }, "was not copied"},
		{"an artifact with another hash", func(w *want, r *result) { r.outcome.Artifacts[0].SHA256 = sum("") }, "copied with 4"},
		{"an artifact of another kind", func(w *want, r *result) { w.Magic["a.png"] = "ffd8" }, "begins with"},
		{"a link that was read", func(w *want, r *result) { r.outcome.Artifacts[1].SHA256 = sum("") }, `behind "link" was read`},
		{"an artifact that must not be", func(w *want, r *result) { w.NoFile = "png" }, `"a.png" is an artifact`},
		{"no artifact of a kind", func(w *want, r *result) { w.SomeFile = "svg$" }, "no artifact matches"},
		{"a flag that is not set", func(w *want, r *result) { w.Flags = []string{"disk_full"} }, "flag disk_full is not set"},
		{"too slow", func(w *want, r *result) { r.wall = 2 * defaultMost }, "took 3m0s"},
		{"too quick", func(w *want, r *result) { w.Least = 2 * time.Second }, "took 1s"},
		{"another clock", func(w *want, r *result) { w.Clock = time.Second }, "the program's time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, r := goodWant(), goodResult(t)
			test.change(&w, &r)
			if p := w.problems(r); !strings.Contains(strings.Join(p, "\n"), test.says) {
				t.Errorf("problems %q, want one that says %q", p, test.says)
			}
		})
	}
}

func TestProblemsOfAll(t *testing.T) {
	a, b := goodResult(t), goodResult(t)
	if p := (want{Same: true}).problemsOfAll([]result{a, b}); len(p) > 0 {
		t.Errorf("equal runs have problems: %q", p)
	}
	if p := (want{Distinct: true}).problemsOfAll([]result{a, b}); len(p) != 2 {
		t.Errorf("got %q, want a problem for each of the two equal lines", p)
	}
	said := "else\n"
	b.outcome.Stdout.Text = &said
	if p := (want{Same: true}).problemsOfAll([]result{a, b}); len(p) != 1 {
		t.Errorf("got %q, want that the runs differ", p)
	}
}

func TestLoadSuite(t *testing.T) {
	const head = "about: x\nprofile: lab:text\nrows:\n"
	for name, test := range map[string]struct{ text, says string }{
		"good":              {head + "  - {name: a, why: b, run: [x], want: {outcome: ok|failed, stdout: text, stderr: {is: '', has: one}}}\n", ""},
		"unknown key":       {head + "  - {name: a, why: b, run: [x], wnat: {outcome: ok}}\n", "wnat"},
		"unknown inner key": {head + "  - {name: a, why: b, run: [x], want: {outcome: ok, stdout: {iz: x}}}\n", "iz"},
		"no reason":         {head + "  - {name: a, run: [x], want: {outcome: ok}}\n", "no reason"},
		"no expectation":    {head + "  - {name: a, why: b, run: [x]}\n", "not an outcome"},
		"unknown outcome":   {head + "  - {name: a, why: b, run: [x], want: {outcome: fine}}\n", `"fine" is not an outcome`},
		"runs nothing":      {head + "  - {name: a, why: b, want: {outcome: ok}}\n", "runs nothing"},
		"bad pattern":       {head + "  - {name: a, why: b, run: [x], want: {outcome: ok, stdout: {match: '('}}}\n", "missing closing"},
		"compares one run":  {head + "  - {name: a, why: b, run: [x], want: {outcome: ok, same: true}}\n", "only one"},
		"the same name":     {head + "  - {name: a, why: b, run: [x], want: {outcome: ok}}\n  - {name: a, why: b, run: [x], want: {outcome: ok}}\n", "two rows"},
		"no rows":           {"about: x\n", "no rows"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rows.yaml")
			if err := put(file, test.text); err != nil {
				t.Fatal(err)
			}
			s, err := loadSuite(file)
			if test.says == "" {
				if err != nil || *s.Rows[0].Want.Stdout.Is != "text" || !slices.Equal(s.Rows[0].Want.Stderr.Has, texts{"one"}) {
					t.Errorf("got %+v, %v", s, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error that says %q", err, test.says)
			}
		})
	}
}

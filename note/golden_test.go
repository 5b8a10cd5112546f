package note_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/note"
)

var update = flag.Bool("update", false, "rewrite testdata/*.md")

// TestGolden: results as people see them. Each file is a note with results in it.
func TestGolden(t *testing.T) {
	const run = "01M8MV0DH06CVWRW20Q0DREDWD"
	zero, three := 0, 3
	text := func(s string) note.Channel { return note.Channel{Kept: []byte(s), Bytes: int64(len(s))} }
	var long strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&long, "line %d\n", i+1)
	}
	const plain = "Before.\n\n```python\nprint(42)\n```\n\nBehind.\n"
	for _, test := range []struct {
		file, note string
		result     note.Result
	}{
		{"ok", plain, note.Result{Outcome: "ok", ExitCode: &zero, Wall: 41 * time.Millisecond, Stdout: text("42\n")}},
		{"ok-both", plain, note.Result{Outcome: "ok", ExitCode: &zero, Wall: 1234 * time.Millisecond, Stdout: text("42\n\n43"), Stderr: text("careful\n")}},
		{"ok-nothing", plain, note.Result{Outcome: "ok", ExitCode: &zero, Wall: 75 * time.Second}},
		{"ok-nothing-then-text", strings.Replace(plain, "```\n\n", "```\n", 1), note.Result{Outcome: "ok", ExitCode: &zero, Wall: time.Millisecond}},
		{"ok-then-quote", "> - ```sh\n>   x\n>   ```\n>   > a quote\n> - next\n", note.Result{Outcome: "ok", ExitCode: &zero, Wall: time.Millisecond, Stdout: text("x\n")}},
		{"ok-images", plain, note.Result{
			Outcome: "ok", ExitCode: &zero, Wall: 2 * time.Second, Stdout: text("two figures\n"),
			Images: note.Images("files/pictures", run, []note.Artifact{{Path: "plot.png", MIME: "image/png"}, {Path: "out/plot.png", MIME: "image/png"}, {Path: "out-plot.png", MIME: "image/png"}, {Path: "x]] ![[#^|.jpeg", MIME: "image/jpeg; a=b"}, {Path: "data.csv", MIME: "text/csv"}, {Path: "evil.svg", MIME: "image/svg+xml"}}),
		}},
		{"ok-results", plain, note.Result{
			Outcome: "ok", ExitCode: &zero, Wall: 2 * time.Second, Stdout: text("results\n"),
			Images: note.Images("files/pictures", run, []note.Artifact{{Path: "left.png", MIME: "image/png"}, {Path: ".silk/display/0002.png", MIME: "image/png", Display: "image/png"}}),
			Results: note.Results([]note.Artifact{
				{Path: ".silk/display/0001.table.json", Display: "application/vnd.silk.table+json"},
				{Path: ".silk/display/0002.png", MIME: "image/png", Display: "image/png"},
				{Path: ".silk/display/0003.html", Display: "text/html", Bytes: 30},
				{Path: ".silk/display/0004.json", Display: "application/json"},
				{Path: ".silk/display/0005.svg", Display: "image/svg+xml", Bytes: 40},
				{Path: ".silk/display/0006.txt", Display: "text/plain"},
				{Path: ".silk/display/0007.txt", Display: "text/plain", Bytes: 1 << 20},
			}, func(path string) ([]byte, error) {
				return []byte(map[string]string{
					".silk/display/0001.table.json": `{"columns": ["name|", "[[n]]"], "rows": [["<b>x</b>\n> [!danger]", 1.5], ["` + "`$= x`" + `", null]], "total": 100}`,
					".silk/display/0003.html":       "<script>alert(1)</script>", ".silk/display/0005.svg": "<svg onload=alert(1)>",
					".silk/display/0004.json": `{"a": "` + "```" + `"}`, ".silk/display/0006.txt": "100 %\n%%\n",
				}[path]), nil
			}),
		}},
		{"ok-stable", plain, note.Result{Outcome: "ok", ExitCode: &zero, Wall: 2 * time.Second, Stable: true, Stdout: text(long.String())}},
		{"ok-long", plain, note.Result{Outcome: "ok", ExitCode: &zero, Wall: 2 * time.Second, Stdout: note.Channel{Kept: []byte(long.String()), Bytes: 1 << 30, Truncated: true}, Stderr: text(strings.Repeat("x", 5000)), Flags: map[string]int64{"output_truncated": 1 << 30, "pids_limit_hit": 4}}},
		{"ok-hostile", plain, note.Result{Outcome: "ok", ExitCode: &zero, Wall: time.Second, Stdout: text("```\n~~~~\n> [!danger] x\n---\n%%\n[[link]]\n<script>alert(1)</script>\n# heading\n- [ ] task\n\x1b[31mred\x1b[0m\n\u202eright to left\n\x00\n`````````` \n"), Stderr: text("~~~~~~~~~~~\n")}},
		{"failed", plain, note.Result{Outcome: "failed", ExitCode: &three, Wall: 900 * time.Millisecond, Message: "the program exited with status 3", Stderr: text("Traceback\n")}},
		{"failed-signal", plain, note.Result{Outcome: "failed", Signal: 11, Wall: 900 * time.Millisecond}},
		{"failed-compile", plain, note.Result{Outcome: "failed", Phase: "compile", ExitCode: &three, Wall: 900 * time.Millisecond, Stderr: text("main.c:1: no\n")}},
		{"timeout", plain, note.Result{Outcome: "timeout", Wall: 30 * time.Second, Message: "the run took longer than its limit of 30s", Stdout: text("R09: so far\n")}},
		{"oom", plain, note.Result{Outcome: "oom", Wall: 3 * time.Second, Message: "the run used more than its limit of 256 MiB"}},
		{"violated", plain, note.Result{Outcome: "violated", Rule: "file.accounts", Syscall: "openat", Argument: "/etc/passwd\n> [!note] \x1b[31m`x`", Wall: 100 * time.Millisecond, Stdout: text("before\n"), Handoffs: []note.Handoff{{Receiver: "widow_weaver", Note: "Widow_Weaver/2026-11-30 08.12.05 failed note " + run + ".md"}, {Receiver: "code_explainer"}, {Receiver: "evil", Note: "x]] ![[y"}}}},
		{"refused", plain, note.Result{Outcome: "ok", ExitCode: &zero, Wall: time.Second, Stdout: text("done\n"), Kept: []note.Destination{
			{Host: "pypi.example"}, {Host: "a.example", Port: 443}, {Host: "x]] ![[evil\n> <b>.example"}, {Host: "2001:db8::1", Port: 80}, {Host: "a.example", Port: 443}, {Host: "z.example"},
		}}},
		{"denied", plain, note.Result{Outcome: "denied", Rule: "timeout", Message: "24h is more than the profile's 1h"}},
		{"error", plain, note.Result{Outcome: "error", Reason: "missing", Message: "there is no image lab:python yet"}},
		{"canceled", plain, note.Result{Outcome: "canceled", Wall: 5 * time.Second}},
		{"nested", "\ufeff1. a\r\n\r\n   > [!tip]+ b\r\n   > - ~~~~js {silk timeout=5s}\r\n   >   x\r\n   >   ~~~~\r\n\r\n2. c", note.Result{Outcome: "ok", ExitCode: &zero, Wall: time.Second, Stdout: text("out\r\nnext\n"), Stderr: text("err\n")}},
		{"last-line", "```sh\nx\n```", note.Result{Outcome: "ok", ExitCode: &zero, Wall: time.Second, Stdout: text("no line ending behind\n")}},
		{"replaced", "```sh\nx\n```\n\n> [!danger]+ silk-sandbox output · failed · exit 1 · run 01M8MV0DH06CVWRW20Q0DREDWA\n> ```text\n> old\n> ```\n>> [!widow-red] stderr\n>> ```text\n>> old\n>> ```\n> mine\n\nend\n", note.Result{Outcome: "ok", ExitCode: &zero, Wall: time.Second, Stdout: text("new\n")}},
	} {
		t.Run(test.file, func(t *testing.T) {
			test.result.Run = run
			n := note.Parse([]byte(test.note))
			if len(n.Blocks) != 1 {
				t.Fatalf("%d blocks", len(n.Blocks))
			}
			got := n.Put(0, &test.result)
			file := filepath.Join("testdata", test.file+".md")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Error(cmp.Diff(string(want), string(got)))
			}
			check(t, []byte(test.note), &test.result, &test.result)
		})
	}
}

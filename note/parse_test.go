package note_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/note"
)

// TestParse: where blocks are, what is in them, and why some cannot be run.
func TestParse(t *testing.T) {
	type block struct {
		Line, EndLine  int
		Language, Code string
		Reason         string
	}
	for _, test := range []struct {
		name string
		text string
		want []block
	}{
		{"no block", "# T\n\ntext\n", nil},
		{"nothing", "", nil},
		{"one block", "```python\nprint(1)\n```\n", []block{{0, 2, "python", "print(1)\n", ""}}},
		{"without a last line ending", "```py\nx\n```", []block{{0, 2, "python", "x\n", ""}}},
		{"CR LF", "a\r\n```py\r\nx\r\ny\r\n```\r\n", []block{{1, 4, "python", "x\ny\n", ""}}},
		{"CR", "a\r```py\rx\r```\r", []block{{1, 3, "python", "x\n", ""}}},
		{"a byte order mark", "\ufeff```py\nx\n```\n", []block{{0, 2, "python", "x\n", ""}}},
		{"a byte order mark and indentation", "\ufeff  ```py\n  x\n  ```\n", []block{{0, 2, "python", "x\n", ""}}},
		{"tildes around backticks", "~~~js\n```\n~~~\n", []block{{0, 2, "javascript", "```\n", ""}}},
		{"a longer fence around a shorter one", "````sh\n```\n````\n", []block{{0, 2, "sh", "```\n", ""}}},
		{"a fence in a longer fence is code", "````text\n```py\nx\n```\n````\n", []block{{0, 4, "text", "```py\nx\n```\n", `no language is called "text"`}}},
		{"in a list", "- a\n\n  ```py\n  x\n    y\n  ```\n", []block{{2, 5, "python", "x\n  y\n", ""}}},
		{"as the first thing of an item", "1. ```py\n   x\n   ```\n", []block{{0, 2, "python", "x\n", ""}}},
		{"with tabs", "-\t```py\n\tx\n\t\ty\n\t```\n", []block{{0, 3, "python", "x\n\ty\n", ""}}},
		{"in a quote in a list", "- > ```py\n  > x\n  > ```\n", []block{{0, 2, "python", "x\n", ""}}},
		{"in a callout", "> [!note] T\n> ```py\n> x\n>\n> ```\n", []block{{1, 4, "python", "x\n\n", ""}}},
		{"beside a table", "| a |\n|---|\n| b |\n```py\nx\n```\n| c |\n", []block{{3, 5, "python", "x\n", ""}}},
		{"indented code is none", "    ```py\n    x\n    ```\n", nil},
		{"in HTML", "<!--\n```py\nx\n```\n-->\n", nil},
		{"in a front matter", "---\na: |\n  ```py\n  x\n  ```\n---\n```sh\ny\n```\n", []block{{6, 8, "sh", "y\n", ""}}},
		{"not closed", "```py\nx\n", []block{{0, 1, "python", "x\n", "the fence is not closed"}}},
		{"closed by the end of a quote", "> ```py\n> x\n\n```\ntext\n", []block{{0, 1, "python", "x\n", "the fence is not closed"}, {3, 4, "", "text\n", "the fence names no language"}}},
		{"no language", "```\nx\n```\n", []block{{0, 2, "", "x\n", "the fence names no language"}}},
		{"an unknown language", "```mermaid\nx\n```\n", []block{{0, 2, "mermaid", "x\n", `no language is called "mermaid"`}}},
		{"empty", "```py\n\n```\n", []block{{0, 2, "python", "\n", "there is no code in it"}}},
		{"in a comment", "%%\n```py\nx\n```\n%%\n```sh\ny\n```\n", []block{{1, 3, "python", "x\n", "it is in a comment"}, {5, 7, "sh", "y\n", ""}}},
		{"in a comment that never ends", "%%\n```py\nx\n```\n", []block{{1, 3, "python", "x\n", "it is in a comment"}}},
		{"a comment that ends in a fence", "%%\n```py\nx %%\n```\n", []block{{1, 3, "python", "x %%\n", "it is in a comment"}}},
		{"behind a comment on one line", "%% a %%\n```py\nx\n```\n", []block{{1, 3, "python", "x\n", ""}}},
		{"comment marks in code are none", "`%%` and ``x`%%``\n```py\nx %% 2\n```\n```sh\ny\n```\n", []block{{1, 3, "python", "x %% 2\n", ""}, {4, 6, "sh", "y\n", ""}}},
		{"per cent signs in prose", "100%% sure\n```py\nx\n```\n", []block{{1, 3, "python", "x\n", ""}}},
		{"an unknown attribute", "```py {silk tiemout=5s}\nx\n```\n", []block{{0, 2, "python", "x\n", `no attribute is called "tiemout"; did you mean timeout?`}}},
		{"a value that is none", "```py {silk timeout=soon}\nx\n```\n", []block{{0, 2, "python", "x\n", "attribute timeout: "}}},
		{"an open brace", "```py {silk timeout=5s\nx\n```\n", []block{{0, 2, "python", "x\n", "{silk has no closing brace"}}},
		{"twice", "```py {silk net=deny net=deny}\nx\n```\n", []block{{0, 2, "python", "x\n", "attribute net is given twice"}}},
		{"off", "```py {silk off}\nx\n```\n", []block{{0, 2, "python", "x\n", "it says off"}}},
		{"a note that says off", "---\nsilk: off\n---\n```py\nx\n```\n", []block{{3, 5, "python", "x\n", "it says off"}}},
		{"a note that says off in quotes", "---\n\"silk\": off\n---\n```py\nx\n```\n", []block{{3, 5, "python", "x\n", "it says off"}}},
		{"a note that says off in single quotes", "---\n'silk' : off\n---\n```py\nx\n```\n", []block{{3, 5, "python", "x\n", "it says off"}}},
		{"off in a flow", "---\n{silk: off}\n---\n```py\nx\n```\n", []block{{3, 5, "python", "x\n", "front matter: the key silk is not read in this form; write silk: on a line of its own"}}},
		{"off in an explicit key", "---\n? silk\n: off\n---\n```py\nx\n```\n", []block{{4, 6, "python", "x\n", "front matter: the key silk is not read in this form; write silk: on a line of its own"}}},
		{"a front matter that is wrong", "---\nsilk:\n  timeuot: 5s\n---\n```py\nx\n```\n", []block{{4, 6, "python", "x\n", `front matter: no attribute is called "timeuot"; did you mean timeout?`}}},
		{"auto for a whole note", "---\nsilk: {auto: true}\n---\n```py\nx\n```\n", []block{{3, 5, "python", "x\n", "front matter: auto is said by each block itself"}}},
		{"a front matter that is no YAML, and nothing of ours", "---\n{{date}}: [\n---\n```py\nx\n```\n", []block{{3, 5, "python", "x\n", ""}}},
		{"a result is no block", "```sh\nx\n```\n> [!quote]- silk-sandbox output · ok · exit 0\n> ```text\n> y\n> ```\n> ```py\n> mine\n> ```\n", []block{{0, 2, "sh", "x\n", ""}, {7, 9, "python", "mine\n", ""}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []block
			for _, b := range note.Parse([]byte(test.text)).Blocks {
				if b.Runnable != (b.Reason == "") {
					t.Errorf("runnable %v, reason %q", b.Runnable, b.Reason)
				}
				got = append(got, block{b.Line, b.EndLine, b.Language, b.Code, b.Reason})
			}
			for i := range min(len(got), len(test.want)) {
				if w := test.want[i].Reason; strings.HasSuffix(w, ": ") && strings.HasPrefix(got[i].Reason, w) {
					got[i].Reason = w // the rest is profile's
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// stairs is a list in a list, n deep.
func stairs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(indented(i, "- a\n"))
	}
	return b.String()
}

// indented are lines of text n levels deep in lists.
func indented(n int, text string) string {
	indent := strings.Repeat("  ", n)
	return indent + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+indent) + "\n"
}

// TestLimits: what would take minutes to parse is text, whatever the lines around it are.
func TestLimits(t *testing.T) {
	const block, inList = "```py\nx\n```\n", "- ```py\n  x\n  ```\n"
	deep := strings.Repeat("> ", note.MaxDepth)
	for _, test := range []struct {
		name, text string
		blocks     int
	}{
		{"quotes in quotes", block + strings.Repeat(">", 1<<20) + "\n" + block, 2},
		{"quotes with spaces", block + strings.Repeat(" > ", 1<<19) + "\n" + block, 2},
		{"lists in lists", block + strings.Repeat("- 1. * ", 1<<18) + "\n\n" + block, 2},
		{"as deep as may be", deep + "```py\n" + deep + "x\n" + deep + "```\n", 1},
		{"deeper", deep + "> ```py\n" + deep + "> x\n" + deep + "> ```\n" + block, 1},
		{"lines across the page", block + strings.Repeat("-", 100) + "\n" + strings.Repeat("* ", 100) + "\n" + strings.Repeat(" -", 100) + "\n" + block, 2},
		{"too long", block + strings.Repeat("a\n", note.MaxBytes/2), -1},
		{"a list by its indentation", stairs(31) + indented(31, strings.Repeat(inList, 2)), 2},
		{"a deeper one", stairs(32) + indented(32, strings.Repeat(inList, 2)), 1},
		{"empty lines in a list of lists", stairs(33) + strings.Repeat("\n", 1<<20/32), -1},
		{"not as many", block + stairs(32) + strings.Repeat("\n", 1<<20/32-100), 1},
		{"behind the list", block + stairs(32) + "\nend\n" + strings.Repeat("\n", 1<<20), 1},
		{"a paragraph in lists", strings.Repeat("- ", 32) + strings.Repeat("a\n", 1<<16), -1},
		{"lines of code", block + indented(40, "- x\n") + strings.Repeat("\t\tcode(x)\n\n", 1<<17), 1},
		{"a long list", block + strings.Repeat("- a\n  - b\n", 1<<17), 1},
		{"blocks", strings.Repeat(block, note.MaxBlocks), note.MaxBlocks},
		{"too many blocks", strings.Repeat(block, note.MaxBlocks+1), -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := note.Parse([]byte(test.text))
			if (n.Fault != "") != (test.blocks < 0) || len(n.Blocks) != max(0, test.blocks) {
				t.Errorf("fault %q, %d blocks", n.Fault, len(n.Blocks))
			}
		})
	}
	code := strings.Repeat("> - ", 100) + "x\n"
	if n := note.Parse([]byte("```py\n" + code + "```\n")); n.Blocks[0].Code != code {
		t.Errorf("the code is %q", n.Blocks[0].Code)
	}
	front := "---\nsilk: {args: " + strings.Repeat("x", 4<<10) + "}\n---\n"
	if n := note.Parse([]byte(front + block)); n.Blocks[0].Runnable || n.Blocks[0].Reason != "front matter: the key silk has more than 4 KiB" {
		t.Errorf("with long front matter: %q", n.Blocks[0].Reason)
	}
	const picture = "> ![[silk-01K00000000000000000000000/a.png]]\n"
	n := note.Parse([]byte(block + "> [!quote]- silk-sandbox output · ok\n" + strings.Repeat(picture, 21)))
	if got := n.Blocks[0].Result; len(got.Images) != 20 || got.EndLine != 23 {
		t.Errorf("the result with too many pictures is %+v", got)
	}
}

func TestSettings(t *testing.T) {
	n := note.Parse([]byte("---\ntitle: x\nsilk:\n  timeout: 9s\n  net: loopback\n  no-spawn: true\n  deterministic: false\n---\n" +
		"```py title=\"x\" {1,3} {silk timeout=5s args=\"--name 'a b' \\\"c\" net=a.example:443,b.example:80 auto}\nx\n```\n" +
		"```py {silk net=allow memory=1GiB cpus=0.5 disk=2MiB processes=7 profile=\"my:own\" args=x}\nx\n```\n"))
	if len(n.Blocks) != 2 {
		t.Fatalf("%d blocks", len(n.Blocks))
	}
	if b := n.Blocks[0]; !strings.Contains(b.Reason, "quotation mark") {
		t.Errorf("reason %q", b.Reason)
	}
	b := n.Blocks[1]
	s := b.Settings()
	if !b.Runnable || b.Auto || s.Network != "allow" || s.Limits.Timeout != 9*time.Second || s.Limits.MemoryBytes != 1<<30 || s.Limits.CPUs != 0.5 || s.Limits.WorkspaceBytes != 2<<20 ||
		s.Limits.Processes != 7 || !s.NoSpawn || s.Deterministic || s.Profile != "my:own" || b.Profile != "my:own" || len(s.Args) != 1 {
		t.Errorf("block %+v: %+v", b, s)
	}
	n = note.Parse([]byte("```py {silk args=\"--name 'a b'\" net=\"a.example:443, b.example:80\" auto}\nx\n```\n"))
	b = n.Blocks[0]
	s = b.Settings()
	if !b.Auto || s.Network != "allowlist" || !cmp.Equal(s.Hosts, []string{"a.example:443", "b.example:80"}) || !cmp.Equal(s.Args, []string{"--name", "a b"}) || b.Profile != "lab:python" {
		t.Errorf("block %+v: %+v", b, s)
	}
}

// TestHash: what makes a block another one, and what does not.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		t.Helper()
		n := note.Parse([]byte(text))
		if len(n.Blocks) == 0 {
			t.Fatalf("no block in %q", text)
		}
		return n.Blocks[0].CodeHash
	}
	want := hash("```python {silk timeout=5s net=deny}\nx\n```\n")
	for name, text := range map[string]string{
		"elsewhere": "# T\n- ~~~~py   {silk net=deny   timeout=\"5s\"} \n  x\n  ~~~~\n", "other line endings": "```py {silk timeout=5s net=deny}\r\nx\r\n```\r\n",
		"the same by default": "---\nsilk: {timeout: 5s}\n---\n```py {silk net=deny}\nx\n```\n", "with a result": "```py {silk timeout=5s net=deny}\nx\n```\n> [!quote]- silk-sandbox output · ok\n",
	} {
		if hash(text) != want {
			t.Errorf("%s: another hash", name)
		}
	}
	for name, text := range map[string]string{
		"other code": "```py {silk timeout=5s net=deny}\ny\n```\n", "another attribute": "```py {silk timeout=6s net=deny}\nx\n```\n", "another language": "```js {silk timeout=5s net=deny}\nx\n```\n",
		"without": "```py\nx\n```\n", "off": "```py {silk timeout=5s net=deny off}\nx\n```\n", "by default": "---\nsilk: {memory: 1MiB}\n---\n```py {silk timeout=5s net=deny}\nx\n```\n",
	} {
		if hash(text) == want {
			t.Errorf("%s: the same hash", name)
		}
	}
}

func TestLocate(t *testing.T) {
	const block = "```py\nx\n```\n"
	for _, test := range []struct {
		name        string
		before, now string
		line        int
		want        int // line; -1: not found
	}{
		{"unchanged", "a\n" + block, "a\n" + block, 1, 1},
		{"moved down", block, "a\nb\n" + block, 0, 2},
		{"put into a list", block, "- ```py\n  x\n  ```\n", 0, 0},
		{"deleted", "a\n" + block, "a\n", 1, -1},
		{"edited", block, "```py\ny\n```\n", 0, -1},
		{"the second of two, text above both", block + block, "a\n" + block + block, 3, 4},
		{"the first of two, text above both", block + block, "a\n" + block + block, 0, 1},
		{"the first of two, text between", block + block, block + "a\n" + block, 0, 0},
		{"the second of two, text between", block + block, block + "a\n" + block, 3, 4},
		{"the first of two is deleted", "a\n" + block + "b\n" + block, "a\nb\n" + block, 1, -1},
		{"the second of two is deleted", "a\n" + block + "b\n" + block, "a\n" + block + "b\n", 5, -1},
		{"the first of two stays", "a\n" + block + "b\n" + block, "a\n" + block + "b\n", 1, 1},
		{"a copy is made behind", "a\n" + block + "b\n", "a\n" + block + "b\n" + block, 1, 1},
		{"a copy is made before", "a\n" + block + "b\n", block + "a\n" + block + "b\n", 1, 4},
		{"two that change places with much around", "a\n" + block + "b\n" + block + "c\n", "x\n" + block + "y\n" + block + "z\n", 1, -1},
		{"a line where no block was", block, block, 1, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, now := note.Parse([]byte(test.before)), note.Parse([]byte(test.now))
			i, err := note.Locate(before, now, test.line, note.Parse([]byte(block)).Blocks[0].CodeHash)
			got := -1
			if err == nil {
				got = now.Blocks[i].Line
			}
			if got != test.want {
				t.Errorf("found at line %d, want %d", got, test.want)
			}
		})
	}
}

// FuzzParse: no note is too strange, and results keep their promises in it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"```py\nx\n```", "- ```js {silk timeout=5s}\n  x\n  ```\n> q", "---\nsilk: {net: deny}\n---\n%%\n~~~sh\r\nx\r\n~~~\r\n", "\ufeff> > 1) ```awk\n> >    x\n> >    ```\n"} {
		f.Add([]byte(s), []byte("out ```\n> x\r\x1b[31m"))
	}
	f.Fuzz(func(t *testing.T, text, output []byte) {
		if len(text) > 4<<10 || len(output) > 4<<10 {
			return
		}
		one := 1
		check(t, text, &note.Result{Run: "01M8MV0DH06CVWRW20Q0DREDWD", Outcome: "failed", ExitCode: &one, Stdout: note.Channel{Kept: output}},
			&note.Result{Run: "01M8MV0DH06CVWRW20Q0DREDWE", Outcome: "violated", Rule: "file.accounts", Argument: string(output), Stderr: note.Channel{Kept: output}})
	})
}

// TestClearAll takes several results away at once, as one after the other does.
func TestClearAll(t *testing.T) {
	const text = "```sh\na\n```\n\n> ```sh\n> b\n> ```\n> x\n\n```sh\nc\n```"
	n := note.Parse([]byte(text))
	for i := range n.Blocks {
		n = note.Parse(n.Put(i, &note.Result{Outcome: "ok"}))
	}
	if got := string(n.Clear(0, 1, 2)); got != text {
		t.Errorf("without all: %q", got)
	}
	if got, want := n.Clear(0, 2), note.Parse(n.Clear(0)).Clear(2); string(got) != string(want) || string(got) == text {
		t.Errorf("without two: %q, want %q", got, want)
	}
}

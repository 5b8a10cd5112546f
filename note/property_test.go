package note_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"github.com/silk-sandbox/silk/note"
)

// hostileLines are lines of notes and of output that mean something to somebody.
var hostileLines = []string{
	"", "", "text", "  text  ", "# heading", "===", "---", "***", "- item", "  - inner", "* [ ] task", "1. one", "12) twelve", "-", "> quote", ">", "> > inner", ">lazy", ">\ttab",
	"    indented", "\tindented", "\t\tcode", "```", "````", "~~~", "~~~~~~", "`````text", "```python", "```py {silk timeout=5s}", "~~~~js", "  ```sh", "   ```awk", "- ```py", "1.  ~~~sh", "> ```py", "> - ```py",
	">   ```", "  ```", "\t```", "> > ~~~js", "> ~~~", "```rust", "```c {silk nonsense}", "`inline`", "``two` ticks``",
	"%%", "%% comment %%", "100%% sure", "`%%`", "<!--", "-->", "<!-- one -->", "<div>", "</div>", "<script>alert(1)</script>", "<?php", "?>", "<![CDATA[", "]]>", "<span>",
	"| a | b |", "|---|---|", "[x]: /url", "[x]: <", "[^1]: footnote", "[x]", "![[picture.png]]", "[[link|alias]]", "$$", "^block-id", "#tag", "\\", "text\\",
	"> [!danger] mine", "> [!quote]- silk-sandbox output · ok · exit 0", "> [!quote]+ silk-sandbox output · ok · exit 0 · run 01M8MV0DH06CVWRW20Q0DREDWD", "> ```text", ">> [!widow-red] stderr", ">> ```text", "<!-- silk-sandbox -->", "> silk-sandbox: mine",
	"ملف", "\u202eevil", "é漢字😀", "\ufeff", "a\u2028b", "\x00", "\x7f", "\ue000", "\x1b[31mred\x1b[0m",
}

// hostileBytes are what only output has.
var hostileBytes = []string{
	"\r", "\r\n", "\n", "\n\n", "\b\b", "\t", "\x1b[2K", "\x1b[1A", "\x1b]8;;http://x\x07", "\x1b]0;title", "\x1bP", "\u009b31m", "\xff\xfe", "\xe2\x82", "\x00\x01", "\x1b", "\x1b[", "\u2066", "\U000e0041",
	"10%|#         |\r", "100%|##########|\n", strings.Repeat("`", 40), strings.Repeat("~", 41), strings.Repeat("x", 3000), strings.Repeat("line\n", 300), strings.Repeat(">", 100),
}

func line() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(hostileLines), rapid.SampledFrom(hostileLines), rapid.StringMatching("[ >\t`~*-]{0,6}[a-z%<]{0,3}"))
}

// block is a fenced block of code, well formed, somewhere in lists and quotes.
func block() *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string {
		first := rapid.SampledFrom([]string{"", "", "", " ", "   ", "> ", ">", "- ", "1. ", "12) ", "-\t", "> - ", "- > ", ">\t", "> > ", "- - ", "  ", "\t- ", "> [!note] x\n> "}).Draw(t, "first")
		var before []string
		if head, rest, ok := strings.Cut(first, "\n"); ok {
			before, first = []string{head}, rest
		}
		rest := strings.Map(func(r rune) rune {
			if r == '>' || r == '\t' {
				return r
			}
			return ' '
		}, first)
		fence := strings.Repeat(rapid.SampledFrom([]string{"`", "~"}).Draw(t, "character"), rapid.IntRange(3, 6).Draw(t, "length"))
		info := rapid.SampledFrom([]string{"python", "py {silk timeout=5s}", "js", "sh", " bash", "awk  title=x", "python {silk net=deny args=\"a b\"}", "rust", ""}).Draw(t, "info")
		lines := append(before, first+fence+info)
		for range rapid.IntRange(0, 4).Draw(t, "lines") {
			code := line().Draw(t, "code")
			if !strings.HasPrefix(strings.TrimLeft(code, " \t"), fence) {
				lines = append(lines, rest+code)
			}
		}
		return append(lines, rest+fence+rapid.SampledFrom([]string{"", "", "`", "  "}).Draw(t, "more"))
	})
}

// hostileNote is a note that is likely to have blocks.
func hostileNote() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		var lines []string
		if rapid.IntRange(0, 4).Draw(t, "front matter") == 0 {
			lines = append(lines, "---", "tags: [x]", rapid.SampledFrom([]string{"silk:\n  timeout: 5s", "silk: {net: deny}", "a: b"}).Draw(t, "silk"), "---")
		}
		for range rapid.IntRange(1, 8).Draw(t, "parts") {
			for range rapid.IntRange(0, 4).Draw(t, "lines") {
				lines = append(lines, line().Draw(t, "line"))
			}
			lines = append(lines, block().Draw(t, "block")...)
		}
		for range rapid.IntRange(0, 4).Draw(t, "lines") {
			lines = append(lines, line().Draw(t, "line"))
		}
		ending := rapid.SampledFrom([]string{"\n", "\n", "\n", "\r\n", "\r"}).Draw(t, "ending")
		all := strings.ReplaceAll(strings.Join(lines, "\n"), "\n", ending) + rapid.SampledFrom([]string{ending, ending, "", ending + ending}).Draw(t, "end")
		return []byte(rapid.SampledFrom([]string{"", "", "", "\ufeff"}).Draw(t, "byte order mark") + all)
	})
}

func hostileOutput() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		var b bytes.Buffer
		for range rapid.IntRange(0, 12).Draw(t, "pieces") {
			if rapid.Bool().Draw(t, "bytes") {
				b.WriteString(rapid.SampledFrom(hostileBytes).Draw(t, "bytes"))
			} else {
				b.WriteString(line().Draw(t, "line") + rapid.SampledFrom([]string{"\n", "\r\n", "\r", ""}).Draw(t, "ending"))
			}
		}
		return b.Bytes()
	})
}

func hostileResult() *rapid.Generator[*note.Result] {
	return rapid.Custom(func(t *rapid.T) *note.Result {
		code := rapid.IntRange(0, 3).Draw(t, "code")
		r := &note.Result{
			Run: rapid.StringMatching("01M8[0-9A-HJKMNP-TV-Z]{22}").Draw(t, "run"), Outcome: "ok", ExitCode: &code, Wall: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "wall")),
			Stdout: note.Channel{Kept: hostileOutput().Draw(t, "stdout")}, Stderr: note.Channel{Kept: hostileOutput().Draw(t, "stderr")},
			Stable: rapid.IntRange(0, 3).Draw(t, "stable") == 0,
		}
		if code != 0 {
			r.Outcome = rapid.SampledFrom([]string{"failed", "timeout", "oom", "violated", "denied", "canceled", "error"}).Draw(t, "outcome")
			r.Message, r.Argument = string(hostileOutput().Draw(t, "message")), string(hostileOutput().Draw(t, "argument"))
			r.Rule, r.Syscall = line().Draw(t, "rule"), line().Draw(t, "syscall")
		}
		if rapid.Bool().Draw(t, "truncated") {
			r.Stdout.Truncated, r.Stdout.Bytes = true, 1<<40
			r.Flags = map[string]int64{"pids_limit_hit": 3, "output_truncated": 1}
		}
		if rapid.Bool().Draw(t, "images") {
			r.Images = note.Images("files/pictures", r.Run, []note.Artifact{{Path: line().Draw(t, "artifact") + ".png", MIME: "image/png"}, {Path: "x/" + line().Draw(t, "artifact"), MIME: "image/gif"}})
		}
		if rapid.Bool().Draw(t, "results") {
			table, err := json.Marshal(map[string]any{"columns": []string{line().Draw(t, "column"), "b"}, "rows": [][]string{{line().Draw(t, "cell"), string(hostileOutput().Draw(t, "cell"))}}, "total": 7})
			if err != nil {
				t.Fatal(err)
			}
			r.Results = []note.Shown{
				{Path: ".silk/display/1.table.json", MIME: "application/vnd.silk.table+json", Content: table},
				{Path: ".silk/display/2.txt", MIME: "text/plain", Content: hostileOutput().Draw(t, "text")},
				{Path: ".silk/display/3.html", MIME: "text/html"},
			}
		}
		return r
	})
}

// TestProperties: whatever a note is and whatever a program prints, a result changes nothing but itself.
func TestProperties(t *testing.T) {
	notes, results := hostileNote(), hostileResult()
	rapid.Check(t, func(t *rapid.T) {
		check(t, notes.Draw(t, "note"), results.Draw(t, "result"), results.Draw(t, "next result"))
	})
}

// TestSeeds: the same for 200 notes that are always the same ones.
func TestSeeds(t *testing.T) {
	f, err := os.Open("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	notes, results := hostileNote(), hostileResult()
	seeds, blocks := 0, 0
	for s := bufio.NewScanner(f); s.Scan(); seeds++ {
		seed, err := strconv.Atoi(s.Text())
		if err != nil {
			t.Fatal(err)
		}
		result := results.Example(seed)
		if seed%40 == 0 {
			result.Stdout.Kept = []byte(strings.Repeat("10 MB ```\n> x\r", 10<<20/14))
		}
		blocks += check(t, notes.Example(seed), result, results.Example(seed+1))
	}
	if seeds != 200 || blocks < 200 {
		t.Errorf("%d seeds with %d runnable blocks", seeds, blocks)
	}
}

// check puts results under each runnable block of a note, and returns how many there are.
func check(t rapid.TB, src []byte, r, next *note.Result) (blocks int) {
	t.Helper()
	n := note.Parse(src)
	for i, b := range n.Blocks {
		if !b.Runnable {
			continue
		}
		blocks++
		base := n.Clear(i)
		out := n.Put(i, r)
		m := note.Parse(out)
		if len(m.Blocks) != len(n.Blocks) || m.Blocks[i].CodeHash != b.CodeHash || m.Blocks[i].Result == nil || m.Blocks[i].Line != b.Line {
			t.Fatalf("block %d is not found again:\n%q\nbecame\n%q", i, src, out)
		}
		if want := r.Run; !r.Stable && m.Blocks[i].Result.Run != want {
			t.Errorf("the result is of run %q, not %q", m.Blocks[i].Result.Run, want)
		}
		if got := m.Clear(i); !bytes.Equal(got, base) {
			t.Errorf("block %d: without the result the note is\n%q\nnot\n%q", i, got, base)
		}
		if again := m.Put(i, r); !bytes.Equal(again, out) {
			t.Errorf("block %d: twice is\n%q\nonce is\n%q", i, again, out)
		}
		if back := note.Parse(m.Put(i, next)).Put(i, r); !bytes.Equal(back, out) {
			t.Errorf("block %d: after another result and back it is\n%q\nnot\n%q", i, back, out)
		}
		outside(t, src, out, n.Blocks[i].Result, m.Blocks[i].Result)
		p := m.Blocks[i].Result
		if diff := cmp.Diff(structure(base, nil), structure(out, p)); diff != "" {
			t.Errorf("block %d of\n%q\nwith a result\n%q\nreads otherwise:\n%s", i, base, out, diff)
		}
		ours(t, out, p)
		where(t, n, m, i)
	}
	return blocks
}

// outside checks that all lines but those of the result are as before.
func outside(t rapid.TB, src, out []byte, old, now *note.Place) {
	t.Helper()
	without := func(text []byte, p *note.Place) []string {
		all := lines(text)
		if p == nil {
			return all
		}
		return slices.Delete(all, p.Line, p.EndLine+1)
	}
	if diff := cmp.Diff(without(src, old), without(out, now)); diff != "" {
		t.Errorf("lines outside of the result:\n%s", diff)
	}
}

// lines splits text as CommonMark does.
func lines(text []byte) []string {
	return strings.Split(strings.TrimSuffix(normal(text), "\n"), "\n")
}

func normal(text []byte) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(bytes.TrimPrefix(text, []byte("\ufeff"))))
}

// markdown is a parser that has nothing to do with note's own: another set of extensions, whole documents, inline too.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// structure is what a reader of Markdown sees of a note: blocks, with their text, in their order, but for those on the lines of p.
func structure(src []byte, p *note.Place) []string {
	source := []byte(body(normal(src)))
	doc := markdown.Parser().Parse(text.NewReader(source))
	var out []string
	var visit func(n ast.Node, depth int)
	visit = func(n ast.Node, depth int) {
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			if c.Type() == ast.TypeInline {
				continue
			}
			if at := lineOf(source, c); p != nil && p.Line <= at && at <= p.EndLine {
				continue
			}
			text := fmt.Sprintf("%s%s", strings.Repeat("  ", depth), c.Kind())
			if l, ok := c.(*ast.List); ok {
				text += fmt.Sprintf(" tight=%v start=%d", l.IsTight, l.Start)
			}
			if f, ok := c.(*ast.FencedCodeBlock); ok && f.Info != nil {
				text += fmt.Sprintf(" %q", f.Info.Segment.Value(source))
			}
			if c.Lines() != nil {
				text += fmt.Sprintf(" %q", c.Lines().Value(source))
			}
			out = append(out, text)
			visit(c, depth+1)
		}
	}
	visit(doc, 0)
	return out
}

// body blanks the front matter, as Obsidian takes it away.
func body(src string) string {
	all := strings.Split(src, "\n")
	if strings.TrimRight(all[0], " \t") != "---" {
		return src
	}
	for i, l := range all[1:] {
		if strings.TrimRight(l, " \t") == "---" {
			for j := range i + 2 {
				all[j] = ""
			}
			return strings.Join(all, "\n")
		}
	}
	return src
}

// lineOf is the line where a block begins, or -1.
func lineOf(source []byte, n ast.Node) int {
	at := n.Pos()
	if at < 0 {
		return -1
	}
	return bytes.Count(source[:min(at, len(source))], []byte("\n"))
}

// ours checks that a result is what it should be to a reader: one quote with paragraphs of ours, fences, and the quote of stderr.
func ours(t rapid.TB, out []byte, p *note.Place) {
	t.Helper()
	source := []byte(body(normal(out)))
	doc := markdown.Parser().Parse(text.NewReader(source))
	quotes := 0
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Type() == ast.TypeInline {
			return ast.WalkContinue, nil
		}
		if at := lineOf(source, n); at < p.Line || at > p.EndLine {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Blockquote:
			quotes++
		case *ast.FencedCodeBlock:
		case *ast.Paragraph:
			for l := range strings.Lines(string(n.Lines().Value(source))) {
				if l = strings.TrimRight(l, "\n"); !strings.HasPrefix(l, "[!quote]- silk-sandbox output · ") && !strings.HasPrefix(l, "[!danger] silk-sandbox output · ") &&
					!strings.HasPrefix(l, "silk-sandbox: ") && !strings.HasPrefix(l, "![[files/pictures/silk-") && l != "[!widow-red] stderr" {
					t.Errorf("a paragraph of the result has %q", l)
				}
			}
		case *extast.Table, *extast.TableHeader, *extast.TableRow:
		case *extast.TableCell: // has text, and nothing that means anything
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if c.Kind() != ast.KindText && c.Kind() != ast.KindString {
					t.Errorf("a cell of a table has a %s", c.Kind())
				}
			}
		case *ast.HTMLBlock:
			if got := string(n.Lines().Value(source)); strings.TrimSpace(got) != "<!-- silk-sandbox -->" {
				t.Errorf("the result has HTML %q", got)
			}
		default:
			t.Errorf("the result has a %s", n.Kind())
		}
		return ast.WalkContinue, nil
	})
	if err != nil || quotes < 1 || quotes > 2 {
		t.Errorf("the result has %d quotes; %v", quotes, err)
	}
	for _, l := range lines(out)[p.Line : p.EndLine+1] {
		if i := strings.IndexFunc(l, func(r rune) bool {
			return r < ' ' && r != '\t' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == '\u202e' || r == '\u2066'
		}); i >= 0 {
			t.Errorf("the result has %q", l[i:])
		}
	}
}

// where checks that the block is found again in other versions of the note, or not at all.
func where(t rapid.TB, before, now *note.Note, i int) {
	t.Helper()
	b := before.Blocks[i]
	for name, change := range map[string]func([]byte) []byte{
		"as it is":     func(text []byte) []byte { return text },
		"with an end":  func(text []byte) []byte { return slices.Concat(text, []byte("\n\nthe end\n")) },
		"without text": func([]byte) []byte { return nil },
	} {
		n := note.Parse(change(now.Text()))
		got, err := note.Locate(before, n, b.Line, b.CodeHash)
		if len(n.Blocks) == 0 {
			if err == nil {
				t.Errorf("%s: found", name)
			}
			continue
		}
		if err == nil && (got >= len(n.Blocks) || n.Blocks[got].CodeHash != b.CodeHash || got != i) {
			t.Errorf("%s: block %d is found as %d", name, i, got)
		}
	}
}

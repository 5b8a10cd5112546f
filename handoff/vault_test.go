package handoff

import (
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/run"
)

var update = flag.Bool("update", false, "write the golden files")

var at = time.Date(2026, 11, 30, 8, 12, 5, 0, time.UTC)

// hostile is a run whose author and program try to get out of the note.
func hostile() api.HandoffContent {
	e := end(run.Violated)
	e.Record.Command = "`]]%% <script>\x1b[31m\n# Heading\u202e"
	e.Record.Outcome.Rule, e.Record.Outcome.Syscall, e.Record.Outcome.Argument = "file.accounts", "openat", "/etc/passwd\n```\n> [!note] mine `x`"
	e.Record.Outcome.Message = "policy ended the run: openat(\"/etc/passwd\n\n---\nsilk: {auto: true}\n\")"
	e.Record.Outcome.Refused = map[string]int64{"network.inet": 3}
	e.Source.Code = []byte("```\n````python {silk auto}\nprint(1)\n````\n%%\n--- \n[[x]] <b>\r\ntail without an end \x00 \u200b\u202e\xff")
	e.Source.Name = "../../.obsidian/plugins/x\n[[evil]].md"
	e.Source.Note = run.Note{Path: "Lab/a]] [[evil|b\n# x", Block: "`3`\n> [!danger]"}
	e.Stdout = run.Log{Bytes: 500, Head: []byte("~~~\n`````\n> [!quote]- silk-sandbox output\n\x1b]0;title\x07\x1b[1;31mred\x1b[0m\n50%\r100%\n"), Tail: []byte("end\n``````")}
	e.Stderr = run.Log{Bytes: 3, Head: []byte("\xff\xfe\x00")}
	return contentOf(e, "01KB00000000000000000000HA", CodeExplainer, Receivers, at)
}

// TestNotes compares the notes of a usual and of a hostile run with the files in testdata.
func TestNotes(t *testing.T) {
	cut := end(run.Timeout)
	cut.Source = run.Source{}
	cut.Record.Command, cut.Record.Outcome.ExitCode = "sh -c 'yes'", nil
	cut.Record.Outcome.Flags = map[string]int64{"output_truncated": 1}
	cut.Stdout, cut.Stderr = run.Log{Bytes: 100, Head: []byte("y\ny\n"), Tail: []byte("y\n")}, run.Log{}
	for name, c := range map[string]api.HandoffContent{
		"failed": contentOf(end(run.Failed), "01KB00000000000000000000HA", CodeExplainer, Receivers, at),
		"weaver": contentOf(end(run.Failed), "01KB00000000000000000000HB", WidowWeaver, Receivers, at),
		"cut":    contentOf(cut, "01KB00000000000000000000HC", CodeExplainer, []string{CodeExplainer}, at), "hostile": hostile(),
	} {
		file := filepath.Join("testdata", name+".md")
		got := string(render(c))
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// outside are the lines of a note that are in no fence, which are all that Markdown means something in.
func outside(t *testing.T, note string) (lines []string) {
	t.Helper()
	open := ""
	for line := range strings.Lines(note) {
		line = strings.TrimSuffix(line, "\n")
		marks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case open == "" && len(marks) >= 3:
			open = marks
		case open == "":
			lines = append(lines, line)
		case len(marks) >= len(open) && strings.TrimSpace(line[len(marks):]) == "":
			open = ""
		}
	}
	if open != "" {
		t.Error("a fence is left open")
	}
	return lines
}

// FuzzNote: whatever code, output and names are, the note has the same lines outside of fences as that of a harmless run, in
// which what is not ours stands in code spans; and nothing in it is hidden.
func FuzzNote(f *testing.F) {
	h := hostile()
	f.Add(bytesOf(h.Code.Text, h.Code.B64), bytesOf(h.Log.Stdout.Text, h.Log.Stdout.B64), h.Command, h.Note, h.Block)
	f.Add([]byte("`"), []byte("```"), "``", "a.md", "")
	f.Add([]byte("\r"), []byte("\u2028```\u2029"), "\r# x", "a\rb", "\x1b[")
	f.Fuzz(func(t *testing.T, code, output []byte, command, note, block string) {
		e := end(run.Failed)
		e.Record.Command, e.Record.Outcome.Message = command, command
		e.Source.Code, e.Source.Bytes, e.Source.Name = code, int64(len(code)), command
		e.Source.Note = run.Note{Path: note, Block: block}
		e.Stdout = run.Log{Bytes: int64(len(output)), Head: output}
		text := string(render(contentOf(e, "01KB00000000000000000000HA", CodeExplainer, Receivers, at)))
		if i := strings.IndexFunc(text, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
		}); i >= 0 || !utf8.ValidString(text) {
			t.Errorf("%q is in the note", text[i:min(len(text), i+10)])
		}
		var shape []string
		for _, line := range outside(t, text) {
			if strings.HasPrefix(line, "## ") || strings.HasPrefix(line, "> [!") || strings.HasPrefix(line, "#") || line == "---" || strings.HasPrefix(line, "silk:") {
				shape = append(shape, line)
			}
			if rest := withoutSpans(line); strings.Contains(rest, "[[") && !strings.HasPrefix(line, "- From: [[") && !strings.HasPrefix(line, "- Widow_Weaver: [[") && !strings.HasPrefix(line, "note: ") ||
				strings.Contains(rest, "<") {
				t.Errorf("line %q has what is not ours outside of a code span", line)
			}
		}
		if len(shape) < 8 || len(shape) > 9 || shape[0] != "---" || shape[1] != "silk: off" || shape[2] != "---" || !strings.HasPrefix(shape[3], "# failed · `") || shape[5] != "## Code" || shape[6] != "## Log" {
			t.Errorf("the note has the shape %q", shape)
		}
	})
}

// withoutSpans is a line without its code spans.
func withoutSpans(line string) string {
	var b strings.Builder
	for line != "" {
		text, rest, ok := strings.Cut(line, "`")
		b.WriteString(text)
		if !ok {
			return b.String()
		}
		rest = "`" + rest
		marks := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		body := rest[len(marks):]
		end := -1
		for i := 0; i < len(body); {
			n := len(body[i:]) - len(strings.TrimLeft(body[i:], "`"))
			if n == len(marks) {
				end = i + n
				break
			}
			i += max(n, 1)
		}
		if end < 0 {
			b.WriteString(marks)
			line = body
			continue
		}
		line = body[end:]
	}
	return b.String()
}

// FuzzNotePath: the name of a file is one in its folder that every file system takes, whatever the code is called.
func FuzzNotePath(f *testing.F) {
	for _, s := range []string{"main.py", "", "..", "../../x", "a/b", "CON", "x.md.", "  ", "[[x]]", "\u202egpj.exe", "\x00", "a:b", strings.Repeat("ä", 300), "\xff\xfe", "ㅤ", "~", "-rf", "a\nb", "#^|"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, name, command string) {
		e := end(run.Failed)
		e.Source.Name, e.Record.Command = name, command
		got := NotePath(contentOf(e, "01X", CodeExplainer, Receivers, at))
		folder, file := path.Split(got)
		if folder != "Code_Explainer/" || !filepath.IsLocal(got) || path.Clean(got) != got || len(file) > 140 || !utf8.ValidString(file) || !strings.HasPrefix(file, "2026-11-30 08.12.05 failed ") ||
			!strings.HasSuffix(file, " "+runID+".md") || strings.ContainsAny(file, "[]|#^\\:*?\"<>/%") || strings.Contains(file, "..") ||
			strings.IndexFunc(file, func(r rune) bool { return !unicode.IsPrint(r) || unicode.Is(unicode.Cf, r) }) >= 0 {
			t.Errorf("%q", got)
		}
		if stem := strings.Fields(file)[3]; strings.HasPrefix(stem, ".") || strings.HasPrefix(stem, "-") {
			t.Errorf("%q has a name that begins with %q", got, stem)
		}
	})
}

// tree is every file below dir.
func tree(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, name)
			files = append(files, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

func TestVault(t *testing.T) {
	s := newStand(t)
	testenv.NoLeaks(t)
	vault := t.TempDir()
	o := s.outbox(Config{Sinks: []Sink{{Name: "notes", Vault: vault}}})
	s.put(o, end(run.Failed))
	if d, f, _ := s.deliver(o); d != 2 || f != 0 {
		t.Fatalf("%d delivered, %d failed", d, f)
	}
	code, log := NotePath(*s.to(CodeExplainer).Content), NotePath(*s.to(WidowWeaver).Content)
	if diff := cmp.Diff([]string{code, log}, tree(t, vault)); diff != "" {
		t.Fatal(diff)
	}
	text, err := os.ReadFile(filepath.Join(vault, code))
	if err != nil || !strings.Contains(string(text), "[["+strings.TrimSuffix(log, ".md")+"]]") {
		t.Errorf("the note does not lead to the other one: %v\n%s", err, text)
	}
	// Who works on the note keeps what they wrote, whatever is delivered again.
	if err := os.WriteFile(filepath.Join(vault, code), []byte("explained"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := o.Retry(t.Context(), s.db, s.to(CodeExplainer).ID); err != nil {
		t.Fatal(err)
	}
	if d, _, _ := s.deliver(o); d != 1 {
		t.Error("it was not delivered again")
	}
	if text, err := os.ReadFile(filepath.Join(vault, code)); err != nil || string(text) != "explained" {
		t.Errorf("the note is %q, %v", text, err)
	}
}

// TestVaultAway: a vault that is not there is not made, and gets its notes when it is.
func TestVaultAway(t *testing.T) {
	s := newStand(t)
	vault := filepath.Join(t.TempDir(), "disk", "vault")
	o := s.outbox(Config{Sinks: []Sink{{Name: "notes", Vault: vault}}})
	s.put(o, end(run.Failed))
	if d, f, _ := s.deliver(o); d != 0 || f != 2 {
		t.Errorf("%d delivered, %d failed", d, f)
	}
	if _, err := os.Stat(filepath.Dir(vault)); err == nil {
		t.Error("it was made")
	}
	if err := os.MkdirAll(vault, 0o755); err != nil {
		t.Fatal(err)
	}
	s.turn(6 * time.Second)
	if d, f, _ := s.deliver(o); d != 2 || f != 0 {
		t.Errorf("%d delivered, %d failed", d, f)
	}
}

// TestNothingOutside: links in a vault lead nowhere else, and what a killed attempt left is cleared away.
func TestNothingOutside(t *testing.T) {
	c := contentOf(end(run.Failed), "01KB00000000000000000000HA", CodeExplainer, Receivers, at)
	name := NotePath(c)
	for _, test := range []struct {
		name    string
		prepare func(vault, outside string) error
		fails   bool
		files   []string
	}{
		{"the folder is a link outside", func(vault, outside string) error { return os.Symlink(outside, filepath.Join(vault, "Code_Explainer")) }, true, []string{"Code_Explainer"}},
		{"the folder is a link inside", func(vault, _ string) error {
			return os.Symlink("inbox", filepath.Join(vault, "Code_Explainer"))
		}, false, []string{"Code_Explainer", path.Join("inbox", path.Base(name))}},
		{"the folder is a file", func(vault, _ string) error {
			return os.WriteFile(filepath.Join(vault, "Code_Explainer"), nil, 0o644)
		}, true, []string{"Code_Explainer"}},
		{"the note is a link outside", func(vault, outside string) error {
			if err := os.Mkdir(filepath.Join(vault, "Code_Explainer"), 0o755); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(outside, "new.md"), filepath.Join(vault, name))
		}, false, []string{name}},
		{"a temporary file is left, and a link outside", func(vault, outside string) error {
			if err := os.Mkdir(filepath.Join(vault, "Code_Explainer"), 0o755); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(outside, "new.md"), filepath.Join(vault, "Code_Explainer", ".silk-"+c.ID+".tmp"))
		}, false, []string{name}},
		{"a directory has the name of the note", func(vault, _ string) error { return os.MkdirAll(filepath.Join(vault, name), 0o755) }, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			vault, outside := t.TempDir(), t.TempDir()
			if err := os.Mkdir(filepath.Join(vault, "inbox"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := test.prepare(vault, outside); err != nil {
				t.Fatal(err)
			}
			if err := writeNote(vault, c); (err != nil) != test.fails {
				t.Errorf("got %v, want an error: %t", err, test.fails)
			}
			if diff := cmp.Diff(test.files, tree(t, vault)); diff != "" {
				t.Error(diff)
			}
			if files := tree(t, outside); len(files) != 0 {
				t.Errorf("outside of the vault there is %q", files)
			}
		})
	}
}

// TestLinkTarget: only a plain path becomes a link.
func TestLinkTarget(t *testing.T) {
	for note, want := range map[string]string{
		"Tour.md": "Tour", "Lab/Tour ä 노트.md": "Lab/Tour ä 노트", "no extension": "no extension", "a.md.md": "a.md",
		"": "", ".md": "", "/etc/passwd": "", "../x.md": "", "a/../b": "", "..": "", "a]] [[b": "", "a|b": "", "a#b": "", "a^b": "", "<b>": "", "a\nb": "", "a\\b": "", "a\u202eb": "", "a%%b": "",
		"`a`": "", " a": "", "a:b": "", "obsidian://open": "", strings.Repeat("a", maxSpan+1): "", "a\x00": "",
	} {
		if got, ok := linkTarget(note); got != want || ok != (want != "") {
			t.Errorf("linkTarget(%q) = %q, %t, want %q", note, got, ok, want)
		}
	}
}

// TestPlaceAfterAKill: who was killed between its link and the removal of what it linked has delivered, and left a second name.
func TestPlaceAfterAKill(t *testing.T) {
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, name := range []string{"note.md", ".note.tmp"} {
		if err := dir.WriteFile(name, []byte("delivered"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	owner, err := dir.Stat(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := place(dir, "note.md", ".note.tmp", []byte("again"), owner); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Lstat(".note.tmp"); err == nil {
		t.Error("the temporary file is still there")
	}
	if text, err := dir.ReadFile("note.md"); string(text) != "delivered" || err != nil {
		t.Errorf("the note is %q, %v", text, err)
	}
}

package handoff

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/api"
)

// render is the note of a hand-off. What others wrote stands in fences and code spans alone, in the front matter as quoted strings,
// and as the target of a link where it is a plain path. `silk: off` and `off` keep the code from being run from here.
func render(c api.HandoffContent) []byte {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("---\nsilk: off\nhandoff: %s\nreceiver: %s\nrun: %s\noutcome: %s\ncreated: %s", yamlText(c.ID), yamlText(c.Receiver), yamlText(c.Run), yamlText(c.Outcome.Kind),
		time.UnixMilli(c.CreatedAtMs).UTC().Format("2006-01-02T15:04:05Z"))
	line("profile: %s", yamlText(c.Profile))
	if c.Language != "" {
		line("language: %s", yamlText(c.Language))
	}
	if target, ok := linkTarget(c.Note); ok {
		line("note: %s", yamlText("[["+target+"]]"))
	} else if c.Note != "" {
		line("note: %s", yamlText(c.Note))
	}
	line("---\n")
	line("# %s · %s\n", plainName(c.Outcome.Kind, 16), span(c.Name))
	callout(line, c)
	links(line, c)
	violations(line, c)
	if c.Code != nil {
		code(line, c)
	}
	line("## Log\n")
	channel(line, "stderr", c.Log.Stderr)
	channel(line, "stdout", c.Log.Stdout)
	return []byte(b.String())
}

type liner = func(format string, args ...any)

// callout is the end of the run in short.
func callout(line liner, c api.HandoffContent) {
	kind := "danger"
	if c.Outcome.Kind == "violated" {
		kind = "widow-red"
	}
	parts := []string{plainName(c.Outcome.Kind, 16)}
	if c.Outcome.Rule != "" {
		parts = append(parts, span(c.Outcome.Rule))
	}
	switch {
	case c.Outcome.Signal != 0:
		parts = append(parts, "signal "+strconv.Itoa(c.Outcome.Signal))
	case c.Outcome.ExitCode != nil:
		parts = append(parts, "exit "+strconv.Itoa(*c.Outcome.ExitCode))
	}
	parts = append(parts, strconv.FormatInt(c.Outcome.WallMs, 10)+" ms", "run "+plainName(c.Run, 26))
	line("> [!%s] %s", kind, strings.Join(parts, " · "))
	if c.Outcome.Message != "" {
		line("> %s", span(c.Outcome.Message))
	}
	for _, flag := range slices.Sorted(maps.Keys(c.Outcome.Flags)) {
		line("> limit hit: %s %d", span(flag), c.Outcome.Flags[flag])
	}
	line("")
}

// links lead to where the code is from, to the other note, and to what silk knows of the run.
func links(line liner, c api.HandoffContent) {
	if target, ok := linkTarget(c.Note); ok {
		line("- From: [[%s]]", target)
	} else if c.Note != "" {
		line("- From: %s", span(c.Note))
	}
	if c.Block != "" {
		line("- Block: %s", span(c.Block))
	}
	for _, other := range c.Receivers {
		if other != c.Receiver && folders[other] != "" {
			line("- %s: [[%s]]", folders[other], strings.TrimSuffix(notePath(c, other), ".md"))
		}
	}
	if c.Command != "" {
		line("- Command: %s", span(c.Command))
	}
	line("- Profile: %s", span(c.Profile))
	if c.Image != "" {
		line("- Image: %s", span(c.Image))
	}
	line("- Record: %s", span("silk runs show "+c.Run))
	line("- When it is dealt with: %s\n", span("silk handoffs ack "+c.ID))
}

func violations(line liner, c api.HandoffContent) {
	if len(c.Violations) == 0 {
		return
	}
	line("## Violations\n")
	for _, v := range c.Violations {
		switch {
		case v.Ended && v.Syscall == "":
			line("- %s ended the run", span(v.Rule))
		case v.Ended:
			line("- %s ended the run at %s", span(v.Rule), span(v.Syscall+"("+strconv.Quote(v.Argument)+")"))
		default:
			line("- %s refused %d calls", span(v.Rule), v.Count)
		}
	}
	line("")
}

func code(line liner, c api.HandoffContent) {
	line("## Code\n")
	name := ""
	if c.Code.Name != "" {
		name = span(c.Code.Name) + ", "
	}
	line("%s%d bytes, SHA-256 %s\n", name, c.Code.Bytes, span(or(c.Code.SHA256, "unknown")))
	if c.Code.Omitted != "" {
		line("Not whole: %s\n", span(c.Code.Omitted))
	}
	language := "text"
	if fenceWord.MatchString(c.Language) {
		language = c.Language
	}
	if c.Code.Text != nil || c.Code.B64 != nil {
		line("%s", fence(bytesOf(c.Code.Text, c.Code.B64), language+" {silk off}"))
	}
}

// fenceWord is a language as the first word after a fence.
var fenceWord = regexp.MustCompile(`^[a-z][a-z0-9+#-]{0,19}$`)

func channel(line liner, name string, c api.HandoffChannel) {
	line("### %s\n", name)
	if c.Bytes == 0 {
		line("Nothing was printed.\n")
		return
	}
	line("%s", fence(bytesOf(c.Text, c.B64), "text {silk off}"))
	if c.Omitted > 0 {
		line("%d of %d bytes are left out here.\n", c.Omitted, c.Bytes)
	}
	if c.Tail != nil || c.TailB64 != nil {
		line("%s", fence(bytesOf(c.Tail, c.TailB64), "text {silk off}"))
	}
}

// fence is text between fences that nothing in it ends, with an empty line after.
func fence(text []byte, info string) string {
	shown := visible(text)
	longest, n := 2, 0
	for _, r := range shown {
		if r != '`' {
			n = 0
			continue
		}
		n++
		longest = max(longest, n)
	}
	mark := strings.Repeat("`", longest+1)
	if shown != "" && !strings.HasSuffix(shown, "\n") {
		shown += "\n"
	}
	return mark + info + "\n" + shown + mark + "\n"
}

// span is text as code within a line.
func span(text string) string {
	shown := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, visible([]byte(text)))
	if len(shown) > maxSpan {
		shown = strings.ToValidUTF8(shown[:maxSpan], "") + "…"
	}
	longest, n := 0, 0
	for _, r := range shown {
		if r != '`' {
			n = 0
			continue
		}
		n++
		longest = max(longest, n)
	}
	mark := strings.Repeat("`", longest+1)
	if strings.TrimSpace(shown) == "" || strings.HasPrefix(shown, "`") || strings.HasSuffix(shown, "`") || strings.HasPrefix(shown, " ") && strings.HasSuffix(shown, " ") {
		shown = " " + shown + " " // one space at each end does not count: https://spec.commonmark.org/0.31.2/#code-spans
	}
	return mark + shown + mark
}

// maxSpan bounds what stands within a line.
const maxSpan = 500

// visible is text in which nothing is hidden: terminals' escape sequences are gone, an end of a line is a line feed, and other
// control characters, and those that turn the reading direction or cannot be seen, are their numbers.
func visible(text []byte) string {
	var b strings.Builder
	for len(text) > 0 {
		if n := sequence(text); n > 0 {
			text = text[n:]
			continue
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\r' && len(text) > 1 && text[1] == '\n':
		case r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			b.WriteByte('\n')
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || unseen(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		text = text[n:]
	}
	return b.String()
}

// sequence is the length of the escape sequence that text begins with (ECMA-48 section 5.4, 5.6, and ctlseqs of xterm), or 0.
func sequence(text []byte) int {
	if text[0] != '\x1b' || len(text) < 2 {
		return 0
	}
	m := escapes.FindIndex(text[:min(len(text), maxSequence)])
	if m == nil {
		return 0
	}
	return m[1]
}

// maxSequence bounds an escape sequence: one without an end hides nothing.
const maxSequence = 256

var escapes = regexp.MustCompile(`^\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-OQ-WYZ\\` + "`" + `-~])`)

// linkTarget is the path of a note as the target of a link, without .md, if it is a plain one: a wikilink has no escapes.
func linkTarget(note string) (target string, ok bool) {
	target = strings.TrimSuffix(note, ".md")
	if target == "" || len(target) > maxSpan || path.Clean(target) != target || path.IsAbs(target) || target == ".." || strings.HasPrefix(target, "../") || target == "." {
		return "", false
	}
	if strings.ContainsAny(target, "[]|#^<>\\:\"*?`%") || visible([]byte(target)) != target || strings.ContainsAny(target, "\n\t") || strings.TrimSpace(target) != target {
		return "", false
	}
	return target, true
}

// yamlText is text as a scalar of YAML: its double-quoted ones have the escapes of JSON (https://yaml.org/spec/1.2.2/#example-json).
func yamlText(text string) string {
	quoted, err := json.Marshal(visible([]byte(text)))
	if err != nil { // of a string: never
		return `""`
	}
	return string(quoted)
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// Visible is code or output of a hand-off, which is in one of two fields, as text that neither steers a terminal nor hides anything:
// escape sequences are gone, other control characters and those that cannot be seen are their numbers, and its last line has an end.
func Visible(text, b64 *string) string {
	shown := visible(bytesOf(text, b64))
	if shown != "" && !strings.HasSuffix(shown, "\n") {
		shown += "\n"
	}
	return shown
}

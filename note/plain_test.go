package note

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestPlainLong reads what would take minutes if it were not linear in the output.
func TestPlainLong(t *testing.T) {
	begin := time.Now()
	for _, part := range []string{"\x1b]", "\x1bP", "\u0090", "\x1b[2K\x1b[Da", "\x1b[2K\x1b[1999Ga"} {
		plain([]byte(strings.Repeat(part, 32<<20/len(part))), usual)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it takes %v", took)
	}
	const one, other = "\x1b]0;a\x1b]1;b", "\x07c"
	if got := plain([]byte(one+other), usual).head; !slices.Equal(got, []string{"c"}) {
		t.Errorf("a title in a title: %q", got)
	}
	if got := plain([]byte("\x1b]0;a\n\x1b]1;b\x07c"), usual).head; !slices.Equal(got, []string{"0;a", "c"}) {
		t.Errorf("a title that ends after one that does not: %q", got)
	}
	never := "\x1b]" + strings.Repeat("x", 5000)
	if got := plain([]byte(never+"\x1b]0;t\x07end"), window{headLines: 1, headBytes: 1 << 20, columns: 1 << 20}).head; got[0] != never[2:]+"end" {
		t.Errorf("a title that ends after a long one that does not: %.20q", got)
	}
}

// TestPlain: what of output a note shows.
func TestPlain(t *testing.T) {
	var tqdm strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&tqdm, "\r%3d%%|%-10s| %d/1000", i/10, strings.Repeat("#", i/100), i)
	}
	for _, test := range []struct{ name, output, want string }{
		{"text", "a\nb\n", "a\nb"},
		{"no last line ending", "a\nb", "a\nb"},
		{"empty lines", "\na\n\n", "\na\n"},
		{"R65: a bar of 1000 steps shows its last state", tqdm.String() + "\ndone\n", "100%|##########| 1000/1000\ndone"},
		{"R65: colours", "\x1b[1;31mred\x1b[0m plain\x1b[K\n", "red plain"},
		{"a shorter text over a longer one", "hello world\rbye", "byelo world"},
		{"erased before it is written again", "hello world\r\x1b[2Kbye", "bye"},
		{"erased to the end", "hello world\x1b[6D\x1b[Kx", "hellox"},
		{"backspace", "ab\b\bc\n", "cb"},
		{"CR LF", "a\r\nb\r\n", "a\nb"},
		{"a title of the window", "\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"},
		{"a title that never ends hides nothing", "\x1b]0;title\nb", "0;title\nb"},
		{"control codes", "a\x00\x01\x07\x7f\u0085b\u009b31mc", "a\nbc"},
		{"characters that turn the direction", "a\u202eb\u2066c\ufeff\u200fd", "abc\u200fd"},
		{"hidden tags", "a\U000e0041\U000e0042b", "ab"},
		{"R17: bytes that are cut", "caf\xc3\xa9\xe2\x98", "café\ufffd\ufffd"},
		{"letters of all kinds", "é漢字😀 ملف\n", "é漢字😀 ملف"},
		{"line separators", "a\u2028b", "a b"},
		{"tabs", "a\tb", "a\tb"},
		{"a column far away", "\x1b[999999999999Ga\x1b[5Cb", "…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := plain([]byte(test.output), window{headLines: 9, headBytes: 1000, tailLines: 1, tailBytes: 1000, columns: 80})
			got := strings.Join(append(s.head, s.tail...), "\n")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPlainBounded: much output is its begin and its end, with the number of lines between.
func TestPlainBounded(t *testing.T) {
	var b strings.Builder
	const lines = 1_000_000
	for i := range lines {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	s := plain([]byte(b.String()), usual)
	if len(s.head) != usual.headLines || len(s.tail) != usual.tailLines || len(s.head)+len(s.tail)+s.omitted != lines || s.head[0] != "line 0" || s.tail[len(s.tail)-1] != fmt.Sprint("line ", lines-1) {
		t.Errorf("%d and %d lines, %d omitted, the last one %q", len(s.head), len(s.tail), s.omitted, s.tail[len(s.tail)-1])
	}
	s = plain([]byte(strings.Repeat("x", 10<<20)), usual)
	if !s.shortened || len(s.head) != 1 || utf8.RuneCountInString(s.head[0]) != usual.columns+1 {
		t.Errorf("one long line: %d lines, shortened %v", len(s.head), s.shortened)
	}
	s = plain([]byte(strings.Repeat(strings.Repeat("y", 1900)+"\n", 1000)), usual)
	size := 0
	for _, l := range append(s.head, s.tail...) {
		size += len(l)
	}
	if size > usual.headBytes+usual.tailBytes || size < usual.headBytes {
		t.Errorf("long lines: %d bytes", size)
	}
}

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"a\r\x1b[2Kb\n", "\x1b]0;x\x07", "\u009b\u0090\xff", strings.Repeat("\n", 300)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		s := plain(p, window{headLines: 3, headBytes: 100, tailLines: 2, tailBytes: 100, columns: 20})
		if len(s.head) > 3 || len(s.tail) > 2 || s.omitted < 0 {
			t.Errorf("%d and %d lines, %d omitted", len(s.head), len(s.tail), s.omitted)
		}
		for _, l := range append(s.head, s.tail...) {
			if !utf8.ValidString(l) || utf8.RuneCountInString(l) > 21 || strings.ContainsFunc(l, func(r rune) bool { return r != '\t' && hidden(r) }) {
				t.Errorf("line %q", l)
			}
		}
	})
}

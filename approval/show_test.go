package approval

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestShow(t *testing.T) {
	for _, test := range []struct{ name, code, want string }{
		{"plain code", "def f():\n\treturn 'ä漢😀'\n", "def f():\n\treturn 'ä漢😀'\n"},
		{"nothing", "", ""},
		{"a comment that hides code (CVE-2021-42574)", "/*\u202e } \u2066if (isAdmin)\u2069 \u2066 begin admins only */", "/*⟨U+202E⟩ } ⟨U+2066⟩if (isAdmin)⟨U+2069⟩ ⟨U+2066⟩ begin admins only */"},
		{"a mark that is written out", "x = '⟨U+202E⟩'", "x = '⟨U+27E8⟩U+202E⟨U+27E9⟩'"},
		{"a carriage return, which python takes for a line break", "# comment\rimport os\n", "# comment⟨U+000D⟩import os\n"},
		{"a line separator, which JavaScript takes for one", "// comment\u2028evil()", "// comment⟨U+2028⟩evil()"},
		{"next line", "a\u0085b", "a⟨U+0085⟩b"},
		{"vertical tab and form feed", "a\v\fb", "a⟨U+000B⟩⟨U+000C⟩b"},
		{"escape sequences", "\x1b[8mhidden\x1b[0m \u009b8m", "⟨U+001B⟩[8mhidden⟨U+001B⟩[0m ⟨U+009B⟩8m"},
		{"NUL and DEL", "a\x00b\x7f", "a⟨U+0000⟩b⟨U+007F⟩"},
		{"bytes that are no UTF-8", "a\xff\xc3b", "a⟨0xFF⟩⟨0xC3⟩b"},
		{"the replacement character itself", "\ufffd", "\ufffd"},
		{"a surrogate in UTF-8", "\xed\xa0\x80", "⟨0xED⟩⟨0xA0⟩⟨0x80⟩"},
		{"an overlong slash", "\xc0\xaf", "⟨0xC0⟩⟨0xAF⟩"},
		{"zero width", "a\u200bb\u200dc\ufeffd\u2060e", "a⟨U+200B⟩b⟨U+200D⟩c⟨U+FEFF⟩d⟨U+2060⟩e"},
		{"soft hyphen", "a\u00adb", "a⟨U+00AD⟩b"},
		{"a space that does not break", "a\u00a0b\u3000c", "a⟨U+00A0⟩b⟨U+3000⟩c"},
		{"a letter that is drawn as nothing", "const \u3164 = \u115f\u1160\uffa0", "const ⟨U+3164⟩ = ⟨U+115F⟩⟨U+1160⟩⟨U+FFA0⟩"},
		{"braille blank", "a\u2800b", "a⟨U+2800⟩b"},
		{"variation selectors", "a\ufe0fb\U000e0101", "a⟨U+FE0F⟩b⟨U+E0101⟩"},
		{"tags", "a\U000e0041", "a⟨U+E0041⟩"},
		{"grapheme joiner", "a\u034fb", "a⟨U+034F⟩b"},
		{"private use", "\ue000\U0010fffd", "⟨U+E000⟩⟨U+10FFFD⟩"},
		{"accents on letters", "e\u0301 ü\u0304 กี่ คิ", "e\u0301 ü\u0304 กี่ คิ"},
		{"an accent on nothing", "\u0301a +\u0338=", "⟨U+0301⟩a +⟨U+0338⟩="},
		{"accents in a heap", "a\u0301\u0302\u0303\u0304b", "a\u0301\u0302\u0303⟨U+0304⟩b"},
		{"accents over a line break", "a\n\u0301b", "a\n⟨U+0301⟩b"},
		{"an accent on a mark of ours", "\u200b\u0301", "⟨U+200B⟩⟨U+0301⟩"},
	} {
		got, omitted := Show(test.code)
		if got != test.want || omitted != "" {
			t.Errorf("%s: %+q, %s; want %+q", test.name, got, omitted, test.want)
		}
	}
}

func TestShowSaysWhatIsMissing(t *testing.T) {
	lines := strings.Repeat("print(1)\n", MaxCodeBytes/9+1) // a little too long, and the bound is inside a line
	for _, test := range []struct {
		name, code, want, omitted string
	}{
		{"as long as can be", strings.Repeat("x", MaxCodeBytes), strings.Repeat("x", MaxCodeBytes), ""},
		{"one byte more", strings.Repeat("x", MaxCodeBytes+1), strings.Repeat("x", MaxCodeBytes), "only the first 262144 of 262145 bytes are shown"},
		{"cut at the end of a line", lines, strings.Repeat("print(1)\n", MaxCodeBytes/9), fmt.Sprintf("only the first %d of %d bytes are shown", MaxCodeBytes/9*9, len(lines))},
		{"not cut inside a character", "x" + strings.Repeat("ä", MaxCodeBytes/2), "x" + strings.Repeat("ä", MaxCodeBytes/2-1), "only the first 262143 of 262145 bytes are shown"},
		{"broken bytes at the bound", strings.Repeat("x", MaxCodeBytes-1) + "\x80\x80\x80", strings.Repeat("x", MaxCodeBytes-2), "only the first 262142 of 262146 bytes are shown"},
		{"no text", "\x7fELF\x02\x01\x01" + strings.Repeat("\x00\xff\x01", 50), "", "no text: 157 bytes, not shown"},
		{"text with few strange characters", strings.Repeat("\x00", 16), strings.Repeat("⟨U+0000⟩", 16), ""},
		{"text with a third of them", strings.Repeat("\x00ab", 100), strings.Repeat("⟨U+0000⟩ab", 100), ""},
		{"a word of another alphabet", strings.Repeat("漢字", 100), strings.Repeat("漢字", 100), ""},
		{"Windows lines", strings.Repeat("\r\n", 100), strings.Repeat("⟨U+000D⟩\n", 100), ""},
	} {
		got, omitted := Show(test.code)
		if got != test.want || omitted != test.omitted {
			t.Errorf("%s: %d bytes, %q; want %d, %q", test.name, len(got), omitted, len(test.want), test.omitted)
		}
	}
}

func TestSubject(t *testing.T) {
	for _, test := range []struct{ profile, name, want string }{
		{"lab:python", "main.py", "lab:python main.py"},
		{"lab:text", "", "lab:text"},
		{"lab:python", "\u202eyp.niam", "lab:python ⟨U+202E⟩yp.niam"},
		{"lab:python", "⟨U+202E⟩yp.niam", "lab:python ⟨U+27E8⟩U+202E⟨U+27E9⟩yp.niam"},
	} {
		got := Subject(test.profile, test.name)
		if got != test.want || !isVisible(got) {
			t.Errorf("Subject(%q, %q) = %q", test.profile, test.name, got)
		}
	}
}

// unshow is what was shown.
func unshow(t *testing.T, shown string) string {
	return mark.ReplaceAllStringFunc(shown, func(m string) string {
		m = strings.Trim(m, "⟨⟩")
		if hex, ok := strings.CutPrefix(m, "0x"); ok {
			n, err := strconv.ParseUint(hex, 16, 8)
			if err != nil {
				t.Errorf("mark %s: %v", m, err)
			}
			return string([]byte{byte(n)})
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(m, "U+"), 16, 32)
		if err != nil {
			t.Errorf("mark %s: %v", m, err)
		}
		return string(rune(n))
	})
}

// What is shown is printable and leads back to the code, so no two codes look the same.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "plain ä 漢", "⟨U+202E⟩", "⟨⟨⟩", "\u202e\xff\xc3\u0301", "a\u0301\u0302\u0303\u0304", "\xed\xa0\x80\ufffd", "\u3164\ufe0f\U000e0001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shown := visible(s)
		if !utf8.ValidString(shown) {
			t.Errorf("%q is shown as %q, which is no UTF-8", s, shown)
		}
		for _, r := range shown {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				t.Errorf("%q is shown with %U in it", s, r)
			}
		}
		if got := unshow(t, shown); got != s {
			t.Errorf("%q is shown as %q, which is %q", s, shown, got)
		}
		if !isVisible(shown) {
			t.Errorf("%q is shown as %q, which is not taken for visible", s, shown)
		}
	})
}

func TestWarnings(t *testing.T) {
	for _, test := range []struct {
		name, code string
		want       []string
	}{
		{"plain code", "print('ä')\n", nil},
		{"nothing", "", nil},
		{"steering characters", "a\u202eb\u202ec\u2066", []string{"3 characters are invisible or steering how others are shown: ⟨U+202E⟩, ⟨U+2066⟩"}},
		{"many of them", "\u200b\u200c\u200d\u200e\u200f\u2060\u2061", []string{"7 characters are invisible or steering how others are shown: ⟨U+200B⟩, ⟨U+200C⟩, ⟨U+200D⟩, ⟨U+200E⟩, ⟨U+200F⟩ and 2 others"}},
		{"a letter that looks like another (CVE-2021-42694)", "def s\u0430y(): pass\ns\u0430y()", []string{`2 words are made of letters of several alphabets, so some are not what they look like: "s\u0430y"`}},
		{"Cyrillic before Latin", "\u0430dmin", []string{`1 word is made of letters of several alphabets, so some are not what they look like: "\u0430dmin"`}},
		{"Greek and Cyrillic", "\u03bf\u043e", []string{`1 word is made of letters of several alphabets, so some are not what they look like: "\u03bf\u043e"`}},
		{"words of one alphabet each", "print('привет', 'ελλάδα', 'ä') # пример_x", nil},
		{"alphabets without look-alikes", "x漢 名a", nil},
		{"Hebrew", "x = '\u05d0'", []string{"there are letters that are written from right to left: around them the order of what you see may not be that of the code"}},
		{"Arabic", "x = '\u0627'", []string{"there are letters that are written from right to left: around them the order of what you see may not be that of the code"}},
		{"a long line", "x" + strings.Repeat(" ", 500) + "evil()\n", []string{"the longest line has 508 characters: look at its end, too"}},
		{"a line that just fits", strings.Repeat("x", longLine-1) + "\n", nil},
	} {
		shown, _ := Show(test.code)
		if d := cmp.Diff(test.want, Warnings(shown)); d != "" {
			t.Errorf("%s: %s", test.name, d)
		}
	}
}

package escape

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func FuzzJSON(f *testing.F) {
	for _, s := range []string{"", "plain ä 漢", "\x1b[31m\x7f\u009b31m", "\u202etxt.exe", "\U000e0001 tag", "\x00\n\t\"\\", "\xff\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		shown := JSON(string(text))
		if i := strings.IndexFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q is shown with %q in it", s, shown[i:])
		}
		var got string
		if err := json.Unmarshal([]byte(shown), &got); err != nil || got != valid(s) {
			t.Errorf("%q is shown as %s, which is %q, %v", s, shown, got, err)
		}
	})
}

// valid is s as JSON has it: each broken byte is one U+FFFD.
func valid(s string) string { return string([]rune(s)) }

package run

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/silk-sandbox/silk/policy"
)

func TestCommandText(t *testing.T) {
	code := func(name, given string) *policy.Code { return &policy.Code{Name: name, Given: given} }
	for _, test := range []struct {
		name     string
		req      policy.Request
		language string
		want     string
	}{
		{"a file with arguments", policy.Request{Code: code("sub/x.py", ""), Args: []string{"1", "a b"}}, "python", "sub/x.py 1 'a b'"},
		{"code", policy.Request{Code: code("main.py", "-c"), Args: []string{"1"}}, "python", "-c (python) 1"},
		{"code that was refused before its language was known", policy.Request{Code: code("main", "-")}, "", "-"},
		{"a command", policy.Request{Args: []string{"sh", "-c", "echo it's"}}, "", `sh -c 'echo it'\''s'`},
		{"an empty argument", policy.Request{Args: []string{"printf", ""}}, "", "printf ''"},
		{"control codes", policy.Request{Args: []string{"echo", "\x1b[2J\n", "\u202e", "\xff"}}, "", `echo "\x1b[2J\n" "\u202e" "\xff"`},
		{"a shell", policy.Request{Terminal: true}, "", "sh"},
		{"nothing", policy.Request{}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := commandText(test.req, test.language); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestCommandTextIsOnePrintableLine: whatever is run, nothing that acts on a terminal comes out, and never more than the
// limit.
func TestCommandTextIsOnePrintableLine(t *testing.T) {
	long := rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat(rapid.StringN(0, 5, -1).Draw(t, "piece"), rapid.IntRange(0, 5000).Draw(t, "times"))
	})
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(long, 1, 3).Draw(t, "args")
		got := commandText(policy.Request{Args: args}, "")
		if len(got) > maxCommandBytes || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
}

package main

import "testing"

func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"plain \u00e4\n\tand more":         "plain \u00e4\n\tand more",
		"\x1b[1mours\x1b[0m":               "\x1b[1mours\x1b[0m",
		"a\x1b]0;title\x07b":               "a\ufffd]0;title\ufffdb",
		"\x1b[2J\x1b[H gone":               "\ufffd[2J\ufffd[H gone",
		"first\rsecond\u009b31m\x00":       "first\ufffdsecond\ufffd31m\ufffd",
		"\x1b[31mcolour is all that it is": "\x1b[31mcolour is all that it is",
	} {
		if got := harmless(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

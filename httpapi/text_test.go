package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBadText(t *testing.T) {
	for _, test := range []struct{ text, field string }{
		{`{"a":"gr\u00fcn","b":["x","y"]}`, ""},
		{`{"a":"\ud83d\ude00 \\ud83d"}`, ""}, // a pair, and an escaped backslash
		{`{"a":"\\\\ud83d\""}`, ""},
		{"{\"a\":\"\xff\"}", "body.a"},
		{"{\"a\":1,\"files\":[{\"path\":\"x\"},{\"path\":\"y\",\"text\":\"a\xc3\"}]}", "body.files[1].text"},
		{"{\"a\":[[\"\",\"\\\"\"],[\"x\",\"\xed\xa0\x80\"]]}", "body.a[1][1]"},
		{`{"a":"\ud83d"}`, "body.a"},
		{`{"a":"\ud83dx"}`, "body.a"},
		{`{"a":"\ud83d\u0041"}`, "body.a"},
		{`{"a":"\ude00\ud83d"}`, "body.a"},
		{`{"a":{"b":"\uD83D\uDE00\uDE00"}}`, "body.a.b"},
		{"{\"a\":{\"\xff\":1}}", "body.a.\ufffd"},
		{"\"\xff\"", "body"},
		{"{\"a\xff", "body.a\ufffd"},
		{"]]}}{,:\"\xff\"", "body."},
		{"[\xff]", ""}, // no JSON: others say so
		{`{"` + strings.Repeat("k", 300) + `":{"b":"\ud800"}}`, "body." + strings.Repeat("k", 300)},
	} {
		if field, bad := badText([]byte(test.text), "body"); field != test.field || bad != (test.field != "") {
			t.Errorf("%q: %q %t, want %q", test.text, field, bad, test.field)
		}
	}
}

// FuzzBadText: what passes loses nothing when package json reads it.
func FuzzBadText(f *testing.F) {
	for _, s := range []string{`"a"`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\"", `"\\\\ud800"`, `"\ufffd"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s string
		if json.Unmarshal(text, &s) != nil {
			_, _ = badText(text, "body")
			return
		}
		said := strings.Count(strings.ToLower(string(text)), `\ufffd`) + strings.Count(string(text), "\ufffd")
		lost := strings.Count(s, string(utf8.RuneError)) > said
		if _, bad := badText(text, "body"); bad != lost && said == 0 {
			t.Errorf("%q becomes %q, and is refused %t", text, s, bad)
		}
	})
}

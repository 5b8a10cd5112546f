package alert

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata")

// sample is an ordinary violation.
func sample() Alert {
	return Alert{
		Run: "01JF4Z7M6W8V4Y2K3T5R9QXBCD", At: time.Date(2026, 11, 29, 19, 34, 59, 123e6, time.UTC), Rule: "file.accounts", Syscall: "openat",
		Argument: "/etc/passwd", Profile: "lab:python", Outcome: "violated", DeadAfter: 3456789 * time.Nanosecond,
	}
}

func TestLine(t *testing.T) {
	const begin = "2026-11-29 19:34:59.123 WIDOW RED run 01JF4Z7M6W8V4Y2K3T5R9QXBCD broke rule file.accounts: openat("
	long := strings.Repeat("x", 255) + "ä"
	for _, test := range []struct {
		name   string
		change func(*Alert)
		want   string
	}{
		{"ordinary", func(*Alert) {}, begin + `"/etc/passwd"); the sandbox was dead after 3.46ms`},
		{"not measured", func(a *Alert) { a.DeadAfter = 0 }, begin + `"/etc/passwd")`},
		{"an escape code", func(a *Alert) { a.DeadAfter, a.Argument = 0, "\x1b[2J\x1b]0;ok\a" }, begin + `"\x1b[2J\x1b]0;ok\a")`},
		{"lines of its own", func(a *Alert) { a.DeadAfter, a.Argument = 0, "/a\r\n2026 all is well" }, begin + `"/a\r\n2026 all is well")`},
		{"a C1 control and a turn of direction", func(a *Alert) { a.DeadAfter, a.Argument = 0, "\u009b1m\u202e" }, begin + `"\u009b1m\u202e")`},
		{"no UTF-8", func(a *Alert) { a.DeadAfter, a.Argument = 0, "/\xff" }, begin + `"/\xff")`},
		{"its own quotes", func(a *Alert) { a.DeadAfter, a.Argument = 0, `"); ok ("` }, begin + `"\"); ok (\"")`},
		{"too long, cut between characters", func(a *Alert) { a.DeadAfter, a.Argument = 0, long }, begin + `"` + strings.Repeat("x", 255) + `"...)`},
		{"no call", func(a *Alert) { a.DeadAfter, a.Syscall, a.Argument = 0, "", "" }, strings.TrimSuffix(begin, "openat(") + `unknown("")`},
		{"a rule that is no word", func(a *Alert) { a.DeadAfter, a.Rule = 0, "a b\n" }, strings.Replace(begin, "file.accounts", `"a b\n"`, 1) + `"/etc/passwd")`},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := sample()
			test.change(&a)
			if got := a.Line(false); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got, want := a.Line(true), undo+"\x1b[1;31m"+test.want+"\x1b[0m"; got != want {
				t.Errorf("coloured %q", got)
			}
		})
	}
}

func TestJSONGolden(t *testing.T) {
	text, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("testdata", "alert.json")
	if *update {
		if err := os.WriteFile(name, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if diff := cmp.Diff(string(want), string(text)+"\n"); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// FuzzAlert gives every text of an alert to whoever attacks: neither form has a byte that steers a terminal, both are of
// bounded length, and the JSON says what the argument was.
func FuzzAlert(f *testing.F) {
	f.Add("openat", "/etc/passwd", "file.accounts")
	f.Add("\x1b[31m", "\u009b\u202e\x00\n\xff", "a\nb")
	f.Add("", strings.Repeat("ä", 5000), "")
	f.Fuzz(func(t *testing.T, syscall, argument, rule string) {
		a := sample()
		a.Syscall, a.Argument, a.Rule = syscall, argument, rule
		line := a.Line(false)
		if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 || len(line) > 10*maxShown+300 {
			t.Errorf("the line has %q in it, and %d bytes", line[max(0, i):], len(line))
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(string(text), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("the JSON has %q in it", text[i:])
		}
		var got wire
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		sent := got.Argument
		if got.ArgumentB64 != "" {
			data, err := base64.StdEncoding.DecodeString(got.ArgumentB64)
			if err != nil {
				t.Fatal(err)
			}
			sent = string(data)
		}
		if len(sent) > maxSent || !strings.HasPrefix(argument, sent) || (sent != argument) != got.Truncated || utf8.ValidString(sent) != (got.ArgumentB64 == "") {
			t.Errorf("%q became %+v", argument, got)
		}
	})
}

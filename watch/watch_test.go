package watch

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestEventAsJSON(t *testing.T) {
	e := Event{
		At: time.Date(2026, 11, 29, 12, 0, 0, 1000, time.UTC), Origin: Host, Kind: Execve, Syscall: "execveat",
		Process: 7, Thread: 8, Argument: "/bin/sh", Result: "EACCES",
	}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"at":"2026-11-29T12:00:00.000001Z","origin":"host","kind":"execve","syscall":"execveat","pid":7,"tid":8,"argument":"/bin/sh","result":"EACCES"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	var back Event
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Error(diff)
	}
}

func TestPrintable(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"a path", "/tmp/ä b", "/tmp/ä b"},
		{"a terminal's escape", "\x1b[2J", "\ufffd[2J"},
		{"lines", "a\nb\r\tc", "a\ufffdb\ufffd\ufffdc"},
		{"not UTF-8", "a\xffb", "a\ufffdb"},
		{"text that runs backwards", "a\u202eb", "a\ufffdb"},
		{"too long, cut between characters", strings.Repeat("x", MaxArgument-1) + "ä", strings.Repeat("x", MaxArgument-1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Printable(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("/etc/passwd")
	f.Add("\x1b]0;title\a\x00\xff\u202e")
	f.Add(strings.Repeat("\xff", MaxArgument))
	f.Fuzz(func(t *testing.T, s string) {
		got := Printable(s)
		if len(got) > MaxArgument || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r != unicode.ReplacementChar && !unicode.IsPrint(r) }) {
			t.Errorf("Printable(%q) = %q", s, got)
		}
		if again := Printable(got); again != got {
			t.Errorf("Printable changes what it made: %q, %q", got, again)
		}
	})
}

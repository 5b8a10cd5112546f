package note

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plainlyToggled is toggled as one would write it first: quadratic.
func plainlyToggled(line string, in, alone bool) bool {
	begins := strings.HasPrefix(strings.TrimLeft(line, " \t>"), commentMark)
	for {
		if !in {
			line = plainlySkipCode(line)
		}
		_, rest, ok := strings.Cut(line, commentMark)
		if !ok {
			return in
		}
		if !in && alone && !begins && !strings.Contains(rest, commentMark) {
			return false
		}
		in, line, begins = !in, rest, false
	}
}

func plainlySkipCode(line string) string {
	for {
		tick, mark := strings.IndexByte(line, '`'), strings.Index(line, commentMark)
		if tick < 0 || mark < 0 || mark < tick {
			return line
		}
		run := len(line[tick:]) - len(strings.TrimLeft(line[tick:], "`"))
		line = line[tick+run:]
		for at := 0; at < len(line); {
			next := strings.IndexByte(line[at:], '`')
			if next < 0 {
				break
			}
			at += next
			n := len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
			if at += n; n == run {
				line = line[at:]
				break
			}
		}
	}
}

func TestToggledIsWhatItSeems(t *testing.T) {
	part := rapid.SampledFrom([]string{"%%", "%", "`", "``", "```", "a", " ", "> "})
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(part, 0, 16).Draw(t, "line"), "")
		in, alone := rapid.Bool().Draw(t, "in"), rapid.Bool().Draw(t, "alone")
		if got, want := toggled(line, in, alone), plainlyToggled(line, in, alone); got != want {
			t.Errorf("toggled(%q, %t, %t) = %t, want %t", line, in, alone, got, want)
		}
	})
}

// TestLongLines parses what would take minutes if a line's time were not linear.
func TestLongLines(t *testing.T) {
	const most = 2 << 20
	for _, part := range []string{"%%", "a%%b", "`%%", "%%`", "``%%`"} {
		if n := len(Parse([]byte(strings.Repeat(part, most/len(part)) + "\n\n```sh\necho\n```\n")).Blocks); n != 1 {
			t.Errorf("%q again and again: %d blocks, want 1", part, n)
		}
	}
}

// TestHashesAreApart: what is approved for one block is not approved for another that only reads the same when its parts are joined.
func TestHashesAreApart(t *testing.T) {
	type block struct{ args, code string }
	for _, pair := range [][2]block{
		{{"a", "echo ok#\x00\x00rm evil\n"}, {"a\x00\x00echo ok#", "rm evil\n"}},
		{{"a", "b\x00c"}, {"a\x00b", "c"}}, // whatever NUL stands for between parts
	} {
		a := hashOf("sh", map[string]string{"args": pair[0].args}, pair[0].code)
		b := hashOf("sh", map[string]string{"args": pair[1].args}, pair[1].code)
		if a == b {
			t.Errorf("%q have one hash", pair)
		}
	}
}

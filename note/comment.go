package note

import "strings"

// commentMark begins and ends a comment of Obsidian's.
const commentMark = "%%"

// comments marks the fences that are in a comment: everything from a %% to the next one, and, from one that begins a line and has
// no other after it, to the end of the note. Marks in fences and in code between backticks are none, unless a comment is open.
func (n *Note) comments(body int, fences []*fence) {
	if !strings.Contains(string(n.text), commentMark) {
		return
	}
	last := -1 // line of the last mark, wherever it stands
	for i := body; i < len(n.lines); i++ {
		if strings.Contains(n.content(i), commentMark) {
			last = i
		}
	}
	in := false
	next := 0 // the fence that line i is in, or comes before
	for i := body; i < len(n.lines); i++ {
		for next < len(fences) && fences[next].close < i {
			next++
		}
		fenced := next < len(fences) && fences[next].open <= i
		if fenced && in {
			fences[next].comment = true
		}
		if fenced && !in {
			continue
		}
		in = toggled(n.content(i), in, i >= last)
	}
}

// toggled says whether a comment is open at the end of a line. alone: no mark follows on later lines.
func toggled(line string, in, alone bool) bool {
	begins := strings.HasPrefix(strings.TrimLeft(line, " \t>"), commentMark)
	for {
		if !in {
			line = skipCode(line)
		}
		_, rest, ok := strings.Cut(line, commentMark)
		if !ok {
			return in
		}
		if !in && alone && !begins && !strings.Contains(rest, commentMark) {
			return false // in prose: 100%% sure
		}
		in, line, begins = !in, rest, false
	}
}

// skipCode returns what of a line follows the code between backticks that begins before the first comment mark.
func skipCode(line string) string {
	for {
		tick := strings.IndexByte(line, '`')
		mark := strings.Index(line, commentMark)
		if tick < 0 || mark < 0 || mark < tick {
			return line
		}
		run := len(line[tick:]) - len(strings.TrimLeft(line[tick:], "`"))
		rest := line[tick+run:]
		end := closing(rest, run)
		if end < 0 {
			line = rest // only backticks
			continue
		}
		line = rest[end:]
	}
}

// closing is the offset behind the run of exactly n backticks in text, or -1.
func closing(text string, n int) int {
	for at := 0; at < len(text); {
		tick := strings.IndexByte(text[at:], '`')
		if tick < 0 {
			return -1
		}
		at += tick
		run := len(text[at:]) - len(strings.TrimLeft(text[at:], "`"))
		if at += run; run == n {
			return at
		}
	}
	return -1
}

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

// toggled says whether a comment is open at the end of a line. alone: no mark follows on later lines. Its time is linear in the
// line, which may be the whole of a note.
func toggled(line string, in, alone bool) bool {
	begins := strings.HasPrefix(strings.TrimLeft(line, " \t>"), commentMark)
	last := strings.LastIndex(line, commentMark)
	if last < 0 {
		return in
	}
	code := codeOf(line)
	for at := 0; ; {
		mark := strings.Index(line[at:], commentMark)
		if mark < 0 {
			return in
		}
		mark += at
		if !in {
			if end := code.behind(at, mark); end > mark {
				at = end // the mark is code
				continue
			}
		}
		at = mark + len(commentMark)
		if !in && alone && !begins && last < at {
			return false // in prose: 100%% sure
		}
		in, begins = !in, false
	}
}

// ticks are the runs of backticks of a line, in order.
type ticks struct {
	runs []tickRun
	next int           // the first run that was not passed yet
	same map[int][]int // by length: indices of runs, in order, the passed ones gone
}

type tickRun struct{ at, n int }

func codeOf(line string) *ticks {
	t := &ticks{same: map[int][]int{}}
	for at := 0; ; {
		tick := strings.IndexByte(line[at:], '`')
		if tick < 0 {
			return t
		}
		at += tick
		n := len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
		t.same[n] = append(t.same[n], len(t.runs))
		t.runs = append(t.runs, tickRun{at, n})
		at += n
	}
}

// behind is the end of the last piece of code between backticks that begins at or after at and before mark; at if there is none.
// Both grow from call to call.
func (t *ticks) behind(at, mark int) int {
	for ; t.next < len(t.runs) && t.runs[t.next].at < mark; t.next++ {
		r := t.runs[t.next]
		if r.at < at {
			continue // in a comment, or in code
		}
		same := t.same[r.n]
		for len(same) > 0 && same[0] <= t.next {
			same = same[1:]
		}
		t.same[r.n] = same
		if len(same) > 0 { // else only backticks
			t.next = same[0]
			at = t.runs[t.next].at + r.n
		}
	}
	return at
}

package note

import (
	"bytes"
	"strings"
)

// maxLevels bounds the sum, over all lines, of the quotes and lists that a line is in: the parser remembers 48 bytes for each until the
// outermost is closed. An empty line is in all of those before it.
const maxLevels = 1 << 20

// marks is what a line begins with of quotes and lists.
type marks struct {
	count    int // of marks that begin quotes and list items
	levels   int // that the line is in at most, unless it continues a paragraph of the line before
	from, to int // where the marks are that would make it deeper than MaxDepth
}

// marksOf reads the begin of a line. White space continues lists: two columns at least for each (CommonMark 5.2).
func marksOf(line string) (m marks) {
	if strings.Trim(line, " \t-") == "" || strings.Trim(line, " \t*") == "" { // a thematic break, or nothing
		space := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		m.levels = min(MaxDepth, (len(space)+(columnsOfTab-1)*strings.Count(space, "\t"))/2)
		return m
	}
	columns, behind := 0, 0 // behind is 1 directly behind a mark, whose own the next column is
	for i := range len(line) {
		switch c := line[i]; {
		case c == ' ':
			columns, behind = columns+1-behind, 0
		case c == '\t':
			columns, behind = columns+columnsOfTab-behind, 0
		case '0' <= c && c <= '9': // of a list's marker
		case c == '>' || strings.IndexByte("-+*.)", c) >= 0:
			if c != '>' && (i+1 == len(line) || line[i+1] != ' ' && line[i+1] != '\t') {
				break // no list's marker ends so
			}
			m.count++
			behind = 1
			if m.from == 0 && m.count+columns/2 > MaxDepth {
				m.from = i
			}
		default:
			return m
		}
		if m.from > 0 {
			m.to = i + 1
			continue
		}
		m.levels = min(MaxDepth, m.count+columns/2)
	}
	return m
}

const columnsOfTab = 4

// shallow is text in which no line is deeper than MaxDepth: the marks of deeper quotes and lists are letters.
func shallow(text []byte) []byte {
	out := text
	for _, l := range split(text) {
		m := marksOf(string(text[l.start:l.end]))
		if m.from == m.to {
			continue
		}
		if &out[0] == &text[0] {
			out = bytes.Clone(text)
		}
		for i := l.start + m.from; i < l.start+m.to; i++ {
			if out[i] != ' ' && out[i] != '\t' {
				out[i] = 'x'
			}
		}
	}
	return out
}

// tooDeep says whether the lines of shallow text are in more quotes and lists than the parser can be asked to remember.
func tooDeep(text []byte) bool {
	sum, depth, blank := 0, 0, true
	for _, l := range split(text) {
		line := string(text[l.start:l.end])
		if strings.Trim(line, " \t") == "" {
			blank = true
		} else {
			m := marksOf(line)
			now := min(m.levels, depth+m.count)
			if !blank {
				now = max(now, depth) // it may continue a paragraph, however little it begins with
			}
			depth, blank = now, false
		}
		if sum += depth; sum > maxLevels {
			return true
		}
	}
	return false
}

package note

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shown is what a note shows of one channel.
type shown struct {
	head, tail []string
	omitted    int  // lines between head and tail
	shortened  bool // at least one line is not shown to its end
}

func (s shown) empty() bool { return len(s.head)+len(s.tail) == 0 }

// window is how much of a channel a note shows: the first lines and the last ones.
type window struct {
	headLines, headBytes int
	tailLines, tailBytes int
	columns              int // of a line
}

// plain returns what a terminal would show of output, as text: a carriage return goes back and is written over, escape sequences
// and control codes are gone, as are characters that turn the reading direction or cannot be seen. What is not UTF-8 is U+FFFD.
func plain(output []byte, w window) shown {
	t := terminal{window: w}
	t.unseen = len(output)
	t.write(output)
	if len(t.line) > 0 || t.over {
		t.emit()
	}
	return t.shown
}

// terminal is one line of a terminal, and the lines above it as far as they are kept.
type terminal struct {
	window

	shown              shown
	line               []rune
	column             int
	over               bool // something was written beyond the last column
	headSize, tailSize int
	closed             bool // the head is full
	skipped            bool
	unseen             int // bytes at the end of the output in which no end of a string was looked for
}

// tailRead is how much of the end of output is looked at for the last lines. What is between the first ones and that is only counted:
// a program can print 10 MiB of anything, and somebody waits.
const tailRead = 256 << 10

func (t *terminal) write(p []byte) {
	for len(p) > 0 {
		if t.closed && !t.skipped && len(t.line) == 0 {
			p, t.skipped = t.skip(p), true
		}
		r, n := utf8.DecodeRune(p)
		rest := p[n:]
		switch {
		case r == '\n' || r == '\v' || r == '\f' || r == '\u0085':
			t.emit()
		case r == '\r':
			if len(rest) == 0 || rest[0] != '\n' {
				t.column = 0
			}
		case r == '\b':
			t.column = max(0, t.column-1)
		case r == '\x1b':
			rest = t.escape(rest)
		case r == '\u009b':
			rest = t.control(rest)
		case r == '\u0090' || r == '\u0098' || r == '\u009d' || r == '\u009e' || r == '\u009f':
			rest = t.skipString(rest)
		case r == '\t':
			t.put(r)
		case r == '\u2028' || r == '\u2029':
			t.put(' ')
		case !hidden(r):
			t.put(r)
		}
		p = rest
	}
}

// skip returns the lines at the end of p.
func (t *terminal) skip(p []byte) []byte {
	from := max(0, len(p)-tailRead)
	end := bytes.IndexByte(p[from:], '\n')
	if from == 0 || end < 0 {
		return p
	}
	from += end + 1
	t.shown.omitted += bytes.Count(p[:from], []byte("\n"))
	return p[from:]
}

// hidden are characters that do not belong into a note: control codes, those that turn the reading direction (Unicode Standard
// Annex 9, section 2), byte order marks, and tags, in which text can be hidden.
func hidden(r rune) bool {
	return unicode.IsControl(r) || '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069' || r == '\ufeff' || r == '\ufffe' || r == '\uffff' ||
		'\U000e0000' <= r && r <= '\U000e007f'
}

// spaces are as many as a line has columns at most.
var spaces = []rune(strings.Repeat(" ", max(usual.columns, maxText)))

func (t *terminal) put(r rune) {
	if t.column >= t.columns {
		t.over = true
		return
	}
	if missing := t.column - len(t.line); missing > 0 {
		t.line = append(t.line, spaces[:missing]...)
	}
	if t.column < len(t.line) {
		t.line[t.column] = r
	} else {
		t.line = append(t.line, r)
	}
	t.column++
}

// emit ends the line.
func (t *terminal) emit() {
	text := string(t.line)
	if t.over {
		text += "…"
		t.shown.shortened = true
	}
	t.line, t.column, t.over = t.line[:0], 0, false
	if !t.closed && len(t.shown.head) < t.headLines && t.headSize+len(text) <= t.headBytes {
		t.shown.head = append(t.shown.head, text)
		t.headSize += len(text) + 1
		return
	}
	t.closed = true
	t.shown.tail = append(t.shown.tail, text)
	t.tailSize += len(text) + 1
	for len(t.shown.tail) > t.tailLines || t.tailSize > t.tailBytes && len(t.shown.tail) > 1 {
		t.tailSize -= len(t.shown.tail[0]) + 1
		t.shown.tail = t.shown.tail[1:]
		t.shown.omitted++
	}
}

// escape skips the escape sequence that begins with ESC, and does what it says about the line (ECMA-48, and ctlseqs of xterm).
func (t *terminal) escape(p []byte) (rest []byte) {
	if len(p) == 0 {
		return p
	}
	switch c := p[0]; {
	case c == '[':
		return t.control(p[1:])
	case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
		return t.skipString(p[1:])
	case 0x20 <= c && c <= 0x2f: // intermediate bytes, then a final one
		for len(p) > 0 && 0x20 <= p[0] && p[0] <= 0x2f {
			p = p[1:]
		}
		if len(p) > 0 && 0x30 <= p[0] && p[0] <= 0x7e {
			p = p[1:]
		}
		return p
	case 0x30 <= c && c <= 0x7e:
		return p[1:]
	}
	return p
}

// maxSequence bounds an escape sequence: one that has no end does not hide what follows.
const maxSequence = 4096

// control does a control sequence: parameters, intermediate bytes, final byte (ECMA-48 section 5.4).
func (t *terminal) control(p []byte) (rest []byte) {
	i := 0
	for i < len(p) && i < maxSequence && 0x20 <= p[i] && p[i] <= 0x3f {
		i++
	}
	if i == len(p) || p[i] < 0x40 || p[i] > 0x7e {
		return p[i:]
	}
	n, err := strconv.Atoi(string(p[:i]))
	switch {
	case p[i] == 'K' && (n == 0 || n == 2 || err != nil): // erase: to the end, or all of it
		keep := min(len(t.line), t.column)
		if n == 2 {
			keep = 0
		}
		t.line, t.over = t.line[:keep], false
	case p[i] == 'G' || p[i] == '`': // go to a column, from 1
		t.column = min(max(n, 1)-1, t.columns)
	case p[i] == 'C':
		t.column = min(t.column+min(max(n, 1), t.columns), t.columns)
	case p[i] == 'D':
		t.column = max(0, t.column-max(n, 1))
	}
	return p[i+1:]
}

// skipString skips what stands between OSC and the like and their end, ST or BEL. One that does not end on its line was none. What was
// looked at in vain is not looked at again: there may be millions of them.
func (t *terminal) skipString(p []byte) (rest []byte) {
	i := max(0, len(p)-t.unseen)
	for ; i < len(p) && i < maxSequence && p[i] != '\n'; i++ {
		switch {
		case p[i] == '\a':
			return p[i+1:]
		case p[i] == '\x1b' && i+1 < len(p) && p[i+1] == '\\':
			return p[i+2:]
		case p[i] == 0xc2 && i+1 < len(p) && p[i+1] == 0x9c:
			return p[i+2:]
		}
	}
	t.unseen = min(t.unseen, len(p)-i)
	return p
}

// oneLine is text that is not ours as a part of one line.
func oneLine(text string) string {
	text = text[:min(len(text), 16*maxText)] // with room for what is not shown
	s := plain([]byte(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' || r == '\v' || r == '\f' || r == '\u0085' {
			return ' '
		}
		return r
	}, text)), window{headLines: 1, headBytes: 1 << 16, tailLines: 1, columns: maxText})
	return strings.Join(s.head, " ")
}

// maxText bounds a sentence or an argument that is not ours, in characters.
const maxText = 300

package mcp

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes text for a model of what a program printed: terminal sequences and control characters are gone, a line that was
// written over shows as it was last, what is not UTF-8 is U+FFFD, and characters that nobody sees show as <U+202E>, since a model
// would read them.
func clean(p []byte) string {
	out := make([]byte, 0, len(p))
	line := 0 // where the line begins in out
	for i := 0; i < len(p); {
		r, size := utf8.DecodeRune(p[i:])
		switch {
		case r == 0x1b || r == 0x9b:
			size = sequence(p[i:], size)
		case r == '\r':
			for i+size < len(p) && p[i+size] == '\r' {
				size++
			}
			if i+size < len(p) && p[i+size] != '\n' {
				out = out[:line]
			}
		case r == '\b':
			if len(out) > line {
				_, last := utf8.DecodeLastRune(out)
				out = out[:len(out)-last]
			}
		case r == '\n':
			out = append(out, '\n')
			line = len(out)
		case r == '\t', unicode.IsPrint(r), unicode.Is(unicode.Zs, r), r == 0x200c, r == 0x200d, r == 0xfe0f:
			out = utf8.AppendRune(out, r)
		case r < ' ' || 0x7f <= r && r < 0xa0:
		default:
			out = fmt.Appendf(out, "<U+%04X>", r)
		}
		i += size
	}
	return string(out)
}

// sequence is the length of the terminal sequence (ECMA-48 section 5.4) that p begins with, of which the first size bytes are ESC
// or CSI. One that is cut off is as long as what is there.
func sequence(p []byte, size int) int {
	i := size
	if p[0] == 0x1b {
		if i == len(p) {
			return i
		}
		switch kind := p[i]; {
		case kind == '[':
			i++
		case strings.IndexByte("]PX^_", kind) >= 0: // a string, to BEL or ESC \
			const longest = 4096
			for i++; i < min(len(p), longest); i++ {
				if p[i] == 0x07 {
					return i + 1
				}
				if p[i] == 0x1b && i+1 < len(p) && p[i+1] == '\\' {
					return i + 2
				}
				if p[i] == '\n' {
					return i
				}
			}
			return i
		default:
			for i < len(p) && 0x20 <= p[i] && p[i] < 0x30 {
				i++
			}
			return min(i+1, len(p))
		}
	}
	for i < len(p) && 0x20 <= p[i] && p[i] < 0x40 {
		i++
	}
	if i < len(p) && 0x40 <= p[i] && p[i] < 0x7f {
		i++
	}
	return i
}

// fence is a row of backquotes longer than any in text.
func fence(text string) string {
	longest, row := 2, 0
	for _, c := range []byte(text) {
		if c != '`' {
			row = 0
			continue
		}
		row++
		longest = max(longest, row)
	}
	return strings.Repeat("`", longest+1)
}

// line is text on one line, and not long.
func line(text string, most int) string {
	text = strings.Join(strings.Fields(clean([]byte(text))), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// headOf is the longest begin of p of at most size bytes that does not end within a character, nor, if that costs little, within
// a line.
func headOf(p []byte, size int) []byte {
	if len(p) <= size {
		return p
	}
	for size > 0 && !utf8.RuneStart(p[size]) && size > len(p[:size])-utf8.UTFMax {
		size--
	}
	p = p[:max(size, 0)]
	if i := strings.LastIndexByte(string(p), '\n'); i >= len(p)*3/4 {
		return p[:i+1]
	}
	return p
}

// tailOf is the same for the end.
func tailOf(p []byte, size int) []byte {
	if len(p) <= size {
		return p
	}
	p = p[len(p)-size:]
	for i := 0; i < min(len(p), utf8.UTFMax-1) && !utf8.RuneStart(p[0]); i++ {
		p = p[1:]
	}
	if i := strings.IndexByte(string(p), '\n'); i >= 0 && i < len(p)/4 {
		return p[i+1:]
	}
	return p
}

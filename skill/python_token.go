package skill

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// pyReader makes tokens of Python.
type pyReader struct {
	reader

	depth  int // of open brackets, in which lines do not end statements
	nested int // expressions of strings that the position is in
}

// maxNested is how deep they may be, as Python has it (MAXFSTRINGLEVEL, Parser/lexer/state.h).
const maxNested = 150

func (r *pyReader) read() tokens {
	for r.pos < len(r.src) {
		r.next()
	}
	r.add(newline, "", r.line)
	return r.out
}

func (r *pyReader) next() {
	c := r.src[r.pos]
	switch {
	case c == '#':
		end := strings.IndexByte(r.src[r.pos:], '\n')
		if end < 0 {
			end = len(r.src)
		}
		r.skip(end)
	case c == '\n':
		if r.depth == 0 {
			r.add(newline, "", r.line)
		}
		r.skip(1)
	case c == '\\' && (r.peek(1) == '\n' || r.has("\\\r\n")): // the line goes on
		r.skip(2)
		if r.pos > 0 && r.src[r.pos-1] == '\r' {
			r.skip(1)
		}
	case c == '"' || c == '\'':
		r.string("")
	case c >= '0' && c <= '9', c == '.' && r.peek(1) >= '0' && r.peek(1) <= '9':
		r.number()
	case r.name() != "":
		word := r.name()
		if after := r.peek(len(word)); (after == '"' || after == '\'') && isPrefix(word) {
			r.pos += len(word)
			r.string(strings.ToLower(word))
			return
		}
		plain, other := plainName(word)
		t := token{kind: name, text: plain, line: r.line}
		if other {
			t.escapes = 1
		}
		r.out = append(r.out, t)
		r.pos += len(word)
	case c <= ' ':
		r.skip(1)
	default:
		r.punct()
	}
}

// isPrefix says whether a string's quotes may come right after a word: r, b, u, f, t and their pairs
// (docs.python.org, "String and Bytes literals").
func isPrefix(word string) bool {
	return len(word) <= 2 && strings.Trim(strings.ToLower(word), "rbuft") == ""
}

func (r *pyReader) punct() {
	switch r.src[r.pos] {
	case '(', '[', '{':
		r.depth++
	case ')', ']', '}':
		r.depth = max(0, r.depth-1)
	}
	_, size := utf8.DecodeRuneInString(r.src[r.pos:])
	r.add(punct, r.src[r.pos:r.pos+size], r.line)
	r.skip(size)
}

// string reads a string whose prefix, in lower case, is behind us.
func (r *pyReader) string(prefix string) {
	line, quote := r.line, r.src[r.pos:r.pos+1]
	if triple := strings.Repeat(quote, 3); r.has(triple) {
		quote = triple
	}
	r.skip(len(quote))
	at := len(r.out)
	r.out = append(r.out, token{kind: text, line: line})
	value, escapes, expressions := r.stringPart(quote, strings.Contains(prefix, "r"), strings.ContainsAny(prefix, "ft"))
	if r.has(quote) && r.pos < len(r.src) {
		r.skip(len(quote))
	} else {
		r.odd(line, "text without an end")
	}
	r.out[at].text, r.out[at].escapes = value, escapes
	if expressions {
		r.out[at].kind = partial
	}
	if at > 0 && r.out[at-1].kind == text && r.out[at].kind == text { // strings side by side are one
		r.out[at-1].join(value, escapes)
		r.out = r.out[:at]
	}
}

// stringPart reads the characters of a string up to its quotes. The expressions of an f-string become tokens.
func (r *pyReader) stringPart(quote string, raw, formatted bool) (value string, escapes int, expressions bool) {
	var b strings.Builder
	for r.pos < len(r.src) && !r.has(quote) {
		c := r.src[r.pos]
		switch {
		case c == '\n' && len(quote) == 1:
			return b.String(), escapes, expressions
		case c == '\\' && raw:
			b.WriteString(r.src[r.pos:min(r.pos+2, len(r.src))])
			r.skip(2)
		case c == '\\':
			code, size := escapePy(r.src[r.pos:])
			if size > 2 && typable(code) {
				escapes++
			}
			if code != '\n' {
				b.WriteRune(code)
			}
			r.skip(size)
		case formatted && (r.has("{{") || r.has("}}")):
			b.WriteByte(c)
			r.skip(2)
		case formatted && c == '{':
			expressions = true
			r.skip(1)
			r.expression(quote, raw)
		default:
			b.WriteByte(c)
			r.skip(1)
		}
	}
	return b.String(), escapes, expressions
}

// expression reads what is between { and } of an f-string: tokens, and behind a colon a format, which may have expressions.
func (r *pyReader) expression(quote string, raw bool) {
	if r.nested == maxNested {
		r.odd(r.line, "text in expressions of text, deeper than Python reads it")
		return
	}
	r.nested++
	defer func() { r.nested-- }()
	depth := r.depth
	r.depth++ // its lines end nothing
	defer func() { r.depth = depth }()
	for r.pos < len(r.src) {
		c := r.src[r.pos]
		switch {
		case r.depth == depth+1 && c == '}':
			r.skip(1)
			return
		case r.depth == depth+1 && c == ':' && r.peek(1) != '=':
			r.skip(1)
			for r.pos < len(r.src) && r.src[r.pos] != '}' && !r.has(quote) {
				if r.src[r.pos] == '{' {
					r.skip(1)
					r.expression(quote, raw)
					continue
				}
				r.skip(1)
			}
			if r.peek(0) == '}' {
				r.skip(1)
			}
			return
		case len(quote) == 3 && r.has(quote), len(quote) == 1 && c == '\n': // it has no end; before 3.12 quotes ended it too, and then this is another string
			return
		}
		r.next()
	}
}

// escapePy is what an escape at the begin of s stands for, and its length.
func escapePy(s string) (c rune, size int) {
	digits, base := 0, 16
	at := 2
	switch {
	case len(s) < 2:
		return '\\', 1
	case s[1] == 'x':
		digits = 2
	case s[1] == 'u':
		digits = 4
	case s[1] == 'U':
		digits = 8
	case s[1] >= '0' && s[1] <= '7':
		at, base, digits = 1, 8, 1
		for digits < 3 && at+digits < len(s) && s[at+digits] >= '0' && s[at+digits] <= '7' {
			digits++
		}
	case s[1] == 'n' || s[1] == 't' || s[1] == 'r':
		return ' ', 2
	default:
		c, n := utf8.DecodeRuneInString(s[1:])
		return c, 1 + n
	}
	if len(s) < at+digits {
		return '\\', 1
	}
	n, err := strconv.ParseUint(s[at:at+digits], base, 32)
	if err != nil || n > utf8.MaxRune {
		return '\\', 1
	}
	return rune(n), at + digits
}

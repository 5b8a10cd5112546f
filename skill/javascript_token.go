package skill

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsReader makes tokens of JavaScript and TypeScript. Whether a slash divides or begins a regular expression depends on what is
// before it (ECMA-262, section 12, "lexical goal symbols"); what brackets enclose is kept for that.
type jsReader struct {
	reader

	open []bracket
	shut bracket // what was closed last

	endless int // up to there a regular expression has no end, wherever it begins
}

// bracket is one that is open.
type bracket struct {
	c      byte // (, [, {, or ` for the expression in a template
	header bool // of if, while, for, with: a statement follows
	block  bool // of statements, not an object
}

func (r *jsReader) read() tokens {
	if r.has("#!") {
		r.comment("#!")
	}
	for r.pos < len(r.src) {
		r.next()
	}
	return r.out
}

// next reads one token, or goes over white space or a comment.
func (r *jsReader) next() {
	c := r.src[r.pos]
	switch {
	case r.has("//"):
		r.comment("//")
	case r.has("/*"):
		end := strings.Index(r.src[r.pos+2:], "*/")
		if end < 0 {
			r.odd(r.line, "a comment without an end")
			end = len(r.src)
		}
		r.skip(end + 4)
	case c == '"' || c == '\'':
		r.string(c)
	case c == '`':
		r.template()
	case c >= '0' && c <= '9', c == '.' && r.peek(1) >= '0' && r.peek(1) <= '9':
		r.number()
	case c == '/' && r.regexp():
	case c == '\\' || isName(r.rune()):
		r.word()
	case c <= ' ' || r.rune() == 0xa0 || r.rune() == 0xfeff || r.rune() == 0x2028 || r.rune() == 0x2029:
		_, size := utf8.DecodeRuneInString(r.src[r.pos:])
		r.skip(size)
	default:
		r.punct()
	}
}

func (r *jsReader) rune() rune {
	c, _ := utf8.DecodeRuneInString(r.src[r.pos:])
	return c
}

// ends are the characters that end a line, and with it a comment (ECMA-262 section 12.3).
const ends = "\n\r\u2028\u2029"

func (r *jsReader) comment(begin string) {
	end := strings.IndexAny(r.src[r.pos+len(begin):], ends)
	if end < 0 {
		end = len(r.src)
	}
	r.skip(end + len(begin))
}

// word reads a name, in which letters may be written as \u0065 or \u{65}.
func (r *jsReader) word() {
	var b strings.Builder
	escapes := 0
	for r.pos < len(r.src) {
		if part := r.name(); part != "" {
			b.WriteString(part)
			r.pos += len(part)
			continue
		}
		if !r.has(`\u`) {
			break
		}
		c, size := escapeJS(r.src[r.pos:])
		if size == 0 || !isName(c) {
			break
		}
		b.WriteRune(c)
		escapes++
		r.pos += size
	}
	if b.Len() == 0 { // a backslash that belongs nowhere
		r.odd(r.line, `a \ outside of text`)
		r.pos++
		return
	}
	r.out = append(r.out, token{kind: name, text: b.String(), line: r.line, escapes: escapes})
}

// escapeJS is the character that an escape at the begin of s stands for, and the length of the escape: 0 if there is none that
// stands for a character by its number.
func escapeJS(s string) (c rune, size int) {
	var digits string
	switch {
	case strings.HasPrefix(s, `\u{`):
		end := strings.IndexByte(s[:min(len(s), 17)], '}')
		if end < 0 {
			return 0, 0
		}
		digits, size = s[3:end], end+1
	case strings.HasPrefix(s, `\u`) && len(s) >= 6:
		digits, size = s[2:6], 6
	case strings.HasPrefix(s, `\x`) && len(s) >= 4:
		digits, size = s[2:4], 4
	default:
		return 0, 0
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || n > utf8.MaxRune {
		return 0, 0
	}
	return rune(n), size
}

// stringPart reads characters of a string until stop says that it ends, and returns what they stand for.
func (r *jsReader) stringPart(stop func() bool) (value string, escapes int) {
	var b strings.Builder
	for r.pos < len(r.src) && !stop() {
		c := r.src[r.pos]
		if c != '\\' {
			b.WriteByte(c)
			r.skip(1)
			continue
		}
		if code, size := escapeJS(r.src[r.pos:]); size > 0 {
			if b.WriteRune(code); typable(code) {
				escapes++
			}
			r.skip(size)
			continue
		}
		r.skip(1)
		switch next := r.peek(0); next {
		case '\r':
			if r.peek(1) == '\n' {
				r.skip(1)
			}
		case '\n', 0: // the string goes on in the next line
		case 'n', 't', 'r', 'b', 'f', 'v', '0':
			b.WriteByte(' ')
		default:
			b.WriteByte(next)
		}
		r.skip(1)
	}
	return b.String(), escapes
}

func (r *jsReader) string(quote byte) {
	line := r.line
	r.skip(1)
	value, escapes := r.stringPart(func() bool { c := r.src[r.pos]; return c == quote || c == '\n' || c == '\r' })
	if r.peek(0) == quote {
		r.skip(1)
	} else {
		r.odd(line, "text without an end")
	}
	r.out = append(r.out, token{text, value, line, escapes})
}

// template reads a template literal up to its end or the first expression in it.
func (r *jsReader) template() {
	line := r.line
	r.skip(1)
	value, escapes, whole := r.templatePart()
	k := partial
	if whole {
		k = text
	}
	r.out = append(r.out, token{k, value, line, escapes})
}

// templatePart reads the text of a template, behind ` or the } of an expression in it. whole says that it has come to the end.
func (r *jsReader) templatePart() (value string, escapes int, whole bool) {
	line := r.line
	value, escapes = r.stringPart(func() bool { return r.src[r.pos] == '`' || r.has("${") })
	switch {
	case r.peek(0) == '`':
		r.skip(1)
		return value, escapes, true
	case r.has("${"):
		r.skip(2)
		r.open = append(r.open, bracket{c: '`'})
		r.add(punct, "${", r.line)
	default:
		r.odd(line, "text without an end")
	}
	return value, escapes, false
}

// regexp goes over a regular expression, if the slash at the position begins one.
func (r *jsReader) regexp() bool {
	if !r.mayBegin() {
		return false
	}
	class := false
	for i := r.pos + 1; i < len(r.src); i++ {
		switch c := r.src[i]; {
		case c == '\n' || c == '\r':
			r.endless = i
			return false
		case (c == '[' || c == ']') && i < r.endless: // from here on it is like the one that was tried before
			return false
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			line := r.line
			r.pos = i + 1
			r.pos += len(r.name()) // flags
			r.add(partial, "", line)
			return true
		}
	}
	r.endless = len(r.src)
	return false
}

// beforeOperand are keywords after which a value comes.
var beforeOperand = []string{"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "instanceof", "do", "else", "yield", "await", "extends", "default"}

// mayBegin says whether an operand may begin at the position, rather than an operator.
func (r *jsReader) mayBegin() bool {
	last := r.out.at(len(r.out) - 1)
	switch last.kind {
	case none:
		return true
	case name:
		return slices.Contains(beforeOperand, last.text) && !r.out.at(len(r.out)-2).is(punct, ".", "?.")
	case punct:
		switch last.text {
		case ")":
			return r.shut.header
		case "}":
			return r.shut.block
		case "]", "++", "--":
			return false
		}
		return true
	default:
		return false
	}
}

// longPuncts are those that matter as a whole.
var longPuncts = []string{"=>", "?.", "...", "++", "--", "??", "&&", "||", "==", "!=", "<=", ">=", "**"}

func (r *jsReader) punct() {
	c := r.src[r.pos]
	last := r.out.at(len(r.out) - 1)
	switch c {
	case '(':
		r.open = append(r.open, bracket{c: c, header: last.is(name, "if", "while", "for", "with") && !r.out.at(len(r.out)-2).is(punct, ".", "?.")})
	case '[':
		r.open = append(r.open, bracket{c: c})
	case '{':
		r.open = append(r.open, bracket{c: c, block: r.blockFollows(last)})
	case ')', ']', '}':
		r.shut = bracket{}
		if n := len(r.open); n > 0 {
			r.shut, r.open = r.open[n-1], r.open[:n-1]
			if r.shut.c == '`' && c == '}' {
				r.skip(1)
				value, escapes, _ := r.templatePart()
				r.out = append(r.out, token{partial, value, r.line, escapes})
				return
			}
		}
	}
	for _, long := range longPuncts {
		if r.has(long) {
			r.add(punct, long, r.line)
			r.skip(len(long))
			return
		}
	}
	_, size := utf8.DecodeRuneInString(r.src[r.pos:])
	r.add(punct, r.src[r.pos:r.pos+size], r.line)
	r.skip(size)
}

// blockFollows says whether a { after last begins statements, rather than an object.
func (r *jsReader) blockFollows(last token) bool {
	switch last.kind {
	case none:
		return true
	case name:
		return !last.is(name, "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "instanceof", "yield", "await", "default", "export", "import")
	case punct:
		switch last.text {
		case ")", ";", "{", "}", "=>":
			return true
		case ":": // of a label or a case, or of a member of an object
			return len(r.open) == 0 || r.open[len(r.open)-1].block
		}
	}
	return false
}

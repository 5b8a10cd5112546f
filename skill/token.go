package skill

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind uint8

const (
	none    kind = iota // before the first and after the last token
	name                // a name or a keyword
	text                // a string that is all there: no expression in it
	partial             // a string, or a part of one, with expressions in it, which are tokens of their own
	number
	punct
	newline // of Python: the end of a statement
)

// token is one word of a program.
type token struct {
	kind    kind
	text    string // of a string: what it stands for, without quotes
	line    int    // where it begins, from 1
	escapes int    // characters of it that were written as numbers though they could be typed
}

func (t token) is(kind kind, words ...string) bool {
	return t.kind == kind && slices.Contains(words, t.text)
}

// tokens are those of a file, in their order.
type tokens []token

// at is a token, or none.
func (t tokens) at(i int) token {
	if i < 0 || i >= len(t) {
		return token{}
	}
	return t[i]
}

// joined is t, whose place it takes, with strings that are put together in place ("a" + "b") as one.
func (t tokens) joined() tokens {
	all := t[:0]
	for _, next := range t {
		if n := len(all); next.kind == text && n >= 2 && all[n-1].is(punct, "+") && all[n-2].kind == text {
			all[n-2].join(next.text, next.escapes)
			all = all[:n-1]
			continue
		}
		all = append(all, next)
	}
	return all
}

// maxJoined is how much of a string that is made of several is kept: whoever puts together more than a name or a piece of data is told of by then.
const maxJoined = 4096

// join adds a string to another one.
func (t *token) join(more string, escapes int) {
	if len(t.text) < maxJoined {
		t.text += more
	}
	t.escapes += escapes
}

// reader walks through the text of a program.
type reader struct {
	src  string
	pos  int
	line int
	out  tokens
	odd  func(line int, what string) // the text is not what a parser takes; nil: nobody wants to know
}

// peek is the character at an offset from the position, 0 at the end. Positions in bytes: those looked for are ASCII.
func (r *reader) peek(offset int) byte {
	if r.pos+offset >= len(r.src) {
		return 0
	}
	return r.src[r.pos+offset]
}

func (r *reader) has(prefix string) bool { return strings.HasPrefix(r.src[r.pos:], prefix) }

// skip goes n bytes on and counts their lines.
func (r *reader) skip(n int) {
	n = min(n, len(r.src)-r.pos)
	r.line += strings.Count(r.src[r.pos:r.pos+n], "\n")
	r.pos += n
}

func (r *reader) add(kind kind, text string, line int) {
	r.out = append(r.out, token{kind: kind, text: text, line: line})
}

// isName says whether a name may have c in it.
func isName(c rune) bool {
	return c == '_' || c == '$' || unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.Is(unicode.Mn, c) || c == 0x200c || c == 0x200d
}

// name is the name at the position, "" if there is none. It does not move.
func (r *reader) name() string {
	end := r.pos
	for end < len(r.src) {
		c, size := utf8.DecodeRuneInString(r.src[end:])
		if !isName(c) {
			break
		}
		end += size
	}
	return r.src[r.pos:end]
}

// number goes over a number: digits and letters, one point, and the sign of an exponent. A second point begins a member.
func (r *reader) number() {
	begin, point, signed := r.pos, false, false
	for done := false; !done && r.pos < len(r.src); {
		c, so := r.src[r.pos], r.src[begin:r.pos]
		switch {
		case c == '_', c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case c == '.' && !point && !strings.ContainsAny(so, "xXeEjJn"):
			point = true
		case (c == '+' || c == '-') && !signed && so != "" && (so[len(so)-1]|0x20) == 'e' && !strings.ContainsAny(so, "xX"):
			signed = true
		default:
			done = true
			continue
		}
		r.pos++
	}
	r.add(number, r.src[begin:r.pos], r.line)
}

// typable says whether a character could stand in a program as itself.
func typable(c rune) bool { return c > ' ' && c < 0x7f }

// plainName is a name as it counts where languages take letters in other forms for the same (Python by NFKC): wide ones, and those for
// mathematics. other says that there are such.
func plainName(s string) (plain string, other bool) {
	plain = strings.Map(func(c rune) rune {
		p := c
		switch {
		case c >= 0xff21 && c <= 0xff5a: // FULLWIDTH LATIN
			p = c - 0xff21 + 'A'
		case c == 0xff3f:
			p = '_'
		case c >= 0x1d400 && c <= 0x1d6a3: // MATHEMATICAL letters: alphabets of 52, upper case first
			if n := (c - 0x1d400) % 52; n < 26 {
				p = 'A' + n
			} else {
				p = 'a' + n - 26
			}
		}
		if p != c {
			other = true
		}
		return p
	}, s)
	return plain, other
}

// Signs of code that was made not to be read, in any language.
const (
	manyEscapes = 10  // in one string
	longBlob    = 512 // letters of one string that is nothing but base64 or hex
)

// Made when they are needed, as in shape.go.
var (
	hexName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^_0x[0-9a-f]{3,}$`) }) // what a well-known obfuscator calls things
	blob    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9+/_-]*={0,2}$`) })
)

// obfuscated looks for those signs in a token.
func (s *scan) obfuscated(t token) {
	switch {
	case t.kind == name && hexName().MatchString(t.text):
		s.note(t.line, RuleObfuscation, "a name that says nothing: %s", t.text)
	case t.kind == name && t.escapes > 0:
		s.note(t.line, RuleObfuscation, "a name that is not written as it reads: %s", t.text)
	case (t.kind == text || t.kind == partial) && t.escapes >= manyEscapes:
		s.note(t.line, RuleObfuscation, "text that is written as numbers")
	case t.kind == text && len(t.text) >= longBlob && blob().MatchString(t.text):
		s.note(t.line, RuleObfuscation, "a long piece of coded data")
	}
}

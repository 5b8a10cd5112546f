package httpapi

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// badText finds the first string of JSON text that is no text: with bytes that are not UTF-8 (RFC 8259 section 8.1), or with half of
// a surrogate pair (section 8.2). Package json would take either for U+FFFD, and the client would not hear that something else runs
// than it sent. field is its way from root. What is no JSON is left to those who read it.
func badText(text []byte, root string) (field string, bad bool) {
	if utf8.Valid(text) && !bytes.Contains(text, []byte(`\u`)) {
		return "", false
	}
	at := place{root: root}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '{', '[':
			at.in = append(at.in, level{array: c == '[', name: c == '{'})
		case '}', ']':
			at.in = at.in[:max(0, len(at.in)-1)]
		case ',':
			if l := at.last(); l != nil {
				l.index++
				l.name = !l.array
			}
		case ':':
			if l := at.last(); l != nil {
				l.name = false
			}
		case '"':
			end := i + 1
			for ; end < len(text) && text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			s := text[i+1 : min(end, len(text))]
			l := at.last()
			if l != nil && l.name {
				l.key = string(s)
			}
			if !isText(s) {
				return at.String(), true
			}
			i = end
		}
	}
	return "", false
}

// level is an object or an array that a place in JSON text is in.
type level struct {
	array bool
	index int    // of the item
	key   string // of the member
	name  bool   // the next string is a key
}

// place is where something stands in JSON text.
type place struct {
	root string
	in   []level // outermost first
}

func (p *place) last() *level {
	if len(p.in) == 0 {
		return nil
	}
	return &p.in[len(p.in)-1]
}

// maxPlace bounds what an answer says of a place.
const maxPlace = 200

func (p *place) String() string {
	var b strings.Builder
	b.WriteString(p.root)
	for _, l := range p.in {
		switch {
		case b.Len() > maxPlace:
			return b.String()
		case l.array:
			b.WriteString("[" + strconv.Itoa(l.index) + "]")
		default:
			b.WriteString("." + strings.ToValidUTF8(l.key, "\ufffd"))
		}
	}
	return b.String()
}

// isText says whether the inside of a JSON string is text.
func isText(s []byte) bool {
	if !utf8.Valid(s) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		r, ok := escaped(s[i:])
		i++ // what is escaped; a backslash too
		if !ok || !utf16.IsSurrogate(r) {
			continue
		}
		low, _ := escaped(s[min(i+5, len(s)):])
		if utf16.DecodeRune(r, low) == utf8.RuneError {
			return false
		}
		i += 10 // the rest of both
	}
	return true
}

// escaped is the code unit of an escape \uXXXX at the begin of s.
func escaped(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(n), err == nil
}

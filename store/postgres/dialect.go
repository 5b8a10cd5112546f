package postgres

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// numbered is a statement with its question marks as $1, $2, ... Those in strings, quoted names and comments stay.
func numbered(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 16)
	n := 0
	for i := 0; i < len(query); i++ {
		end := i + 1
		switch c := query[i]; {
		case c == '?':
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
			continue
		case c == '\'' || c == '"': // a doubled quote is the end of one and the beginning of the next
			end = after(query, i+1, string(c))
		case strings.HasPrefix(query[i:], "--"):
			end = after(query, i, "\n")
		case strings.HasPrefix(query[i:], "/*"):
			end = after(query, i, "*/")
		}
		b.WriteString(query[i:end])
		i = end - 1
	}
	return b.String()
}

// after is where text goes on after the next mark from start; without one it is its end.
func after(text string, start int, mark string) int {
	if i := strings.Index(text[start:], mark); i >= 0 {
		return start + i + len(mark)
	}
	return len(text)
}

// storable is text as PostgreSQL can hold it: what is no UTF-8 and U+0000 become U+FFFD. SQLite takes all. Nothing that we hash
// or sign has them, but clients may look for such a session or profile, and get "there is none" rather than an error.
func storable(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

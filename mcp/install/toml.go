package install

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// tomlEntry is an entry as a table of TOML.
func tomlEntry(table string, s Server) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s.%s]\ncommand = %s\nargs = [", table, Name, tomlString(s.Command))
	for i, a := range s.Args {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(tomlString(a))
	}
	b.WriteString("]\ntool_timeout_sec = 130\n") // 60 if not said; a run may take 120 s
	for i, name := range slices.Sorted(maps.Keys(s.Env)) {
		if i == 0 {
			fmt.Fprintf(&b, "\n[%s.%s.env]\n", table, Name)
		}
		fmt.Fprintf(&b, "%s = %s\n", tomlString(name), tomlString(s.Env[name]))
	}
	return b.String()
}

// tomlString is a basic string (TOML 1.0).
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// putTOML returns text with entry in place of the table [table.name] and those below it, or at its end. All other bytes stay.
func putTOML(text []byte, table, name, entry string) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	newline := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		newline = "\r\n"
		entry = strings.ReplaceAll(entry, "\n", newline)
	}
	lines, err := tomlLines(text)
	if err != nil {
		return nil, err
	}
	from, to := -1, -1 // the lines of the tables that go
	inside := false
	current := []string(nil)
	for i, l := range lines {
		switch {
		case l.header != nil:
			ours := len(l.header) >= 2 && l.header[0] == table && l.header[1] == name
			if ours && l.array {
				return nil, fmt.Errorf("[[%s.%s]] is an array", table, name)
			}
			if ours && from >= 0 && !inside {
				return nil, fmt.Errorf("[%s.%s] is in two places", table, name)
			}
			if inside = ours; ours && from < 0 {
				from = i
			}
			current = l.header
		case l.key != nil:
			full := append(slices.Clone(current), l.key...)
			if !inside && len(full) >= 1 && full[0] == table && (len(full) == 1 || full[1] == name) {
				return nil, fmt.Errorf("%s is written inline, by the key %s", strings.Join(full, "."), strings.Join(l.key, "."))
			}
		}
		if inside && !l.blank {
			to = i + 1 // blank lines and comments behind belong to what follows
		}
	}
	if from >= 0 {
		begin, end := lines[from].from, lines[to-1].to
		if string(text[begin:end]) == entry || string(text[begin:end])+newline == entry {
			return text, nil
		}
		return splice(text, begin, end, []byte(entry)), nil
	}
	out := bytes.Clone(text)
	if n := len(out); n > 0 && out[n-1] != '\n' {
		out = append(out, newline...)
	}
	if len(bytes.TrimSpace(out)) > 0 && !bytes.HasSuffix(out, []byte(newline+newline)) {
		out = append(out, newline...)
	}
	return append(out, entry...), nil
}

// tomlLine is one statement: a line, or several where a value goes over them.
type tomlLine struct {
	from, to int
	header   []string // of a table
	array    bool
	key      []string // of a value
	blank    bool     // white space or a comment
}

// tomlLines splits text into its statements. It understands as much of TOML as is needed not to take the inside of a value for a
// table.
func tomlLines(text []byte) (lines []tomlLine, err error) {
	at := 0
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		at = 3
	}
	for at < len(text) {
		s := scanner{text: text, at: at}
		l := tomlLine{from: at}
		s.space()
		switch {
		case s.done() || s.peek() == '\n' || s.peek() == '\r' || s.peek() == '#':
			l.blank = true
		case s.peek() == '[':
			if s.at++; !s.done() && s.peek() == '[' {
				s.at++
				l.array = true
			}
			if l.header, err = s.key(); err != nil {
				return nil, s.fault(err)
			}
			for range 1 + map[bool]int{true: 1}[l.array] {
				if s.done() || s.peek() != ']' {
					return nil, s.fault(errors.New("a table's name does not end"))
				}
				s.at++
			}
		default:
			if l.key, err = s.key(); err != nil {
				return nil, s.fault(err)
			}
			if s.done() || s.peek() != '=' {
				return nil, s.fault(errors.New("a key has no value"))
			}
			s.at++
			if err := s.value(); err != nil {
				return nil, s.fault(err)
			}
		}
		s.space()
		if !s.done() && s.peek() == '#' {
			s.toEnd()
		}
		bare := !s.done() && s.peek() == '\r'
		if bare {
			s.at++
		}
		if s.done() && bare || !s.done() && s.peek() != '\n' {
			return nil, s.fault(errors.New("a line goes on behind its value"))
		}
		if !s.done() {
			s.at++
		}
		l.to = s.at
		lines = append(lines, l)
		at = s.at
	}
	return lines, nil
}

type scanner struct {
	text []byte
	at   int
}

func (s *scanner) done() bool { return s.at >= len(s.text) }
func (s *scanner) peek() byte { return s.text[s.at] }

func (s *scanner) fault(err error) error {
	return fmt.Errorf("it is not TOML: line %d: %w", 1+bytes.Count(s.text[:min(s.at, len(s.text))], []byte("\n")), err)
}

func (s *scanner) space() {
	for !s.done() && (s.peek() == ' ' || s.peek() == '\t') {
		s.at++
	}
}

func (s *scanner) toEnd() {
	for !s.done() && s.peek() != '\n' && s.peek() != '\r' {
		s.at++
	}
}

// key reads a dotted key, with the white space around it.
func (s *scanner) key() (parts []string, err error) {
	for {
		s.space()
		if s.done() {
			return nil, errors.New("a key is missing")
		}
		switch c := s.peek(); {
		case c == '"' || c == '\'':
			from := s.at
			if err := s.text1(c); err != nil {
				return nil, err
			}
			part := string(s.text[from+1 : s.at-1])
			if c == '"' && strings.Contains(part, `\`) {
				return nil, errors.New("a key with escapes")
			}
			parts = append(parts, part)
		default:
			from := s.at
			for !s.done() && bare(s.peek()) {
				s.at++
			}
			if s.at == from {
				return nil, fmt.Errorf("%q is no key", s.text[from])
			}
			parts = append(parts, string(s.text[from:s.at]))
		}
		s.space()
		if s.done() || s.peek() != '.' {
			return parts, nil
		}
		s.at++
	}
}

func bare(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// value reads a value, over lines if it goes over lines.
func (s *scanner) value() error {
	var open []byte // brackets that wait for their end
	for {
		if s.done() {
			if len(open) > 0 {
				return errors.New("a value does not end")
			}
			return nil
		}
		switch c := s.peek(); c {
		case '"', '\'':
			if err := s.str(c); err != nil {
				return err
			}
			continue
		case '[', '{':
			open = append(open, c+2) // ] and } in ASCII
		case ']', '}':
			if len(open) == 0 || open[len(open)-1] != c {
				return fmt.Errorf("%q has no begin", c)
			}
			open = open[:len(open)-1]
		case '#':
			if len(open) == 0 {
				return nil
			}
			s.toEnd()
			continue
		case '\n', '\r':
			if len(open) == 0 {
				return nil
			}
		}
		s.at++
	}
}

// str reads a string of one line, or of several: three quotes.
func (s *scanner) str(q byte) error {
	three := bytes.Repeat([]byte{q}, 3)
	if !bytes.HasPrefix(s.text[s.at:], three) {
		return s.text1(q)
	}
	for s.at += 3; !s.done(); s.at++ {
		switch {
		case s.peek() == '\\' && q == '"':
			s.at++
		case bytes.HasPrefix(s.text[s.at:], three):
			for s.at += 3; !s.done() && s.peek() == q; s.at++ { // up to two quotes belong to the string
			}
			return nil
		}
	}
	return errors.New("a string does not end")
}

// text1 reads a string of one line.
func (s *scanner) text1(q byte) error {
	for s.at++; !s.done() && s.peek() != '\n'; s.at++ {
		switch s.peek() {
		case '\\':
			if q == '"' {
				s.at++
			}
		case q:
			s.at++
			return nil
		}
	}
	return errors.New("a string does not end")
}

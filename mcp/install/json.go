package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// putJSON returns text with one member more, or another value of it, in the object that keys lead to. All other bytes stay. What is
// missing on the way is made. An empty text is an empty object.
func putJSON(text []byte, keys []string, name string, value []byte) ([]byte, error) {
	bom := []byte("\xef\xbb\xbf")
	rest, hasBOM := bytes.CutPrefix(text, bom)
	if len(bytes.TrimSpace(rest)) == 0 {
		rest = []byte("{}\n")
	}
	if !utf8.Valid(rest) {
		return nil, errors.New("it is not UTF-8")
	}
	if err := valid(rest); err != nil {
		return nil, err
	}
	out, err := put(rest, 0, keys, name, value)
	if err != nil {
		return nil, err
	}
	if err := valid(out); err != nil {
		return nil, fmt.Errorf("what it would become is no JSON: %w", err) // a mistake of ours is not written
	}
	if hasBOM {
		out = append(bytes.Clone(bom), out...)
	}
	return out, nil
}

func valid(text []byte) error {
	var v json.RawMessage
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("it is not plain JSON (comments?): %w", err)
	}
	return nil
}

// member is one member of an object: where its key begins, and its value.
type member struct {
	key              string
	from, value, end int // offsets in the whole text
}

// put works on the object that begins at from.
func put(text []byte, from int, keys []string, name string, value []byte) ([]byte, error) {
	members, open, shut, err := object(text, from)
	if err != nil {
		return nil, err
	}
	want := name
	if len(keys) > 0 {
		want = keys[0]
	}
	found := -1
	for i, m := range members {
		if m.key != want {
			continue
		}
		if found >= 0 {
			return nil, fmt.Errorf("it has %q twice", want)
		}
		found = i
	}
	if found >= 0 && len(keys) > 0 {
		if text[members[found].value] != '{' {
			return nil, fmt.Errorf("%q is no object", want)
		}
		return put(text, members[found].value, keys[1:], name, value)
	}
	indent, deeper, newline := layout(text, members, open, shut)
	for i := len(keys) - 1; i >= 1; i-- { // what is missing below
		value = []byte("{" + quote(name) + ": " + string(value) + "}")
		name = keys[i]
	}
	if len(keys) > 0 {
		value = []byte("{" + quote(name) + ": " + string(value) + "}")
	}
	if newline != "" {
		var b bytes.Buffer
		if err := json.Indent(&b, value, indent, deeper); err != nil {
			return nil, err
		}
		value = bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte(newline))
	}
	if found >= 0 {
		m := members[found]
		if equal(text[m.value:m.end], value) {
			return text, nil
		}
		return splice(text, m.value, m.end, value), nil
	}
	line := quote(want) + ": " + string(value)
	if len(members) > 0 {
		at := members[len(members)-1].end
		return splice(text, at, at, []byte(","+sep(newline, indent)+line)), nil
	}
	after := newline
	if newline != "" {
		after += strings.TrimSuffix(indent, deeper)
	}
	return splice(text, open+1, shut, []byte(sep2(newline, indent)+line+after)), nil
}

func sep(newline, indent string) string {
	if newline == "" {
		return " "
	}
	return newline + indent
}

func sep2(newline, indent string) string {
	if newline == "" {
		return ""
	}
	return newline + indent
}

func splice(text []byte, from, to int, with []byte) []byte {
	out := append([]byte{}, text[:from]...)
	out = append(out, with...)
	return append(out, text[to:]...)
}

// equal says whether two values are the same but for white space.
func equal(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can be encoded
	}
	return string(text)
}

// object reads the members of the object that begins at from. open and shut are the offsets of its braces.
func object(text []byte, from int) (members []member, open, shut int, err error) {
	dec := json.NewDecoder(bytes.NewReader(text[from:]))
	at := func() int { return from + int(dec.InputOffset()) }
	t, err := dec.Token()
	if err != nil || t != json.Delim('{') {
		return nil, 0, 0, errors.New("it is no JSON object")
	}
	open = at() - 1
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, 0, 0, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, 0, 0, io.ErrUnexpectedEOF
		}
		m := member{key: key, from: at()}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, 0, 0, err
		}
		m.end = at()
		m.value = m.end - len(v)
		members = append(members, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, 0, 0, err
	}
	return members, open, at() - 1, nil
}

// layout is how the members of an object are written: the white space before one, one step of it, and the end of a line, which is
// empty where all is on one line.
func layout(text []byte, members []member, open, shut int) (indent, step, newline string) {
	newline = "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		newline = "\r\n"
	}
	step = "  "
	if i := bytes.Index(text, []byte("\n\t")); i >= 0 {
		step = "\t"
	} else if i := bytes.IndexByte(text, '\n'); i >= 0 {
		if n := len(text[i+1:]) - len(bytes.TrimLeft(text[i+1:], " ")); n > 0 && n <= 8 {
			step = strings.Repeat(" ", n)
		}
	}
	line := text[bytes.LastIndexByte(text[:open], '\n')+1 : open]
	before := string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
	if len(members) == 0 {
		return before + step, step, newline
	}
	first := text[open+1 : members[0].value]
	if !bytes.Contains(first[:bytes.IndexByte(first, '"')], []byte("\n")) {
		return "", "", "" // on one line
	}
	first = first[:bytes.IndexByte(first, '"')]
	return string(first[bytes.LastIndexByte(first, '\n')+1:]), step, newline
}

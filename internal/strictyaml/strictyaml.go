// Package strictyaml reads small YAML files that people write by hand: configuration and profiles.
//
// It is stricter than YAML. A key that nobody asked for, a key given twice, an alias, a merge key or a second document
// is a fault; every fault names its line and, for a misspelt key, the nearest known one; and all faults of a file are
// reported at once. Safe for hostile input: aliases, which could expand without bound, are refused unexpanded, and
// nesting is limited to [maxDepth].
package strictyaml

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/silk-sandbox/silk/internal/nearest"
)

const (
	maxBytes = 1 << 20 // a configuration file is a few KiB; more is a mistake
	maxDepth = 64      // flow brackets open at once, or columns of indentation; ours need 8
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	Line int // from 1; 0 if it is not known
	Text string
}

// Error is everything that is wrong with a file.
type Error struct {
	File   string
	Faults []Fault // in the order of lines
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = e.File + ": " + f.Text
		if f.Line > 0 {
			lines[i] = e.File + ":" + strconv.Itoa(f.Line) + ": " + f.Text
		}
	}
	return strings.Join(lines, "\n")
}

// Node is one value in a file. The zero Node is an absent value.
type Node struct{ n ast.Node }

// Decoder reads one file and collects its faults. The zero Decoder reads nodes of a file without a name. Not safe for concurrent use.
type Decoder struct {
	file   string
	faults []Fault
}

// Open parses data, which came from file (a name for messages, nothing is read). Ask Err at the end.
func Open(file string, data []byte) (d *Decoder, root Node) {
	d = &Decoder{file: file}
	// The parser is young: a panic in it is a fault of the file, not of the program that reads it.
	defer func() {
		if recover() != nil {
			d.faults, root = []Fault{{Text: "cannot be read as YAML"}}, Node{}
		}
	}()
	switch {
	case len(data) > maxBytes:
		d.faults = append(d.faults, Fault{Text: fmt.Sprintf("is larger than %d bytes", maxBytes)})
		return d, Node{}
	case depth(data) > maxDepth:
		d.faults = append(d.faults, Fault{Text: fmt.Sprintf("nests deeper than %d levels or columns", maxDepth)})
		return d, Node{}
	}
	if line := loneReturn(data); line > 0 {
		d.faults = append(d.faults, Fault{line, "a carriage return ends no line here"})
		return d, Node{}
	}
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		d.faults = append(d.faults, syntaxFault(err))
		return d, Node{}
	}
	for i, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 {
			d.Fail(Node{doc.Body}, "a second document is not allowed")
			break
		}
		root = Node{doc.Body}
	}
	return d, root
}

// loneReturn is the line of a carriage return without a line feed, or 0. YAML would let it end a line, which the parser
// does not always do: what stands behind `---\r---` it loses.
func loneReturn(data []byte) (line int) {
	for i, c := range data {
		if c == '\r' && (i+1 == len(data) || data[i+1] != '\n') {
			return 1 + bytes.Count(data[:i], []byte{'\n'})
		}
	}
	return 0
}

// depth is an upper bound of the nesting, so that a recursive parser is never asked for more: flow brackets opened at
// once, or the deepest indentation, which opens at most one level for each column.
func depth(data []byte) int {
	var open, deepest int
	for line := range strings.Lines(string(data)) {
		text := strings.TrimLeft(line, " -?:\t")
		deepest = max(deepest, len(line)-len(text))
		for _, c := range text {
			switch c {
			case '[', '{':
				open++
				deepest = max(deepest, open)
			case ']', '}':
				open = max(0, open-1)
			}
		}
	}
	return deepest
}

func syntaxFault(err error) Fault {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		return Fault{at.GetToken().Position.Line, at.GetMessage()}
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return Fault{Text: text}
}

// Fail records a fault at n.
func (d *Decoder) Fail(n Node, format string, args ...any) {
	d.faults = append(d.faults, Fault{n.Line(), fmt.Sprintf(format, args...)})
}

// Faults is how many faults there are so far: whoever checks a value as a whole asks whether its parts could be read.
func (d *Decoder) Faults() int { return len(d.faults) }

// Err returns an [*Error] with every fault so far, or nil.
func (d *Decoder) Err() error {
	if len(d.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(d.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return &Error{d.file, d.faults}
}

// Line is the line of n in its file, from 1, or 0 for an absent value.
func (n Node) Line() int {
	if t := n.token(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// Absent says that there is no value: the key is missing, or nothing or null stands behind it.
func (n Node) Absent() bool {
	if n.n == nil {
		return true
	}
	_, null := n.n.(*ast.NullNode)
	return null
}

func (n Node) token() *token.Token {
	if n.n == nil {
		return nil
	}
	if m, ok := n.n.(*ast.MappingNode); ok && len(m.Values) > 0 { // its own token is the first colon
		return m.Values[0].Key.GetToken()
	}
	return n.n.GetToken()
}

// Fields reads a mapping with known keys and calls for each key that is there, in the file's order. what names the
// mapping in messages: "limits". An absent mapping calls nothing.
func (d *Decoder) Fields(n Node, what string, fields map[string]func(Node)) {
	known := make([]string, 0, len(fields))
	for k := range fields {
		known = append(known, k)
	}
	slices.Sort(known)
	d.Entries(n, what, func(key string, at, value Node) {
		if set, ok := fields[key]; ok {
			set(value)
			return
		}
		hint := "known keys: " + strings.Join(known, ", ")
		if near := nearest.To(key, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		d.Fail(at, "unknown key %q in %s; %s", key, what, hint)
	})
}

// Entries reads a mapping with free keys and calls for each one, in the file's order. at is where the key stands.
func (d *Decoder) Entries(n Node, what string, entry func(key string, at, value Node)) {
	if n.Absent() {
		return
	}
	var values []*ast.MappingValueNode
	switch m := n.n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.Fail(n, "%s must be a mapping (key: value), not %s", what, describe(n))
		return
	}
	seen := map[string]int{}
	for _, v := range values {
		at, value := Node{v.Key}, Node{v.Value}
		key, ok := scalar(Node{v.Key})
		if !ok {
			d.Fail(at, "a key in %s must be plain text, not %s", what, describe(at))
			continue
		}
		if first, dup := seen[key]; dup {
			d.Fail(at, "key %q in %s is already set in line %d", key, what, first)
			continue
		}
		seen[key] = at.Line()
		entry(key, at, value)
	}
}

// Text returns the value as it stands in the file; a number or boolean is text too.
func (d *Decoder) Text(n Node, what string) string {
	s, ok := scalar(n)
	if !ok {
		d.Fail(n, "%s must be text, not %s", what, describe(n))
	}
	return s
}

// Texts returns a list of texts.
func (d *Decoder) Texts(n Node, what string) []string {
	var out []string
	d.Items(n, what, func(item Node) { out = append(out, d.Text(item, "an entry of "+what)) })
	return out
}

// Items reads a list and calls for each entry, in the file's order. An absent list calls nothing.
func (d *Decoder) Items(n Node, what string, item func(Node)) {
	if n.Absent() {
		return
	}
	list, ok := n.n.(*ast.SequenceNode)
	if !ok {
		d.Fail(n, "%s must be a list, not %s", what, describe(n))
		return
	}
	for _, v := range list.Values {
		item(Node{v})
	}
}

func scalar(n Node) (string, bool) {
	switch v := n.n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return v.GetToken().Value, true
	}
	return "", false
}

func describe(n Node) string {
	switch n.n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		return "an anchor, alias or merge key (they are not allowed)"
	case *ast.TagNode:
		return "a tagged value (tags are not allowed)"
	}
	if s, ok := scalar(n); ok {
		return strconv.Quote(s)
	}
	return "this"
}

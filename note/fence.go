package note

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// fence is a fenced block of code as the parser sees it.
type fence struct {
	open, close int // lines; close is the last one of the block if it is not closed
	closed      bool
	comment     bool // it is in a comment of Obsidian's
	info        string
	code        string
	prefix      string
}

// fences finds the fenced blocks of code from line body on, if it can be done in good time.
func (n *Note) fences(body int) (found []*fence, fault string) {
	if body >= len(n.lines) {
		return nil, ""
	}
	offset := n.lines[body].start
	if body == 0 {
		offset = len(n.bom())
	}
	src := linefeeds(n.text[offset:])
	flat := shallow(src)
	if tooDeep(flat) {
		return nil, "its lists and quotes are too deep for so many lines"
	}
	watch := &fenceParser{BlockParser: parser.NewFencedCodeBlockParser(), closers: map[ast.Node]int{}}
	blocks := parser.DefaultBlockParsers()
	for i, p := range blocks {
		if _, ok := p.Value.(interface{ CanAcceptIndentedLine() bool }); ok && p.Priority == fencePriority {
			blocks[i] = util.Prioritized(watch, fencePriority)
		}
	}
	parser.NewParser(parser.WithBlockParsers(blocks...)).Parse(text.NewReader(flat))

	for _, o := range watch.opened {
		if o.node.Parent() == nil {
			continue // the parser thought better of it
		}
		f := &fence{open: body + o.line}
		f.close, f.closed = watch.closers[o.node], true
		if f.close += body; f.close == body {
			f.close, f.closed = f.open+o.node.Lines().Len(), false
		}
		f.close = min(f.close, len(n.lines)-1)
		if o.node.Info != nil {
			f.info = string(o.node.Info.Segment.Value(src))
		}
		f.code = strings.ReplaceAll(string(o.node.Lines().Value(src)), "\r\n", "\n")
		f.prefix = n.continuation(f.open, offset+o.at)
		found = append(found, f)
	}
	return found, ""
}

// fencePriority is that of the parser of fences among goldmark's own.
const fencePriority = 700

// continuation is what a line begins with to continue the lists and quotes that the line of a fence at offset at is in: quote
// markers as they are, and the markers of list items that begin there as spaces of the same width.
func (n *Note) continuation(line, at int) string {
	l := n.lines[line]
	start := l.start
	if line == 0 {
		start += len(n.bom())
	}
	for at < l.end && n.text[at] != '`' && n.text[at] != '~' { // its own indentation
		at++
	}
	prefix := []byte(string(n.text[start:max(start, at)]))
	for i, c := range prefix {
		if c != '>' && c != '\t' {
			prefix[i] = ' '
		}
	}
	return string(prefix)
}

// bom is the byte order mark that some editors put at the begin of a file.
func (n *Note) bom() string {
	const mark = "\ufeff"
	if bytes.HasPrefix(n.text, []byte(mark)) {
		return mark
	}
	return ""
}

// linefeeds is text in which each carriage return that ends a line by itself is a line feed, since the parser knows only those.
func linefeeds(text []byte) []byte {
	if !bytes.ContainsRune(text, '\r') {
		return text
	}
	out := bytes.Clone(text)
	for i, c := range out {
		if c == '\r' && (i+1 == len(out) || out[i+1] != '\n') {
			out[i] = '\n'
		}
	}
	return out
}

// fenceParser is goldmark's parser of fences, which remembers where they begin and which line closes them: its tree does not say.
type fenceParser struct {
	parser.BlockParser

	opened  []openFence
	closers map[ast.Node]int
}

type openFence struct {
	node *ast.FencedCodeBlock
	line int
	at   int // offset of the first byte that belongs to no list or quote around it
}

// Open implements parser.BlockParser.
func (p *fenceParser) Open(parent ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, at := r.Position()
	node, state := p.BlockParser.Open(parent, r, pc)
	if f, ok := node.(*ast.FencedCodeBlock); ok {
		p.opened = append(p.opened, openFence{f, line, at.Start})
	}
	return node, state
}

// Continue implements parser.BlockParser.
func (p *fenceParser) Continue(node ast.Node, r text.Reader, pc parser.Context) parser.State {
	line, _ := r.Position()
	state := p.BlockParser.Continue(node, r, pc)
	if state == parser.Close {
		p.closers[node] = line
	}
	return state
}

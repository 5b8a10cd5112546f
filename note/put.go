package note

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Put returns the note with the result of a run under block i, in place of an earlier one. A note with the same result under the
// block comes out as it is. The block must be one whose fence is closed.
func (n *Note) Put(i int, r *Result) []byte {
	b := &n.Blocks[i]
	lines := r.lines()
	start, end := b.after, b.after
	if b.Result != nil {
		start, end = b.Result.start, b.Result.end
	}
	if n.mustSeparate(b, lines, end) {
		lines = append(lines, separator)
	}
	var out bytes.Buffer
	out.Write(n.text[:start])
	if start > 0 && n.text[start-1] != '\n' && n.text[start-1] != '\r' {
		out.WriteString(b.newline) // the note ends with the fence
	}
	for i, l := range lines {
		out.WriteString(b.prefix + l)
		if i < len(lines)-1 || end < len(n.text) || n.ended(b) {
			out.WriteString(b.newline)
		}
	}
	out.Write(n.text[end:])
	return out.Bytes()
}

// ended says whether the note's last line is ended, as far as it is not ours.
func (n *Note) ended(b *Block) bool {
	end := b.after
	if b.Result != nil {
		end = b.Result.end
	}
	return end > 0 && (n.text[end-1] == '\n' || n.text[end-1] == '\r')
}

// Clear returns the note without the results of blocks, which are given in the order of the note: as it was before Put.
func (n *Note) Clear(blocks ...int) []byte {
	var out []byte
	at := 0
	for _, i := range blocks {
		b := &n.Blocks[i]
		if b.Result == nil {
			continue
		}
		start := b.Result.start
		if b.Result.end == len(n.text) && !n.ended(b) { // Put has ended the line before
			start = n.lines[b.Result.Line-1].end
		}
		out = append(out, n.text[at:start]...)
		at = b.Result.end
	}
	return append(out, n.text[at:]...)
}

// mustSeparate says whether what follows a result at offset end would become a part of it: a quote would, what is like our separator
// would to us, and where the result does not end with a fence, most lines would (CommonMark 5.1: laziness).
func (n *Note) mustSeparate(b *Block, lines []string, end int) bool {
	i := slices.IndexFunc(n.lines, func(l line) bool { return l.start == end })
	if i < 0 {
		return false
	}
	next := n.content(i)
	rest, ok := unquote(next, strings.Count(b.prefix, ">"))
	if !ok {
		rest = strings.TrimLeft(next, " \t>") // the quote around is over, unless this continues a paragraph in it
	}
	rest = strings.TrimLeft(rest, " \t")
	if rest == "" {
		return false
	}
	last := strings.TrimLeft(lines[len(lines)-1], "> ")
	fenced := strings.HasPrefix(last, "```") || strings.HasPrefix(last, "~~~")
	return !fenced || strings.HasPrefix(rest, ">") || strings.HasPrefix(rest, separator)
}

// Aside returns a note of its own with a block and its result: for one that is not in its note any more.
func Aside(b Block, r *Result) []byte {
	info := b.Language
	for _, k := range sortedKeys(b.Attributes) {
		if k == "profile" { // the one that a reader needs to run it again
			info += " {silk profile=" + strconv.Quote(b.Attributes[k]) + "}"
		}
	}
	lines := fenced(info, strings.Split(strings.TrimSuffix(b.Code, "\n"), "\n"))
	n := Parse([]byte(strings.Join(lines, "\n") + "\n"))
	return n.Put(0, r)
}

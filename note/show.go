package note

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/display"
)

// Shown is a result that the program shows and that is no picture: see package display.
type Shown struct {
	Path    string // in the run
	MIME    string // as display.Check says
	Bytes   int64
	Content []byte // nil: it is named only
}

// What a note has of results.
const (
	maxShown        = 20
	maxShownBytes   = 256 << 10 // of one whose content is in the note
	maxTableRows    = 50
	maxTableColumns = 20
)

// shownText is what a note shows of a result that is text.
var shownText = window{headLines: 50, headBytes: 16 << 10, tailLines: 1, tailBytes: 2 << 10, columns: 2000}

// Results are the results of a run that are no pictures, in their order. read reads an artifact; what it cannot read is named only. HTML and
// SVG are never read: they are programs, and Obsidian, or a browser that opens the file from the vault, would execute them.
func Results(artifacts []Artifact, read func(path string) ([]byte, error)) (list []Shown) {
	for _, a := range artifacts {
		if a.Display == "" || a.Display == display.PNG || len(list) == maxShown {
			continue
		}
		s := Shown{Path: a.Path, MIME: a.Display, Bytes: a.Bytes}
		if a.Display != display.HTML && a.Display != display.SVG && a.Bytes <= maxShownBytes {
			if text, err := read(a.Path); err == nil {
				s.Content = text
			}
		}
		list = append(list, s)
	}
	return list
}

// shown are the lines of pictures and other results: those that the program shows, in their order, then pictures that it only left.
func (r *Result) shown() (out []string) {
	type part struct {
		path  string
		lines []string
	}
	var parts []part
	var left []string
	for _, img := range r.Images {
		lines := []string{"![[" + img.Path + "]]"}
		if _, is := display.Named(img.Artifact); is {
			parts = append(parts, part{img.Artifact, lines})
		} else {
			left = append(left, lines...)
		}
	}
	for _, s := range r.Results {
		parts = append(parts, part{s.Path, s.lines(r)})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.path, b.path) })
	for _, p := range parts {
		out = append(out, p.lines...)
	}
	return append(out, left...)
}

// lines are those of one result that is no picture.
func (s Shown) lines(r *Result) []string {
	if s.Content != nil && s.MIME == display.Table {
		if g, err := display.ParseTable(s.Content); err == nil {
			return tableLines(g)
		}
	} else if s.Content != nil {
		return plain(s.Content, shownText).fenced()
	}
	text := fmt.Sprintf("%sthe result %s, %s, %d bytes, is not shown here", remark, word(path.Base(s.Path)), strings.ReplaceAll(s.MIME, "+", "-"), s.Bytes)
	if !r.Stable {
		text += dot + "[the run](" + logAddress + word(r.Run) + ")"
	}
	return []string{text}
}

// tableLines are a table between empty lines, which Obsidian wants, after a remark if it is not all of it.
func tableLines(g display.Grid) (out []string) {
	rows, columns := min(len(g.Rows), maxTableRows), min(len(g.Columns), maxTableColumns)
	var cut []string
	if rows < g.Total {
		cut = append(cut, fmt.Sprintf("%d of %d rows", rows, g.Total))
	}
	if columns < len(g.Columns) {
		cut = append(cut, fmt.Sprintf("%d of %d columns", columns, len(g.Columns)))
	}
	if cut != nil {
		out = append(out, remark+"of a table "+strings.Join(cut, " and "))
	}
	return slices.Concat(out, []string{""}, g.Markdown(rows, columns), []string{""})
}

// isRow says whether a line in a result is one of a table.
func isRow(line string) bool { return strings.HasPrefix(line, "| ") && strings.HasSuffix(line, " |") }

// beside says whether the line before or after an empty one, in quotes of a level, is one of a table.
func (n *Note) beside(at, level int) bool {
	for _, i := range []int{at - 1, at + 1} {
		if i >= len(n.lines) {
			continue
		}
		if rest, ok := unquote(n.content(i), level); ok && isRow(rest) {
			return true
		}
	}
	return false
}

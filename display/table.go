package display

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Bounds of tables.
const (
	MaxColumns = 64
	MaxRows    = 1000
)

// Grid is a table: JSON of the form {"columns": ["a", "b"], "rows": [[1, "x"]], "total": 5000}.
type Grid struct {
	Columns []string
	Rows    [][]string // as people read them: text, numbers as they were written, true, false; null is nothing
	Total   int        // rows that there are, of which these are the first
}

// ParseTable reads a table. Fields that it does not know, rows that are shorter or longer than the head, and cells that are lists or objects
// are errors.
func ParseTable(content []byte) (Grid, error) {
	var in struct {
		Columns []string            `json:"columns"`
		Rows    [][]json.RawMessage `json:"rows"`
		Total   *int                `json:"total"`
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return Grid{}, fmt.Errorf("the table cannot be read: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Grid{}, errors.New("the table cannot be read: there is something after it")
	}
	switch {
	case len(in.Columns) == 0 || len(in.Columns) > MaxColumns:
		return Grid{}, fmt.Errorf("the table has %d columns, not 1 to %d", len(in.Columns), MaxColumns)
	case len(in.Rows) > MaxRows:
		return Grid{}, fmt.Errorf("the table has %d rows, more than %d", len(in.Rows), MaxRows)
	case in.Total != nil && *in.Total < len(in.Rows):
		return Grid{}, fmt.Errorf("the table has %d rows, and total is %d", len(in.Rows), *in.Total)
	}
	g := Grid{Columns: in.Columns, Total: len(in.Rows)}
	if in.Total != nil {
		g.Total = *in.Total
	}
	for i, row := range in.Rows {
		if len(row) != len(in.Columns) {
			return Grid{}, fmt.Errorf("row %d of the table has %d cells, the head %d", i+1, len(row), len(in.Columns))
		}
		cells := make([]string, len(row))
		for j, raw := range row {
			cell, err := cellText(raw)
			if err != nil {
				return Grid{}, fmt.Errorf("row %d of the table: %w", i+1, err)
			}
			cells[j] = cell
		}
		g.Rows = append(g.Rows, cells)
	}
	return g, nil
}

func cellText(raw json.RawMessage) (string, error) {
	text := strings.TrimSpace(string(raw))
	switch {
	case text == "null" || text == "":
		return "", nil
	case text[0] == '[' || text[0] == '{':
		return "", errors.New("a cell is a list or an object")
	case text[0] == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	return text, nil
}

// Markdown is the table as lines of Markdown, with so many rows and columns at most. Whatever a cell has is text there: each character that
// could mean something in Markdown, HTML or Obsidian is written as its number, and no cell has a line break.
func (g Grid) Markdown(rows, columns int) []string {
	columns = min(columns, len(g.Columns))
	line := func(cells []string) string {
		var b strings.Builder
		b.WriteString("|")
		for _, c := range cells[:columns] {
			b.WriteString(" " + Inert(c) + " |")
		}
		return b.String()
	}
	lines := []string{line(g.Columns), "|" + strings.Repeat(" --- |", columns)}
	for _, row := range g.Rows[:min(rows, len(g.Rows))] {
		lines = append(lines, line(row))
	}
	return lines
}

// maxCell bounds a cell in Markdown, in characters.
const maxCell = 200

// Inert is text on one line that means nothing in Markdown: what is neither a letter, a digit nor harmless is written as its number
// (CommonMark, section 6.2: such references are never structure). What cannot be seen is left out.
func Inert(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > maxCell {
			b.WriteString("…")
			break
		}
		switch {
		case r == ' ' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			b.WriteRune(r)
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case r == '.' || r == ',':
			b.WriteRune(r)
		case !unicode.IsPrint(r): // control codes, and what turns the reading direction
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String()
}

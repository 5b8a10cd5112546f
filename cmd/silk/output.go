package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

// jsonLine is v as one line of JSON. v has nothing that JSON cannot say.
func jsonLine(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // our own types
	}
	return []byte(b.String())
}

// table prints rows in columns that line up. The first row is the heading.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// narrowTable is table with each row on one line of the terminal, if stdout is one: what does not fit is cut off, and --json has it.
func (a *app) narrowTable(rows [][]string) error {
	if !isTerminal(a.out) {
		return a.table(rows)
	}
	columns, _, err := term.GetSize(int(a.out.(*os.File).Fd()))
	if err != nil || columns < len(cut) {
		return a.table(rows)
	}
	var whole bytes.Buffer
	w := tabwriter.NewWriter(&whole, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a buffer takes everything
	for line := range strings.Lines(whole.String()) {
		if err := a.print("%s", cutLine(strings.TrimSuffix(line, "\n"), columns)); err != nil {
			return err
		}
	}
	return nil
}

// cut is the end of a line that goes on.
const cut = "..."

// cutLine is a line of at most so many characters, which are as wide as others.
func cutLine(line string, columns int) string {
	if runes := []rune(line); len(runes) > columns {
		return string(runes[:columns-len(cut)]) + cut
	}
	return line
}

// print writes text for people to stdout.
func (a *app) print(format string, args ...any) error {
	if _, err := fmt.Fprintf(a.out, format+"\n", args...); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// bold makes text stand out on stderr, if that is a terminal and NO_COLOR (no-color.org) is not set.
func (a *app) bold(text string) string { return a.colour(a.err, "1", text) }

func (a *app) colour(w io.Writer, code, text string) string {
	if !isTerminal(w) || a.env("NO_COLOR") != "" || a.env("TERM") == "dumb" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// sizeText is a size for people: "1.4 MiB".
func sizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), 0
	for f >= 1024 && unit < 4 {
		f /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", f, [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}

// timeText is a moment for people, in their time zone.
func timeText(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05") }

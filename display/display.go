// Package display reads what a program shows besides what it prints: pictures, tables, JSON, HTML.
//
// A program shows something by a file in [Dir], whose name says what it is: 0001.png. The order of the names is that of the results, and
// a result is changed in place by writing its file again: what counts is what is there when the program has ended. The modules `silk` for Python and
// Node in the lab images do just that.
//
// All of it is hostile. [Check] looks at name, size and content, and what it lets pass is still data: HTML and SVG are not to be given to
// anything that executes them.
package display

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Dir is the directory of results below the workspace.
const Dir = ".silk/display"

// Bounds of results. What is beyond them is no result, and no artifact either.
const (
	MaxResults = 64      // of one run: the first ones by name
	MaxBytes   = 8 << 20 // of one
)

// Types of results.
const (
	PNG   = "image/png"
	SVG   = "image/svg+xml"
	HTML  = "text/html"
	JSON  = "application/json"
	Table = "application/vnd.silk.table+json" // see ParseTable
	Text  = "text/plain"
)

// endings are those of file names, the longer ones first.
var endings = []struct{ ending, mime string }{
	{".table.json", Table}, {".json", JSON}, {".png", PNG}, {".svg", SVG}, {".html", HTML}, {".txt", Text},
}

var namePattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,63}$`)

// Named says what kind of result a file of the workspace is by its path. It is not ok if it is none.
func Named(path string) (mime string, ok bool) {
	name, in := strings.CutPrefix(path, Dir+"/")
	if !in {
		return "", false
	}
	for _, e := range endings {
		if base, ok := strings.CutSuffix(name, e.ending); ok {
			return e.mime, namePattern.MatchString(base)
		}
	}
	return "", false
}

// Check says what kind of result a file is, by its path and its content, or why it is none.
func Check(path string, content []byte) (mime string, err error) {
	mime, ok := Named(path)
	switch {
	case !ok:
		return "", errors.New("its name is none of a result")
	case len(content) > MaxBytes:
		return "", fmt.Errorf("it has more than %d bytes", MaxBytes)
	case mime == PNG:
		return mime, CheckPNG(content)
	case !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0:
		return "", errors.New("it is no text in UTF-8")
	case mime == JSON && !json.Valid(content):
		return "", errors.New("it is no JSON")
	case mime == Table:
		_, err := ParseTable(content)
		return mime, err
	}
	return mime, nil
}

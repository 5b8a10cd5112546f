// Package note reads and writes Markdown notes, as Obsidian has them: it finds the blocks of code in a note that can be run,
// and puts the result of a run under its block. It does no I/O: text goes in, text comes out.
//
// [Parse] finds the blocks with a CommonMark parser, wherever they stand: in lists, quotes and callouts, indented, with fences
// of any length. A fence is runnable if its first word names a language, it is closed, and nothing about it is in doubt; else
// [Block.Reason] says why not. Attributes narrow or ask for more, and policy decides about them as about flags of `silk run`:
//
//	```python {silk timeout=30s net=deny args="--top 10"}
//
// A map "silk" in the note's front matter has the same keys, as defaults for its blocks.
//
// [Note.Put] puts a [Result] directly under the block, at the block's own place in lists and quotes, and replaces an earlier one
// of that block. Everything else stays byte for byte, and reads as before to a CommonMark parser, whatever the program printed:
// its text stands in fences that are longer than any in it, each line of them quoted, without control codes. [Note.Clear] takes a
// result away again. What belongs to a result is told by its form, line by line: a line that silk would not write is the
// user's and is kept.
//
// [Locate] finds a block again in a note that was edited meanwhile, by its content and its place. If there is any doubt, it says
// so, and nothing should be written.
package note

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/silk-sandbox/silk/profile"
)

const (
	// MaxBytes bounds a note. A longer one has no blocks, and a Fault; so has one that is beyond the other limits. Obsidian itself is slow with one of a tenth of this.
	MaxBytes = 4 << 20

	// MaxDepth bounds the quotes and lists that a line is in: what is deeper is text. So is what begins with 64 columns of white space. The time to parse grows with the product of
	// lines and levels, and for one line of quotes in quotes with the square of its length.
	MaxDepth = 32

	// MaxBlocks bounds the blocks of a note: each has what the front matter says.
	MaxBlocks = 2000
)

// Note is a note that was read. It is not changed by its methods, and is safe for concurrent use.
type Note struct {
	Blocks []Block // in the order of the note
	Fault  string  // why the note was not looked at; "": it was

	text  []byte
	lines []line
}

// Block is one fenced block of code.
type Block struct {
	Line    int // of the opening fence, from 0; lines end with LF, CR LF or CR
	EndLine int // of the closing fence, or the last line if there is none

	Language   string            // the name of the language, or the fence's first word if no language is called so; "" without one
	Profile    string            // that it runs with; "" if it is not runnable
	Attributes map[string]string // of the fence, and of the front matter where the fence does not have them
	Auto       bool              // the fence says that it may run without a click; the vault must be one that allows this
	Runnable   bool
	Reason     string // why not
	Code       string // without the indentation and quoting of the fence; its lines end with LF
	CodeHash   string // of language, attributes and code: SHA-256 in hex

	Result *Place // of its last run; nil: there is none

	settings Settings
	prefix   string // what a line under the fence begins with to be on its level
	newline  string
	after    int // where a result goes: the offset behind the closing fence
}

// Place is where the result of a block is.
type Place struct {
	Line, EndLine int      // its first and last line
	Run           string   // whose result it is; "" if it does not say
	Images        []string // paths of the pictures that it shows, in the vault

	start, end int
}

// Settings returns what the attributes of a runnable block mean.
func (b *Block) Settings() Settings { return b.settings }

// line is one line of a note.
type line struct {
	start, end int // without its line ending
	next       int // where the next one begins
}

// Parse reads a note. It never fails: what cannot be run has a reason, and what is no Markdown has no blocks.
func Parse(text []byte) *Note {
	n := &Note{text: text, lines: split(text)}
	if len(text) > MaxBytes {
		n.Fault = fmt.Sprintf("it is larger than %d MiB", MaxBytes>>20)
		return n
	}
	body, defaults, fault := n.frontMatter()
	fences, tooMuch := n.fences(body)
	if len(fences) > MaxBlocks {
		tooMuch = fmt.Sprintf("it has more than %d blocks", MaxBlocks)
	}
	if tooMuch != "" {
		n.Fault = tooMuch
		return n
	}
	n.comments(body, fences)
	end := -1 // last line of the last result, whose fences are not the user's
	for _, f := range fences {
		if f.open <= end {
			continue
		}
		b := n.block(f, defaults, fault)
		if b.Result != nil {
			end = b.Result.EndLine
		}
		n.Blocks = append(n.Blocks, b)
	}
	return n
}

// Text returns the note as it was read.
func (n *Note) Text() []byte { return n.text }

// At returns the index of the block that a line belongs to: from its fence to the end of its result.
func (n *Note) At(line int) (int, bool) {
	i := slices.IndexFunc(n.Blocks, func(b Block) bool {
		end := b.EndLine
		if b.Result != nil {
			end = b.Result.EndLine
		}
		return b.Line <= line && line <= end
	})
	return i, i >= 0
}

func (n *Note) block(f *fence, defaults map[string]string, fault string) Block {
	b := Block{Line: f.open, EndLine: f.close, Code: f.code, prefix: f.prefix, newline: n.newline(f.open)}
	b.after = n.lines[f.close].next
	word, attributes, wrong := parseInfo(f.info)
	b.Language, b.Attributes = word, attributes
	if b.Attributes == nil {
		b.Attributes = map[string]string{}
	}
	for k, v := range defaults {
		if _, ok := b.Attributes[k]; !ok {
			b.Attributes[k] = v
		}
	}
	_, b.Auto = attributes["auto"]
	l, known := profile.LanguageNamed(word)
	if known {
		b.Language = l.Name
	}
	b.CodeHash = hashOf(b.Language, b.Attributes, b.Code)
	if f.closed {
		b.Result = n.result(f)
	}
	_, off := b.Attributes["off"]
	switch {
	case word == "":
		b.Reason = "the fence names no language"
	case !known:
		b.Reason = "no language is called " + quoted(word)
	case !f.closed:
		b.Reason = "the fence is not closed"
	case f.comment:
		b.Reason = "it is in a comment"
	case wrong != "":
		b.Reason = wrong
	case off:
		b.Reason = "it says off"
	case fault != "":
		b.Reason = "front matter: " + fault
	case len(bytes.TrimSpace([]byte(b.Code))) == 0:
		b.Reason = "there is no code in it"
	default:
		settings, err := settingsOf(b.Attributes)
		if err != nil {
			b.Reason = err.Error()
			return b
		}
		if settings.Profile == "" {
			settings.Profile = l.Profile
		}
		b.settings, b.Profile, b.Runnable = settings, settings.Profile, true
	}
	return b
}

// hashOf is what a block is known by. Each part ends with a zero byte, which none but the last has.
func hashOf(language string, attributes map[string]string, code string) string {
	h := sha256.New()
	add := func(s string) { h.Write(append(binary.BigEndian.AppendUint64(nil, uint64(len(s))), s...)) } // what is in one part cannot be taken for another
	add("silk.note/v1")
	add(language)
	for _, k := range sortedKeys(attributes) {
		add(k)
		add(attributes[k])
	}
	add(code)
	return hex.EncodeToString(h.Sum(nil))
}

// split finds the lines of text, whose endings are those of CommonMark (section 2.1): LF, CR LF or CR.
func split(text []byte) []line {
	var lines []line
	for at := 0; at < len(text); {
		l := line{start: at}
		i := bytes.IndexAny(text[at:], "\r\n")
		if i < 0 {
			l.end, l.next = len(text), len(text)
		} else {
			l.end = at + i
			l.next = l.end + 1
			if text[l.end] == '\r' && l.next < len(text) && text[l.next] == '\n' {
				l.next++
			}
		}
		lines = append(lines, l)
		at = l.next
	}
	return lines
}

// content is a line without its ending.
func (n *Note) content(i int) string { return string(n.text[n.lines[i].start:n.lines[i].end]) }

// newline is how line i ends, or how the note's lines do if it is the last one.
func (n *Note) newline(i int) string {
	for _, at := range []int{i, 0} {
		if l := n.lines[at]; l.end < l.next {
			return string(n.text[l.end:l.next])
		}
	}
	return "\n"
}

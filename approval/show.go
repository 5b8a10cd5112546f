package approval

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The marks around what [Show] puts in the place of a character. They stand for themselves nowhere: code that has one in
// it is shown with its code point too, so nobody can write what looks like a mark, and two codes that differ are never
// shown alike.
const (
	markOpen  = '⟨' // U+27E8
	markClose = '⟩'
)

// Show makes code visible: every character that is invisible, that steers a terminal or a reader (line breaks other than
// \n, bidirectional controls as in CVE-2021-42574, combining marks that would pile up), and every byte that is no
// UTF-8, is shown as ⟨U+202E⟩ or ⟨0xFF⟩. \n and tab stay. Letters that only look like others stay as they are; [Warnings]
// speaks of them.
//
// Of code that is longer than [MaxCodeBytes] the beginning is shown, and of what is no text nothing; omitted says so in a
// sentence, and is empty otherwise.
func Show(code string) (text, omitted string) {
	if hidden := strange(code); hidden*3 > utf8.RuneCountInString(code) && hidden > 16 {
		return "", fmt.Sprintf("no text: %d bytes, not shown", len(code))
	}
	if len(code) <= MaxCodeBytes {
		return visible(code), ""
	}
	head := code[:MaxCodeBytes]
	if i := strings.LastIndexByte(head, '\n'); i >= 0 {
		head = head[:i+1]
	} else {
		for !utf8.RuneStart(code[len(head)]) && len(head) > MaxCodeBytes-utf8.UTFMax {
			head = head[:len(head)-1]
		}
	}
	return visible(head), fmt.Sprintf("only the first %d of %d bytes are shown", len(head), len(code))
}

// strange counts what is no printable text in code.
func strange(code string) (n int) {
	for _, r := range code {
		if r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// Subject names what successive versions of one program have in common, as [Request] takes it.
func Subject(profile, codeName string) string {
	if codeName == "" {
		return visible(profile)
	}
	return visible(profile) + " " + visible(codeName)
}

// visible is Show without a bound.
func visible(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	marks := tooManyMarks // in a row, after a letter
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "%c0x%02X%c", markOpen, text[i], markClose)
			marks = tooManyMarks
		case r == markOpen || r == markClose || hidden(r) || unicode.Is(unicode.M, r) && marks >= tooManyMarks:
			fmt.Fprintf(&b, "%cU+%04X%c", markOpen, r, markClose)
			marks = tooManyMarks
		default:
			b.WriteRune(r)
			switch {
			case unicode.IsLetter(r):
				marks = 0
			case unicode.Is(unicode.M, r):
				marks++
			default:
				marks = tooManyMarks
			}
		}
		i += size
	}
	return b.String()
}

// tooManyMarks is how many combining marks a letter may not have. No script that is written today needs more than two or
// three; more, or marks on anything but a letter, draw over what stands around them.
const tooManyMarks = 3

// hidden says whether r is not seen, or changes how others are seen.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case !unicode.IsPrint(r): // controls, formats such as U+202E, spaces other than ' ', private use, unassigned
		return true
	}
	// What IsPrint takes for letters, marks and symbols and is drawn as nothing. The first two are what Unicode calls
	// Default_Ignorable_Code_Point (DerivedCoreProperties.txt), but for what is no print anyway.
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == '\u2800' // braille blank
}

// isVisible says whether text is as visible makes it.
func isVisible(text string) bool {
	plain := strings.NewReplacer(string(markOpen), "", string(markClose), "").Replace(text)
	return visible(plain) == plain
}

package approval

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longLine is a line that does not fit on a screen, so that what stands at its end may not be seen.
const longLine = 400

// mark is what visible puts in the place of a character.
var mark = regexp.MustCompile(string(markOpen) + `[^\n` + string(markClose) + `]*` + string(markClose))

// Warnings says what an owner should know about code, as [Show] returns it, before believing what it looks like: characters
// that are not shown as themselves, words that mix alphabets (CVE-2021-42694: а is no a), letters that are written from right to
// left and so turn what stands around them, lines that do not fit on a screen. Each is one sentence. That there are none
// does not mean that the code is good.
func Warnings(code string) (all []string) {
	if marks := mark.FindAllString(code, -1); len(marks) > 0 {
		all = append(all, fmt.Sprintf("%s invisible or steering how others are shown: %s", are(len(marks), "character"), some(marks)))
	}
	var mixed []string
	rightToLeft, long := false, 0
	for line := range strings.Lines(code) {
		for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.Is(unicode.M, r) }) {
			if mixesAlphabets(word) {
				mixed = append(mixed, fmt.Sprintf("%+q", word))
			}
		}
		if !rightToLeft {
			rightToLeft = strings.ContainsFunc(line, turns)
		}
		long = max(long, utf8.RuneCountInString(line))
	}
	if len(mixed) > 0 {
		all = append(all, fmt.Sprintf("%s made of letters of several alphabets, so some are not what they look like: %s", are(len(mixed), "word"), some(mixed)))
	}
	if rightToLeft {
		all = append(all, "there are letters that are written from right to left: around them the order of what you see may not be that of the code")
	}
	if long > longLine {
		all = append(all, fmt.Sprintf("the longest line has %d characters: look at its end, too", long))
	}
	return all
}

func are(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

// some names a few different ones.
func some(all []string) string {
	const most = 5
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > most {
		return fmt.Sprintf("%s and %d others", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// alphabets are those with letters that look like letters of another one (confusables.txt of Unicode TS 39).
var alphabets = []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu}

func mixesAlphabets(word string) bool {
	first := -1
	for _, r := range word {
		if r < utf8.RuneSelf {
			if first > 0 {
				return true
			}
			first = 0
			continue
		}
		i := slices.IndexFunc(alphabets, func(t *unicode.RangeTable) bool { return unicode.Is(t, r) })
		if i >= 0 && first >= 0 && i != first {
			return true
		}
		if i >= 0 {
			first = i
		}
	}
	return false
}

// turns says whether r is of a script that is written from right to left (Bidi_Class R and AL).
func turns(r rune) bool {
	return r >= 0x590 && r < 0x900 || r >= 0xfb1d && r < 0xfe00 || r >= 0xfe70 && r < 0xff00 || r >= 0x10800 && r < 0x11000 || r >= 0x1e800 && r < 0x1f000
}

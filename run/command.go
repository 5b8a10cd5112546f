package run

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/policy"
)

// maxCommandBytes bounds the command in a record: a line for people. The plan beside it has all arguments.
const maxCommandBytes = 4 << 10

// CommandOf is what req asks to run, on one printable line, as its record will have it.
func CommandOf(req policy.Request) string { return commandText(req, req.Language) }

// commandText is what req asks to run, on one printable line: the file of the code, or how it was given instead with its
// language, or the command; then the arguments. It is quoted as a shell would want it, so that where an argument ends
// is seen, and an argument that cannot be printed is quoted as in Go.
func commandText(req policy.Request, language string) string {
	var words []string
	switch {
	case req.Code != nil && req.Code.Given != "":
		words = append(words, quoted(req.Code.Given))
		if language != "" {
			words = append(words, "("+language+")")
		}
	case req.Code != nil:
		words = append(words, quoted(req.Code.Name))
	case len(req.Args) == 0 && req.Terminal:
		words = append(words, "sh")
	}
	size := 0
	for _, arg := range req.Args {
		if size += len(arg); size > 2*maxCommandBytes {
			arg = arg[:min(len(arg), maxCommandBytes)]
		}
		words = append(words, quoted(arg))
		if size > 2*maxCommandBytes {
			break // what is kept is shorter
		}
	}
	text := strings.Join(words, " ")
	if len(text) <= maxCommandBytes {
		return text
	}
	const cut = "..."
	end := maxCommandBytes - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}

// CommandLine is words as one printable line, quoted as a shell would want them.
func CommandLine(words []string) string {
	line := make([]string, len(words))
	for i, word := range words {
		line[i] = quoted(word)
	}
	return strings.Join(line, " ")
}

// quoted is one word of a command line.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%"
	switch {
	case word != "" && strings.Trim(word, plain) == "":
		return word
	case !utf8.ValidString(word) || strings.ContainsFunc(word, func(r rune) bool { return !strconv.IsPrint(r) }):
		return strconv.Quote(word)
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

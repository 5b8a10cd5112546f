package skill

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Severity says whether a finding keeps a skill from being registered.
type Severity string

const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// The rules of a scan.
const (
	RuleEval        = "dynamic_eval"
	RuleSpawn       = "child_process"
	RuleNetwork     = "network_access"
	RuleWrite       = "fs_write"
	RuleObfuscation = "obfuscation"
	RuleRead        = "file_read_error" // the file could not be read, is no text, or too long; its line is 0
)

// rulesInOrder is the order of the findings of one line.
var rulesInOrder = []string{RuleEval, RuleSpawn, RuleNetwork, RuleWrite, RuleObfuscation}

// Finding is one rule that one line of one file meets.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"` // from 1
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
}

// Source is a file to scan. With Err there is no Text.
type Source struct {
	Path string
	Text []byte
	Err  error
}

// Scan reads JavaScript, TypeScript and Python as their tokens, so that comments, text and members of other objects (re.exec) are not
// taken for calls, and says what in them meets a rule: for each line, each rule once. Other files are read only to see whether they
// can be. What the manifest permits is a warning. A finding is a hint to a reader: who wants to hide a call from it can.
func Scan(files []Source, m Manifest) []Finding {
	var all []Finding
	refused := false
	for _, f := range files {
		s := scan{file: f.Path, manifest: m, found: map[where]string{}, room: maxFindings - len(all), refused: refused}
		s.source(f)
		all, refused = append(all, s.findings()...), s.refused
	}
	return all
}

// maxFindings bounds what is said of a skill: what comes after them is left out, but for the first that refuses it.
const maxFindings = 1000

// maxSource bounds a file that is read as code: its tokens take a hundred times its length.
const maxSource = 4 << 20

// where is a line and the rule that it meets.
type where struct {
	line int
	rule string
}

// scan is the scan of one file.
type scan struct {
	file     string
	manifest Manifest
	found    map[where]string // and why, in words
	room     int              // for findings
	refused  bool             // there is one that is an error
}

func (s *scan) note(line int, rule, format string, args ...any) {
	at := where{line, rule}
	_, known := s.found[at]
	refuses := s.severity(rule) == SeverityError
	if known || len(s.found) >= s.room && (s.refused || !refuses) {
		return
	}
	s.found[at] = fmt.Sprintf(format, args...)
	s.refused = s.refused || refuses
}

func (s *scan) findings() (list []Finding) {
	for at, message := range s.found {
		list = append(list, Finding{File: s.file, Line: at.line, Rule: at.rule, Severity: s.severity(at.rule), Message: message})
	}
	slices.SortFunc(list, func(a, b Finding) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return slices.Index(rulesInOrder, a.Rule) - slices.Index(rulesInOrder, b.Rule)
	})
	return list
}

func (s *scan) severity(rule string) Severity {
	switch rule {
	case RuleWrite, RuleObfuscation:
		return SeverityWarning
	case RuleSpawn:
		if s.manifest.Sandbox.AllowSpawn {
			return SeverityWarning
		}
	case RuleNetwork:
		if s.manifest.Permissions.NetworkAccess {
			return SeverityWarning
		}
	}
	return SeverityError
}

// languages are the extensions of files that are read as code.
var languages = map[string]string{
	".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascript", ".ts": "javascript", ".mts": "javascript", ".cts": "javascript", ".tsx": "javascript",
	".py": "python", ".pyw": "python", ".pyi": "python",
}

// native are the extensions of files that run and that nobody reads.
var native = []string{".node", ".so", ".wasm", ".pyc", ".pyo", ".pyd", ".dll", ".dylib", ".exe"}

// maxLine is the length of a line, in bytes, that nobody reads either.
const maxLine = 2000

func (s *scan) source(f Source) {
	if f.Err != nil {
		s.note(0, RuleRead, "the file cannot be read: %v", f.Err)
		return
	}
	ext := strings.ToLower(path.Ext(f.Path))
	if slices.Contains(native, ext) {
		s.note(1, RuleObfuscation, "compiled code, which cannot be read")
	}
	language, ok := languages[ext]
	if !ok {
		return
	}
	if len(f.Text) > maxSource {
		s.note(0, RuleRead, "the file has more than %d MiB, and nobody reads that; leave out what is not needed, or split it", maxSource>>20)
		return
	}
	text := bytes.TrimPrefix(f.Text, []byte("\ufeff"))
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		s.note(0, RuleRead, "the file is no UTF-8 text")
		return
	}
	s.lines(string(text))
	if language == "python" {
		s.python(string(text))
	} else {
		s.javascript(string(text))
	}
}

// lines looks at what is not of any language: lines that are too long to be read, and characters that change how they are shown.
func (s *scan) lines(text string) {
	n := 0
	for line := range strings.Lines(text) {
		if n++; len(line) > maxLine {
			s.note(n, RuleObfuscation, "a line of %d bytes", len(line))
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }) {
			s.note(n, RuleObfuscation, "characters that turn the direction of writing: what is shown is not what runs")
		}
	}
}

package note

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/silk-sandbox/silk/internal/nearest"
	"github.com/silk-sandbox/silk/profile"
)

// Settings are what attributes ask for, as flags of `silk run` do. What is zero, the profile decides.
type Settings struct {
	Profile       string
	Args          []string
	Limits        profile.Limits
	Network       string
	Hosts         []string // with NetworkAllowlist
	NoSpawn       bool
	Deterministic bool
	Driver        string
	Isolation     string
}

// flagAttributes are attributes without a value; the other ones have one.
var (
	flagAttributes  = []string{"auto", "off", "no-spawn", "deterministic"}
	valueAttributes = map[string]func(*Settings, string) error{
		"profile": func(s *Settings, v string) error { s.Profile = v; return nil },
		"args":    func(s *Settings, v string) (err error) { s.Args, err = words(v); return err },
		"timeout": func(s *Settings, v string) (err error) { s.Limits.Timeout, err = profile.ParseTimeout(v); return err },
		"memory":  func(s *Settings, v string) (err error) { s.Limits.MemoryBytes, err = profile.ParseBytes(v); return err },
		"cpus":    func(s *Settings, v string) (err error) { s.Limits.CPUs, err = profile.ParseCPUs(v); return err },
		"processes": func(s *Settings, v string) (err error) {
			s.Limits.Processes, err = profile.ParseProcesses(v)
			return err
		},
		"disk": func(s *Settings, v string) (err error) {
			s.Limits.WorkspaceBytes, err = profile.ParseBytes(v)
			return err
		},
		"net":       setNetwork,
		"driver":    func(s *Settings, v string) error { s.Driver = v; return nil },
		"isolation": func(s *Settings, v string) error { s.Isolation = v; return nil },
	}
)

func setNetwork(s *Settings, v string) error {
	s.Network = v
	if strings.Contains(v, ":") {
		s.Network = profile.NetworkAllowlist
		for host := range strings.SplitSeq(v, ",") {
			s.Hosts = append(s.Hosts, strings.TrimSpace(host))
		}
	}
	return nil
}

// settingsOf says what attributes mean.
func settingsOf(attributes map[string]string) (Settings, error) {
	var s Settings
	for _, k := range sortedKeys(attributes) {
		switch k {
		case "no-spawn":
			s.NoSpawn = true
		case "deterministic":
			s.Deterministic = true
		}
		set, ok := valueAttributes[k]
		if !ok {
			continue
		}
		if err := set(&s, attributes[k]); err != nil {
			return Settings{}, fmt.Errorf("attribute %s: %w", k, err)
		}
	}
	return s, nil
}

// parseInfo reads what stands behind an opening fence: the word for the language, and the attributes in {silk ...}. Other words
// and braces are somebody else's. wrong is what is wrong with the attributes.
func parseInfo(info string) (word string, attributes map[string]string, wrong string) {
	word = info
	if i := strings.IndexFunc(info, func(r rune) bool { return unicode.IsSpace(r) || r == '{' }); i >= 0 {
		word = info[:i]
	}
	rest := info[len(word):]
	for {
		_, inside, ok := strings.Cut(rest, "{silk")
		if !ok {
			return word, attributes, wrong
		}
		if inside != "" && inside[0] != '}' && inside[0] != ' ' && inside[0] != '\t' {
			rest = inside // {silkworm}
			continue
		}
		if attributes != nil {
			return word, attributes, "there are two {silk}"
		}
		attributes, rest, wrong = parseAttributes(inside)
		if wrong != "" {
			return word, attributes, wrong
		}
	}
}

// parseAttributes reads `key=value key="a b" flag}` and returns what follows.
func parseAttributes(text string) (attributes map[string]string, rest, wrong string) {
	attributes = map[string]string{}
	for {
		text = strings.TrimLeft(text, " \t")
		if text == "" {
			return attributes, "", "{silk has no closing brace"
		}
		if text[0] == '}' {
			return attributes, text[1:], ""
		}
		end := strings.IndexAny(text, "= \t}")
		if end < 0 {
			return attributes, "", "{silk has no closing brace"
		}
		key, value := text[:end], ""
		text = text[end:]
		hasValue := text[0] == '='
		if hasValue {
			if value, text, wrong = parseValue(text[1:]); wrong != "" {
				return attributes, "", "attribute " + quoted(key) + ": " + wrong
			}
		}
		if wrong := checkAttribute(key, hasValue); wrong != "" {
			return attributes, "", wrong
		}
		if _, ok := attributes[key]; ok {
			return attributes, "", "attribute " + key + " is given twice"
		}
		attributes[key] = value
	}
}

// parseValue reads a value: a word, or text between double quotes, in which \" and \\ are those characters.
func parseValue(text string) (value, rest, wrong string) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, " \t}")
		if end < 0 {
			end = len(text)
		}
		if end == 0 {
			return "", text, "there is no value"
		}
		return text[:end], text[end:], ""
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), text[i+1:], ""
		case text[i] == '\\' && i+1 < len(text):
			i++
			fallthrough
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", "the quotation mark is not closed"
}

// checkAttribute says what is wrong with the key of an attribute.
func checkAttribute(key string, hasValue bool) (wrong string) {
	_, isValue := valueAttributes[key]
	isFlag := slices.Contains(flagAttributes, key)
	switch {
	case isFlag && hasValue:
		return "attribute " + key + " has no value"
	case isValue && !hasValue:
		return "attribute " + key + " needs a value: " + key + "=..."
	case isFlag || isValue:
		return ""
	}
	known := append(sortedKeys(valueAttributes), flagAttributes...)
	if near := nearest.To(key, known); near != "" {
		return "no attribute is called " + quoted(key) + "; did you mean " + near + "?"
	}
	return "no attribute is called " + quoted(key) + "; there are " + strings.Join(known, ", ")
}

// words splits text as a shell would, as far as quotation marks go.
func words(text string) (list []string, err error) {
	var word strings.Builder
	in, quote := false, rune(0)
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case unicode.IsSpace(r):
			if in {
				list = append(list, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quotation mark is not closed")
	}
	if in {
		list = append(list, word.String())
	}
	return list, nil
}

// maxQuoted bounds what a reason repeats of a note.
const maxQuoted = 40

// quoted is a word of a note in a sentence.
func quoted(word string) string {
	if len(word) > maxQuoted {
		word = strings.ToValidUTF8(word[:maxQuoted], "") + "..."
	}
	return strconv.Quote(word)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

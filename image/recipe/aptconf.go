package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// setting is one value of apt's configuration: Acquire::http::Proxy "http://proxy:3142";
type setting struct{ key, value string }

// aptSettings reads apt.conf.d/* and apt.conf below dir (normally /etc/apt) in apt's own order, see apt.conf(5). What
// is missing is empty; a file that cannot be understood is skipped up to its end, as only a few settings matter here.
func aptSettings(dir string) ([]setting, error) {
	names, err := partFiles(filepath.Join(dir, "apt.conf.d"), "", ".conf")
	if err != nil {
		return nil, err
	}
	var all []setting
	for _, name := range append(names, filepath.Join(dir, "apt.conf")) {
		data, err := os.ReadFile(name)
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read apt configuration: %w", err)
		}
		all = append(all, parseAptConf(string(data))...)
	}
	return all, nil
}

// lookup returns the last value of key; keys are compared without case.
func lookup(all []setting, key string) (value string, ok bool) {
	for _, s := range slices.Backward(all) {
		if strings.EqualFold(s.key, key) {
			return s.value, true
		}
	}
	return "", false
}

// parseAptConf reads the syntax of apt.conf(5): nested scopes in braces, "//", "#" and "/* */" comments, and lines like
// Key::Sub "value";
func parseAptConf(text string) []setting {
	var (
		all    []setting
		scopes []string // prefixes of the open scopes
		words  []string // of the statement being read
	)
	prefix := func() string {
		if len(scopes) == 0 {
			return ""
		}
		return scopes[len(scopes)-1]
	}
	for _, tok := range aptTokens(text) {
		switch tok {
		case "{":
			name := prefix()
			if len(words) > 0 {
				name += words[0] + "::"
			}
			scopes, words = append(scopes, name), nil
		case "}":
			if len(scopes) > 0 {
				scopes = scopes[:len(scopes)-1]
			}
			words = nil
		case ";":
			if len(words) >= 2 {
				all = append(all, setting{prefix() + words[0], unquote(words[1])})
			}
			words = nil
		default:
			words = append(words, tok)
		}
	}
	return all
}

func unquote(word string) string { return strings.Trim(word, `"`) }

// aptTokens splits text into "{", "}", ";", quoted strings with their quotes, and bare words, without comments.
func aptTokens(text string) []string {
	var tokens []string
	for text != "" {
		switch {
		case strings.HasPrefix(text, "//"), strings.HasPrefix(text, "#"):
			_, text, _ = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text, "*/")
		case strings.ContainsRune(" \t\r\n", rune(text[0])):
			text = text[1:]
		case strings.ContainsRune("{};", rune(text[0])):
			tokens, text = append(tokens, text[:1]), text[1:]
		case text[0] == '"':
			end := strings.IndexByte(text[1:], '"')
			if end < 0 {
				return tokens
			}
			tokens, text = append(tokens, text[:end+2]), text[end+2:]
		default:
			end := strings.IndexAny(text, " \t\r\n{};\"")
			if end < 0 {
				end = len(text)
			}
			tokens, text = append(tokens, text[:end]), text[end:]
		}
	}
	return tokens
}

// partFiles lists the files in dir that apt would read: names of letters, digits, "-", "_" and ".", without a suffix or
// with one of suffixes ("" stands for none), sorted. A missing dir has none.
func partFiles(dir string, suffixes ...string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read apt configuration: %w", err)
	}
	var names []string
	for _, e := range entries {
		odd := strings.IndexFunc(e.Name(), func(c rune) bool {
			return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.", c))
		})
		if odd < 0 && !e.IsDir() && e.Name()[0] != '.' && slices.Contains(suffixes, filepath.Ext(e.Name())) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

func missing(err error) bool { return err != nil && errors.Is(err, fs.ErrNotExist) }

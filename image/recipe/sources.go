package recipe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is one "deb" archive in the host's apt configuration.
type source struct {
	uri      string // base URL without a slash at the end
	suites   []string
	signedBy string // keyring file or fingerprint, or ""; an embedded key is kept with its line breaks
	trusted  bool   // the owner said trusted=yes
}

// aptSources reads sources.list and sources.list.d below dir (normally /etc/apt), see sources.list(5). Disabled
// entries, sources of source packages, and URIs that are neither http, https nor file are left out.
func aptSources(dir string) ([]source, error) {
	names, err := partFiles(filepath.Join(dir, "sources.list.d"), ".list", ".sources")
	if err != nil {
		return nil, err
	}
	var all []source
	for _, name := range append([]string{filepath.Join(dir, "sources.list")}, names...) {
		data, err := os.ReadFile(name)
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read apt sources: %w", err)
		}
		if filepath.Ext(name) == ".sources" {
			all = append(all, parseDeb822(string(data))...)
		} else {
			all = append(all, parseOneLine(string(data))...)
		}
	}
	return all, nil
}

// parseOneLine reads the one-line style: deb [signed-by=/k.gpg] http://host/debian trixie main
func parseOneLine(text string) []source {
	var all []source
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb")
		if !ok || rest == "" || !strings.ContainsAny(rest[:1], " \t[") {
			continue
		}
		var s source
		if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "[") {
			var options string
			if options, rest, ok = strings.Cut(rest[1:], "]"); !ok {
				continue
			}
			for option := range strings.FieldsSeq(options) {
				key, value, _ := strings.Cut(option, "=")
				s.option(key, value)
			}
		}
		words := strings.Fields(rest)
		if len(words) < 2 {
			continue
		}
		s.suites = words[1:2]
		all = s.appendTo(all, words[0])
	}
	return all
}

// parseDeb822 reads stanzas of "Key: value" lines.
func parseDeb822(text string) []source {
	var (
		all    []source
		fields = map[string]string{}
		last   string
	)
	end := func() {
		var s source
		for key, value := range fields {
			s.option(key, value)
		}
		s.suites = strings.Fields(fields["suites"])
		enabled := strings.ToLower(strings.TrimSpace(fields["enabled"]))
		if slices.Contains(strings.Fields(fields["types"]), "deb") && enabled != "no" && enabled != "false" {
			for uri := range strings.FieldsSeq(fields["uris"]) {
				all = s.appendTo(all, uri)
			}
		}
		fields, last = map[string]string{}, ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			end()
		case line[0] == ' ' || line[0] == '\t':
			fields[last] += "\n" + line
		default:
			key, value, _ := strings.Cut(line, ":")
			last = strings.ToLower(strings.TrimSpace(key))
			fields[last] = strings.TrimSpace(value)
		}
	}
	end()
	return all
}

func (s *source) option(key, value string) {
	switch strings.ToLower(key) {
	case "signed-by":
		s.signedBy = value
	case "trusted":
		s.trusted = strings.EqualFold(value, "yes") || strings.EqualFold(value, "true")
	}
}

func (s source) appendTo(all []source, uri string) []source {
	scheme, _, _ := strings.Cut(uri, ":")
	if !slices.Contains([]string{"http", "https", "file"}, scheme) {
		return all
	}
	s.uri = strings.TrimRight(uri, "/")
	return append(all, s)
}

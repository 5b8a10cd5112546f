package egress

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// suite is one file of rows.
type suite struct {
	About string `yaml:"about"` // what the rows have in common
	Rows  []row  `yaml:"rows"`
}

// row is something that programs try, under some rules. {word} in what they do is the attempt's own, and {ca} the file of the authority.
type row struct {
	Name string `yaml:"name"`
	Why  string `yaml:"why"`
	Net  string `yaml:"net"` // of silk run

	Python string `yaml:"python"` // the body of a function, with the helpers of lib.py
	Node   string `yaml:"node"`   // the body of an async function, with the helpers of lib.mjs
	Curl   string `yaml:"curl"`   // arguments

	Says    string   `yaml:"says"`    // pattern of what the attempt comes to: its result, or its error
	Unseen  bool     `yaml:"unseen"`  // what is let through goes to silk alone, no server
	Refused *refused `yaml:"refused"` // what silk must say of it; nil: it is let through
	Silent  bool     `yaml:"silent"`  // it does not get through, and silk has nothing to say of it
	Control *control `yaml:"control"` // of what does not get through
}

// refused is what an outcome says.
type refused struct {
	Kind   string `yaml:"kind"` // "": tcp
	Host   string `yaml:"host"`
	Port   int    `yaml:"port"`
	Rule   string `yaml:"rule"`
	Reason string `yaml:"reason"` // pattern
}

// control is what lets the same attempt through. Controls with add and targets alone share a sandbox.
type control struct {
	Add     string   `yaml:"add"`     // rules besides the row's
	Net     string   `yaml:"net"`     // rules in place of the row's
	Targets []string `yaml:"targets"` // lines of egress: targets
	Host    string   `yaml:"host"`    // "udp ADDR:PORT", "dns ADDR:PORT", "ping ADDR": no rule lets it through, but the host's own program reaches the server
	Unseen  bool     `yaml:"unseen"`  // what is let through goes to silk alone, no server
	Says    string   `yaml:"says"`
}

// loadSuite reads a file of rows. A key that no row has is an error, and so is a row that could not fail.
func loadSuite(file string) (s suite, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&s); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	seen := map[string]bool{}
	for _, r := range s.Rows {
		if fault := r.fault(); fault != "" || seen[r.Name] {
			return s, fmt.Errorf("%s: row %q: %s", file, r.Name, fault)
		}
		seen[r.Name] = true
	}
	if len(s.Rows) == 0 || s.About == "" {
		return s, fmt.Errorf("%s: no rows, or nothing about them", file)
	}
	return s, nil
}

// fault says what makes r useless as a test.
func (r row) fault() string {
	stopped := r.Refused != nil || r.Silent
	switch {
	case r.Name == "" || r.Why == "" || r.Net == "":
		return "it has no name, no reason, or no rules"
	case len(r.programs()) == 0:
		return "it runs nothing"
	case stopped != (r.Control != nil):
		return "what does not get through needs a control, and nothing else"
	case r.Unseen && r.Says == "", r.Control != nil && r.Control.Unseen && r.Control.Says == "":
		return "nobody would know whether it did anything"
	case r.Refused != nil && (r.Refused.Rule == "" || r.Refused.Host == ""):
		return "it does not say what refuses it"
	case stopped && !strings.Contains(r.Python+r.Node+r.Curl, "{word}"):
		return "no server would know it"
	}
	patterns := []string{r.Says}
	if r.Refused != nil {
		patterns = append(patterns, r.Refused.Reason)
	}
	if r.Control != nil {
		patterns = append(patterns, r.Control.Says)
	}
	for _, p := range patterns {
		if _, err := regexp.Compile(p); err != nil {
			return err.Error()
		}
	}
	return ""
}

// programs are those that have something to do in a row, by image.
func (r row) programs() map[string]string {
	all := map[string]string{}
	for image, text := range map[string]string{python: r.Python, node: r.Node, curl: r.Curl} {
		if text != "" {
			all[image] = text
		}
	}
	return all
}

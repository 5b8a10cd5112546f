package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// suite is one file of rows.
type suite struct {
	About   string `yaml:"about"`   // what the rows have in common
	Profile string `yaml:"profile"` // of rows that name none
	Rows    []row  `yaml:"rows"`
}

// row is one behaviour.
type row struct {
	Name     string            `yaml:"name"`     // says the behaviour in words
	Why      string            `yaml:"why"`      // what goes wrong elsewhere
	Profile  string            `yaml:"profile"`  // "none": no -p, the language decides
	Needs    []string          `yaml:"needs"`    // images, besides the one of the profile
	File     string            `yaml:"file"`     // the FILE operand, a name in Files
	Run      []string          `yaml:"run"`      // the command, or the arguments of File
	Flags    []string          `yaml:"flags"`    // more flags of silk run
	Files    map[string]string `yaml:"files"`    // what --dir copies in
	Lib      []string          `yaml:"lib"`      // files of testdata/lib, copied in besides
	Stdin    *string           `yaml:"stdin"`    // passed with --stdin
	StdinFew *repeated         `yaml:"stdinFew"` // likewise, for large input
	HostEnv  map[string]string `yaml:"hostEnv"`  // variables of silk itself
	Times    int               `yaml:"times"`    // runs; 0: one
	Want     want              `yaml:"want"`
}

// repeated is text repeated up to a number of bytes.
type repeated struct {
	Text  string `yaml:"text"`
	Bytes int    `yaml:"bytes"`
}

// want is what must come of a row. Fields that are absent are not looked at, but for the status that silk exits with,
// which always follows from the outcome.
type want struct {
	Outcome   string            `yaml:"outcome"`  // alternatives are separated with |
	Exit      *int              `yaml:"exit"`     // of the program
	Signal    int               `yaml:"signal"`   // that ended the program
	Rule      string            `yaml:"rule"`     // of a violation or denial
	Syscall   string            `yaml:"syscall"`  // of a violation
	Argument  string            `yaml:"argument"` // of a violation
	Refused   []string          `yaml:"refused"`  // rules that refused a call while the run went on; a deny rule that is not here must not have
	Message   string            `yaml:"message"`  // a part of silk's sentence
	Stdout    channel           `yaml:"stdout"`
	Stderr    channel           `yaml:"stderr"`
	Artifacts []string          `yaml:"artifacts"` // listed and copied, with the right size and hash
	Magic     map[string]string `yaml:"magic"`     // artifacts that begin with these bytes (hexadecimal)
	Unread    []string          `yaml:"unread"`    // may be listed, but have no content and no copy
	NoFile    string            `yaml:"noFile"`    // pattern that no artifact matches
	SomeFile  string            `yaml:"someFile"`  // pattern that an artifact that was copied matches
	Flags     []string          `yaml:"flags"`     // limits that were hit
	Least     time.Duration     `yaml:"least"`     // wall time of silk
	Most      time.Duration     `yaml:"most"`      // likewise; 0: defaultMost
	Same      bool              `yaml:"same"`      // all runs print the same
	Distinct  bool              `yaml:"distinct"`  // no two runs print the same line
	Clock     time.Duration     `yaml:"clock"`     // the first word of stdout is the time in seconds since 1970, this exact
	Gone      string            `yaml:"gone"`      // no process on the host has this in its command line afterwards
}

// defaultMost is generous: the tests share two processors.
const defaultMost = 90 * time.Second

// channel is what must be on stdout or stderr. In YAML a plain text stands for {is: text}.
type channel struct {
	Is        *string `yaml:"is"`        // all of it, and not truncated
	Has       texts   `yaml:"has"`       // parts
	Match     texts   `yaml:"match"`     // patterns, (?m)
	Lacks     texts   `yaml:"lacks"`     // patterns that do not match
	SHA256    string  `yaml:"sha256"`    // of everything written
	Bytes     *int64  `yaml:"bytes"`     // of everything written
	Truncated *bool   `yaml:"truncated"` // more was written than is kept
	Kept      []int   `yaml:"kept"`      // from and to how many bytes are kept
}

func (c *channel) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err == nil {
		c.Is = &text
		return nil
	}
	type plain channel
	return unmarshal((*plain)(c))
}

// texts is a list; a plain text stands for a list of one.
type texts []string

func (t *texts) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err == nil {
		*t = texts{text}
		return nil
	}
	return unmarshal((*[]string)(t))
}

// loadSuite reads a file of rows. A key that no row has is an error, and so is a row that expects nothing.
func loadSuite(file string) (suite, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return suite{}, err
	}
	var s suite
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&s); err != nil {
		return suite{}, fmt.Errorf("%s: %w", file, err)
	}
	seen := map[string]bool{}
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.Profile == "" {
			r.Profile = s.Profile
		}
		if fault := r.fault(); fault != "" {
			return suite{}, fmt.Errorf("%s: row %q: %s", file, r.Name, fault)
		}
		if seen[r.Name] {
			return suite{}, fmt.Errorf("%s: two rows are named %q", file, r.Name)
		}
		seen[r.Name] = true
	}
	if len(s.Rows) == 0 || s.About == "" {
		return suite{}, fmt.Errorf("%s: no rows, or nothing about them", file)
	}
	return s, nil
}

var outcomes = map[string]bool{
	"ok": true, "failed": true, "timeout": true, "oom": true, "violated": true, "denied": true,
	"canceled": true, "error": true,
}

// fault says what makes r useless as a test.
func (r row) fault() string {
	switch {
	case r.Name == "" || r.Why == "":
		return "it has no name, or no reason"
	case r.Profile == "":
		return "it has no profile"
	case r.File == "" && len(r.Run) == 0:
		return "it runs nothing"
	case r.File != "" && r.Files[r.File] == "":
		return "its file is not among its files"
	case r.Times < 2 && (r.Want.Same || r.Want.Distinct):
		return "it compares runs, but there is only one"
	case r.Stdin != nil && r.StdinFew != nil:
		return "it has two inputs"
	}
	for o := range strings.SplitSeq(r.Want.Outcome, "|") {
		if !outcomes[o] {
			return fmt.Sprintf("%q is not an outcome", o)
		}
	}
	for _, patterns := range [][]string{r.Want.Stdout.Match, r.Want.Stdout.Lacks, r.Want.Stderr.Match, r.Want.Stderr.Lacks, {r.Want.NoFile, r.Want.SomeFile}} {
		for _, p := range patterns {
			if _, err := regexp.Compile(p); err != nil {
				return err.Error()
			}
		}
	}
	return ""
}

// prepare makes the directory that --dir copies in.
func (r row) prepare(dir string) error {
	for name, content := range r.Files {
		if err := put(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	for _, name := range r.Lib {
		content, err := os.ReadFile(filepath.Join("testdata", "lib", name))
		if err != nil {
			return err
		}
		if err := put(filepath.Join(dir, name), string(content)); err != nil {
			return err
		}
	}
	return nil
}

// input is what goes to stdin; ok is false if nothing does.
func (r row) input() (text string, ok bool) {
	switch {
	case r.Stdin != nil:
		return *r.Stdin, true
	case r.StdinFew != nil:
		n := r.StdinFew.Bytes
		return strings.Repeat(r.StdinFew.Text, n/len(r.StdinFew.Text)+1)[:n], true
	}
	return "", false
}

func put(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(content); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

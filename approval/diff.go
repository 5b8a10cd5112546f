package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
)

// MaxDiffBytes bounds what [Diff] shows of the code, of all files together, and of the plan: of each so much, so that
// none can push another out of sight.
const MaxDiffBytes = 256 << 10

// Diff compares what is asked for with the version that was approved last (of [Previous]; the zero Approval: there is
// none), as the owner should see it: unified diffs of the code, of the files and the input, and of the plans. Both must
// have been read with their code, by [Get], Previous or [Ask].
//
// Lines that begin with # are remarks of silk's; no line of code can look like one, since those begin with a space, + or -.
// They say what cannot be seen in the diff: that a version is not shown whole, that the diff is cut, that there are
// characters which are not what they seem ([Warnings]). Without any difference Diff says that, too.
//
// The lines are compared with the algorithm of the go command ("anchored diff"), which takes O(n log n) time whatever is
// compared: a requester cannot keep the owner waiting.
func Diff(old, new Approval) string {
	c := comparison{old: old, new: new}
	c.versions()
	code := c.bounded("code", c.code())
	files := c.bounded("files and input", c.files())
	plan := c.bounded("plan", unified(c.from+" plan", c.to+" plan", indented(old.Plan), indented(new.Plan)))
	if code+files+plan == "" {
		c.remark("there is no difference to be seen")
	}
	return c.remarks.String() + code + files + plan
}

// comparison is one call of Diff.
type comparison struct {
	old, new Approval
	from, to string // what the versions are called
	remarks  strings.Builder
}

func (c *comparison) remark(format string, args ...any) {
	fmt.Fprintf(&c.remarks, "# "+format+"\n", args...)
}

func (c *comparison) versions() {
	c.from, c.to = "nothing", "run "+c.new.Run
	if c.old.Run == "" {
		c.remark("no version of %s was approved before: all of it is new", c.new.Subject)
		return
	}
	c.from = "run " + c.old.Run
	c.remark("compared with what was approved on %s", c.old.Decided.UTC().Format(time.RFC3339))
	if c.old.Token != c.new.Token {
		c.remark("that was asked for by another token: %s", c.old.Token)
	}
}

func (c *comparison) code() string {
	old, new := c.old, c.new
	if why := unseen(old); why != "" {
		c.remark("approved before: %s", why)
	}
	if why := unseen(new); why != "" {
		c.remark("asked for now: %s", why)
	}
	text := unified(c.from+" code", c.to+" code", old.Code, new.Code)
	switch {
	case old.Run == "" || old.CodeSHA256+new.CodeSHA256 == "": // all is new, or the plan has all
	case old.CodeSHA256 == new.CodeSHA256:
		c.remark("the code is the same, byte for byte")
	case text == "":
		c.remark("the code is another one, but not in what is shown of it")
	}
	for _, s := range Warnings(new.Code) {
		c.remark("code: %s", s)
	}
	return text
}

// files compares those of both versions by their names: those that are asked for now, then those that are gone.
func (c *comparison) files() string {
	before := map[string]File{}
	for _, f := range c.old.Files {
		before[f.Name] = f
	}
	var b strings.Builder
	for _, f := range c.new.Files {
		was, there := before[f.Name]
		delete(before, f.Name)
		b.WriteString(c.file(was, f, there))
	}
	for _, was := range c.old.Files { // in their order
		if _, left := before[was.Name]; left {
			c.remark("%s is gone", was.called())
			b.WriteString(unified(c.from+" "+was.Name, c.to+" "+was.Name, was.Text, ""))
		}
	}
	return b.String()
}

func (c *comparison) file(was, f File, there bool) string {
	if there && was == f && f.SHA256 != "" && f.Omitted == "" {
		return "" // the same, and it was shown then
	}
	switch {
	case !there:
		c.remark("%s is new: %d bytes", f.called(), f.Bytes)
	case was.SHA256 != f.SHA256:
		c.remark("%s is not the same: %d bytes", f.called(), f.Bytes)
	}
	if f.Omitted != "" {
		c.remark("%s: %s", f.called(), f.Omitted)
	}
	if f.Executable && !(there && was.Executable) {
		c.remark("%s can be run as a program", f.called())
	}
	for _, s := range Warnings(f.Text) {
		c.remark("%s: %s", f.called(), s)
	}
	return unified(c.from+" "+f.Name, c.to+" "+f.Name, was.Text, f.Text)
}

func (f File) called() string {
	if f.Name == "" {
		return "the rest of the files"
	}
	return f.Name
}

// bounded cuts a part of the diff that is too long at the end of a line, and says so at its beginning and where it is cut.
func (c *comparison) bounded(what, lines string) string {
	if len(lines) <= MaxDiffBytes {
		return lines
	}
	head := lines[:MaxDiffBytes]
	head = head[:strings.LastIndexByte(head, '\n')+1]
	rest := strings.Count(lines, "\n") - strings.Count(head, "\n")
	c.remark("the difference of the %s is long: its last %d lines are not shown", what, rest)
	return head + fmt.Sprintf("# here %d lines of the %s are left out\n", rest, what)
}

// unified is a unified diff, or nothing if there is no difference.
func unified(oldName, newName, old, new string) string {
	text := diff.Diff(oldName, []byte(old), newName, []byte(new))
	_, lines, _ := bytes.Cut(text, []byte("\n")) // the first line repeats the names
	return string(lines)
}

// unseen says why the code of a is not all there, or nothing.
func unseen(a Approval) string {
	empty := sha256.Sum256(nil)
	if a.Omitted == "" && a.Code == "" && a.CodeSHA256 != "" && a.CodeSHA256 != hex.EncodeToString(empty[:]) {
		return "the code was not read, so it is not shown"
	}
	return a.Omitted
}

// indented is a plan with a line for each value, made visible.
func indented(plan json.RawMessage) string {
	if len(plan) == 0 {
		return ""
	}
	var b bytes.Buffer
	if err := json.Indent(&b, plan, "", "  "); err != nil {
		return visible(string(plan)) + "\n"
	}
	return visible(b.String()) + "\n"
}

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

// MaxDiffBytes bounds what [Diff] returns, but for its remarks.
const MaxDiffBytes = 512 << 10

// Diff compares what is asked for with the version that was approved last (of [Previous]; the zero Approval: there is
// none), as the owner should see it: a unified diff of the plans, then of the code. Both must have been read with their
// code, by [Get], Previous or [Ask].
//
// Lines that begin with # are remarks of silk's; no line of code can look like one, since those begin with a space, + or -.
// They say what cannot be seen in the diff: that a version is not shown whole, that the diff is cut, that there are
// characters which are not what they seem ([Warnings]). Without any difference Diff says that, too.
//
// The lines are compared with the algorithm of the go command ("anchored diff"), which takes O(n log n) time whatever is
// compared: a requester cannot keep the owner waiting.
func Diff(old, new Approval) string {
	var b strings.Builder
	remark := func(format string, args ...any) { fmt.Fprintf(&b, "# "+format+"\n", args...) }

	from, to := "nothing", "run "+new.Run
	if old.Run == "" {
		remark("no version of %s was approved before: all of it is new", new.Subject)
	} else {
		from = "run " + old.Run
		remark("compared with what was approved on %s", old.Decided.UTC().Format(time.RFC3339))
		if old.Token != new.Token {
			remark("that was asked for by another token: %s", old.Token)
		}
		for _, s := range unseen(old) {
			remark("approved before: %s", s)
		}
	}
	for _, s := range unseen(new) {
		remark("asked for now: %s", s)
	}
	code := unified(from+" code", to+" code", old.Code, new.Code)
	switch {
	case old.Run == "" || old.CodeSHA256+new.CodeSHA256 == "": // all is new, or the plan has all
	case old.CodeSHA256 == new.CodeSHA256:
		remark("the code is the same, byte for byte")
	case code == "":
		remark("the code is another one, but not in what is shown of it")
	}
	for _, s := range Warnings(new.Code) {
		remark("%s", s)
	}
	lines := unified(from+" plan", to+" plan", indented(old.Plan), indented(new.Plan)) + code
	if lines == "" {
		remark("there is no difference to be seen")
	}
	if len(lines) <= MaxDiffBytes {
		return b.String() + lines
	}
	head := lines[:MaxDiffBytes]
	head = head[:strings.LastIndexByte(head, '\n')+1]
	rest := strings.Count(lines, "\n") - strings.Count(head, "\n")
	remark("the difference is long: its last %d lines are not shown", rest)
	return b.String() + head + fmt.Sprintf("# here %d lines are left out\n", rest)
}

// unified is a unified diff, or nothing if there is no difference.
func unified(oldName, newName, old, new string) string {
	text := diff.Diff(oldName, []byte(old), newName, []byte(new))
	_, lines, _ := bytes.Cut(text, []byte("\n")) // the first line repeats the names
	return string(lines)
}

// unseen says why the code of a is not all there.
func unseen(a Approval) []string {
	empty := sha256.Sum256(nil)
	switch {
	case a.Omitted != "":
		return []string{a.Omitted}
	case a.Code == "" && a.CodeSHA256 != "" && a.CodeSHA256 != hex.EncodeToString(empty[:]):
		return []string{"the code was not read, so it is not shown"}
	}
	return nil
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

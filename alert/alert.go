// Package alert is Widow Red: what is raised when a run broke a rule, and where it goes.
//
// An [Alert] is about one violation, which has ended its run already. [Sinks] tells everyone whom the owner's
// configuration names: people at the terminal, a file, a webhook. Telling changes nothing about the run: a sink that is
// down is logged and audited, within a bounded time, and the outcome stays what it is. There is no queue and no retry
// beyond a second attempt: who must not miss a violation reads the audit trail, where it is in any case.
//
// The package does not decide what a violation is, does not end anything, and is not for other notices of how runs end.
package alert

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/internal/escape"
)

// Schema names the JSON form.
const Schema = "silk.alert/v1"

// maxShown bounds the argument in a line, in bytes: enough for a path that people read, and one line of a log. The JSON
// form bounds it by maxSent, which is Linux's longest path (PATH_MAX, include/uapi/linux/limits.h).
const (
	maxShown = 256
	maxSent  = 4096
)

// Alert is one violation. Syscall and Argument come from a hostile program, which chose them knowing that they would be
// shown: use Line or MarshalJSON, never print them as they are.
type Alert struct {
	Run       string
	At        time.Time // when the attempt was stopped
	Rule      string    // class and name: "file.accounts"
	Syscall   string    // "openat"
	Argument  string    // what it would have reached, resolved: "/etc/passwd"
	Profile   string
	Outcome   string        // of the run: "violated"
	DeadAfter time.Duration // from the attempt until the sandbox was gone; 0: not measured
}

// Line is one line for people, without its end: time, run, rule, system call and argument. It has no byte that steers a
// terminal but, if coloured says so, those that make it red.
func (a Alert) Line(coloured bool) string {
	var b strings.Builder
	b.WriteString(a.At.Format("2006-01-02 15:04:05.000"))
	b.WriteString(" WIDOW RED run " + word(a.Run) + " broke rule " + word(a.Rule) + ": " + word(cmp.Or(a.Syscall, "unknown")))
	shown, cut := clip(a.Argument, maxShown)
	b.WriteString("(" + strconv.QuoteToASCII(shown) + cut + ")")
	if a.DeadAfter > 0 {
		b.WriteString("; the sandbox was dead after " + a.DeadAfter.Round(10*time.Microsecond).String())
	}
	if !coloured {
		return b.String()
	}
	return undo + "\x1b[1;31m" + b.String() + "\x1b[0m"
}

// undo takes a terminal out of what hides a line: an unfinished command, another character set, concealed text (ECMA-48,
// xterm's control sequences). It does not leave the alternate screen or a scrolling region, since that would move the cursor of a
// terminal that is in none.
const undo = "\x1b\\\x1b(B\x0f\x1b[0m"

// word is a name in a line: silk's own, but nothing here relies on that.
func word(s string) string {
	s, cut := clip(s, maxShown)
	quoted := strconv.QuoteToASCII(s)
	if quoted == `"`+s+`"` && !strings.Contains(s, " ") {
		return s + cut
	}
	return quoted + cut
}

// clip is the beginning of s, up to most bytes, and a mark if that is not all.
func clip(s string, most int) (begin, mark string) {
	if len(s) <= most {
		return s, ""
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most], "..."
}

// wire is the JSON form.
type wire struct {
	Schema      string `json:"schema"`
	Run         string `json:"run"`
	AtMs        int64  `json:"at_ms"` // Unix milliseconds
	Rule        string `json:"rule"`
	Syscall     string `json:"syscall"`
	Argument    string `json:"argument"`               // broken UTF-8 in it replaced
	ArgumentB64 string `json:"argument_b64,omitempty"` // its bytes, if that was needed
	Truncated   bool   `json:"argument_truncated,omitempty"`
	Profile     string `json:"profile"`
	Outcome     string `json:"outcome"`
	DeadAfterUs int64  `json:"dead_after_us,omitempty"` // absent: not measured
}

// MarshalJSON returns the form silk.alert/v1, in one line. As text it is safe to show on a terminal.
func (a Alert) MarshalJSON() ([]byte, error) {
	argument, cut := clip(a.Argument, maxSent)
	w := wire{
		Schema: Schema, Run: a.Run, AtMs: a.At.UnixMilli(), Rule: a.Rule, Syscall: a.Syscall, Argument: strings.ToValidUTF8(argument, "\ufffd"),
		Truncated: cut != "", Profile: a.Profile, Outcome: a.Outcome, DeadAfterUs: a.DeadAfter.Microseconds(),
	}
	if w.Argument != argument {
		w.ArgumentB64 = base64.StdEncoding.EncodeToString([]byte(argument))
	}
	var b strings.Builder
	if err := json.NewEncoder(&b).Encode(w); err != nil {
		return nil, err
	}
	return []byte(escape.JSON(strings.TrimSuffix(b.String(), "\n"))), nil
}

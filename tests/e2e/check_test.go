package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/run"
)

// result is what came of one run of silk.
type result struct {
	outcome   run.Outcome
	status    int           // silk's own
	wall      time.Duration // of silk
	started   time.Time
	artifacts string // directory of the copies
}

// escaped begins a line of a program that got what it must not get.
const escaped = "ESCAPED"

// problems says in what got differs from w.
func (w want) problems(got result) []string {
	var p problems
	o := got.outcome
	if !slices.Contains(strings.Split(w.Outcome, "|"), string(o.Kind)) {
		p.add("outcome %q, want %q; message %q, rule %q %s(%.100q)", o.Kind, w.Outcome, o.Message, o.Rule, o.Syscall, o.Argument)
	}
	if want := o.ExitStatus(); got.status != want {
		p.add("silk exited with %d, but the outcome %q means %d", got.status, o.Kind, want)
	}
	if w.Exit != nil && (o.ExitCode == nil || *o.ExitCode != *w.Exit) {
		p.add("exit code %s, want %d", optional(o.ExitCode), *w.Exit)
	}
	if o.Signal != w.Signal {
		p.add("signal %d, want %d", o.Signal, w.Signal)
	}
	for _, s := range []struct{ what, got, want string }{
		{"rule", o.Rule, w.Rule}, {"syscall", o.Syscall, w.Syscall}, {"argument", o.Argument, w.Argument},
	} {
		if s.want != "" && s.got != s.want {
			p.add("%s %q, want %q", s.what, s.got, s.want)
		}
	}
	for _, name := range w.Refused {
		if o.Refused[name] == 0 {
			p.add("rule %s has refused nothing; refused was %v", name, o.Refused)
		}
	}
	for name, n := range o.Refused {
		if r, ok := rules.Named(name); !ok || r.Action == rules.Deny && !slices.Contains(w.Refused, name) {
			p.add("rule %s has refused %d calls", name, n)
		}
	}
	if !strings.Contains(o.Message, w.Message) {
		p.add("message %q, want %q in it", o.Message, w.Message)
	}
	p.channel("stdout", o.Stdout, w.Stdout)
	p.channel("stderr", o.Stderr, w.Stderr)
	p.artifacts(got, w)
	for _, flag := range w.Flags {
		if o.Flags[flag] == 0 {
			p.add("flag %s is not set; set are %v", flag, o.Flags)
		}
	}
	most := w.Most
	if most == 0 {
		most = defaultMost
	}
	if got.wall > most || got.wall < w.Least {
		p.add("took %v, want %v to %v", got.wall.Round(time.Millisecond), w.Least, most)
	}
	if w.Clock != 0 {
		p.clock(text(o.Stdout), got, w.Clock)
	}
	return p
}

// problemsOfAll compares the runs of one row with each other.
func (w want) problemsOfAll(all []result) []string {
	var p problems
	seen := map[string]int{}
	for i, got := range all {
		out := text(got.outcome.Stdout)
		if w.Same && out != text(all[0].outcome.Stdout) {
			p.add("run %d printed %s, the first one %s", i+1, short(out), short(text(all[0].outcome.Stdout)))
		}
		if w.Distinct {
			for line := range strings.Lines(out) {
				if first, ok := seen[line]; ok && first != i {
					p.add("runs %d and %d both printed %q", first+1, i+1, line)
				}
				seen[line] = i
			}
		}
	}
	return p
}

type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func (p *problems) channel(name string, got run.Channel, w channel) {
	kept := text(got)
	if w.Is != nil && kept != *w.Is {
		p.add("%s is %s, want %s", name, short(kept), short(*w.Is))
	}
	for _, part := range w.Has {
		if !strings.Contains(kept, part) {
			p.add("%s is %s, want %q in it", name, short(kept), part)
		}
	}
	for _, pattern := range w.Match {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(kept) {
			p.add("%s is %s, want a match of %q", name, short(kept), pattern)
		}
	}
	for _, pattern := range append(slices.Clone(w.Lacks), "^"+escaped) {
		if found := regexp.MustCompile("(?m)" + pattern + ".*").FindString(kept); found != "" {
			p.add("%s has %q", name, found)
		}
	}
	if w.Bytes != nil && got.Bytes != *w.Bytes {
		p.add("%s counts %d bytes, want %d", name, got.Bytes, *w.Bytes)
	}
	truncated := w.Truncated
	if no := false; truncated == nil && (w.Is != nil || w.SHA256 != "") {
		truncated = &no
	}
	if truncated != nil && got.Truncated != *truncated {
		p.add("%s truncated is %v, want %v", name, got.Truncated, *truncated)
	}
	if w.SHA256 != "" && got.SHA256 != w.SHA256 {
		p.add("%s has sha256 %s, want %s", name, got.SHA256, w.SHA256)
	}
	if nothing := got.SHA256 == "" && got.Bytes == 0 && kept == ""; !got.Truncated && !nothing { // nothing: no program ran
		if sum := sha256.Sum256([]byte(kept)); got.SHA256 != hex.EncodeToString(sum[:]) || got.Bytes != int64(len(kept)) {
			p.add("%s says %d bytes with sha256 %s, but what is kept differs", name, got.Bytes, got.SHA256)
		}
	}
	if len(w.Kept) == 2 && (len(kept) < w.Kept[0] || len(kept) > w.Kept[1]) {
		p.add("%s keeps %d bytes, want %d to %d", name, len(kept), w.Kept[0], w.Kept[1])
	}
}

func (p *problems) artifacts(got result, w want) {
	listed := map[string]run.Artifact{}
	var names []string
	for _, a := range got.outcome.Artifacts {
		path := a.Path
		if raw, err := base64.StdEncoding.DecodeString(a.PathB64); err == nil && a.PathB64 != "" {
			path = string(raw)
		}
		listed[path] = a
		names = append(names, path)
	}
	for _, path := range w.Artifacts {
		a, ok := listed[path]
		if !ok {
			p.add("artifact %q is missing; listed are %.500q", path, names)
			continue
		}
		data, err := readCopy(got.artifacts, path)
		if err != nil {
			p.add("artifact %q was not copied: %v", path, err)
			continue
		}
		if sum := sha256.Sum256(data); a.SHA256 != hex.EncodeToString(sum[:]) || a.Size != int64(len(data)) {
			p.add("artifact %q: listed with %d bytes and sha256 %s, copied with %d and %x", path, a.Size, a.SHA256, len(data), sum)
		}
	}
	for path, magic := range w.Magic {
		start, err := hex.DecodeString(magic)
		if data, readErr := readCopy(got.artifacts, path); err != nil || readErr != nil || !bytes.HasPrefix(data, start) {
			p.add("artifact %q begins with %.8x, want %s (%v)", path, data, magic, errors.Join(err, readErr))
		}
	}
	for _, path := range w.Unread {
		if a := listed[path]; a.SHA256 != "" {
			p.add("the content behind %q was read", path)
		}
		if _, err := os.Lstat(filepath.Join(got.artifacts, path)); !errors.Is(err, fs.ErrNotExist) {
			p.add("%q was copied: %v", path, err)
		}
	}
	if w.SomeFile != "" && !slices.ContainsFunc(names, func(path string) bool {
		_, err := readCopy(got.artifacts, path)
		return err == nil && regexp.MustCompile(w.SomeFile).MatchString(path)
	}) {
		p.add("no artifact matches %q; listed are %.500q", w.SomeFile, names)
	}
	if w.NoFile != "" {
		for _, path := range names {
			if regexp.MustCompile(w.NoFile).MatchString(path) {
				p.add("%q is an artifact", path)
			}
		}
	}
}

// readCopy reads a copied artifact, which must be a file, not a link.
func readCopy(dir, path string) ([]byte, error) {
	full := filepath.Join(dir, path)
	info, err := os.Lstat(full)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %v", full, info.Mode().Type())
	}
	return os.ReadFile(full)
}

// clock compares the time that a program printed with the time of its run.
func (p *problems) clock(out string, got result, exact time.Duration) {
	word, _, _ := strings.Cut(out, "\n")
	seconds, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
	if err != nil {
		p.add("the program's time: %v", err)
		return
	}
	whole, part := math.Modf(seconds)
	at := time.Unix(int64(whole), int64(part*1e9))
	if at.Before(got.started.Add(-exact)) || at.After(got.started.Add(got.wall+exact)) {
		p.add("the program saw the time %v in a run from %v on", at, got.started)
	}
}

// text is what is kept of a channel.
func text(c run.Channel) string {
	switch {
	case c.Text != nil:
		return *c.Text
	case c.B64 != nil:
		data, err := base64.StdEncoding.DecodeString(*c.B64)
		if err != nil {
			return "not base64: " + *c.B64
		}
		return string(data)
	}
	return ""
}

func short(s string) string {
	const most = 400
	if len(s) > most {
		return fmt.Sprintf("%q ... %q (%d bytes)", s[:most/2], s[len(s)-most/2:], len(s))
	}
	return strconv.Quote(s)
}

func optional(n *int) string {
	if n == nil {
		return "null"
	}
	return strconv.Itoa(*n)
}

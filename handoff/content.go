package handoff

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// contentOf is what a receiver gets of a run that has ended.
func contentOf(end run.End, id, receiver string, receivers []string, now time.Time) api.HandoffContent {
	r := end.Record
	c := api.HandoffContent{
		Schema: api.HandoffSchema, ID: id, Receiver: receiver, Receivers: receivers, CreatedAtMs: now.UnixMilli(),
		Run: r.Run, Name: nameOf(end), Profile: r.Profile, Client: r.Client, Command: r.Command, Driver: r.Driver, Image: r.Image,
		StartedAtMs: r.StartedAtMs, EndedAtMs: r.EndedAtMs, Language: end.Source.Language,
		Log: api.HandoffLog{Stdout: channelOf(end.Stdout), Stderr: channelOf(end.Stderr)},
		Outcome: api.HandoffOutcome{
			Kind: r.Outcome.Kind, Reason: r.Outcome.Reason, Message: r.Outcome.Message, ExitCode: r.Outcome.ExitCode, Signal: r.Outcome.Signal,
			Phase: r.Outcome.Phase, Rule: r.Outcome.Rule, Flags: r.Outcome.Flags, WallMs: r.Outcome.WallMs,
		},
		Violations: violationsOf(r.Outcome), Note: end.Source.Note.Path, Block: end.Source.Note.Block,
	}
	if c.Outcome.Flags == nil {
		c.Outcome.Flags = map[string]int64{}
	}
	if receiver == CodeExplainer {
		c.Code = codeOf(end.Source)
	}
	return c
}

// nameOf is what people know the code by.
func nameOf(end run.End) string {
	name := end.Source.Name
	if name == "" {
		name, _, _ = strings.Cut(end.Record.Command, " ")
	}
	name = path.Base(name)
	return strings.ToValidUTF8(name[:min(len(name), maxSpan)], "")
}

// codeOf is nil for a command without code.
func codeOf(s run.Source) *api.HandoffCode {
	if s.Name == "" && s.Omitted == "" {
		return nil
	}
	c := &api.HandoffCode{Name: s.Name, Bytes: s.Bytes, SHA256: s.SHA256, Omitted: s.Omitted}
	code := s.Code
	if int64(len(code)) < s.Bytes {
		code = wholeRunes(code)
	}
	if code != nil {
		c.Text, c.B64 = textOf(code)
	}
	return c
}

func channelOf(l run.Log) api.HandoffChannel {
	head, tail := l.Head, l.Tail
	if l.Omitted() > 0 {
		head = wholeRunes(head)
		tail = wholeRunesAtEnd(tail)
	}
	c := api.HandoffChannel{Bytes: l.Bytes, SHA256: l.SHA256, Omitted: l.Bytes - int64(len(head)+len(tail))}
	c.Text, c.B64 = textOf(head)
	if len(tail) > 0 {
		c.Tail, c.TailB64 = textOf(tail)
	}
	return c
}

// violationsOf are the rule that the run was ended for, and those whose calls were refused.
func violationsOf(o record.Outcome) []api.HandoffViolation {
	list := []api.HandoffViolation{}
	if o.Kind == string(run.Violated) {
		list = append(list, api.HandoffViolation{Rule: o.Rule, Ended: true, Syscall: o.Syscall, Argument: o.Argument, Count: 1})
	}
	for _, rule := range slices.Sorted(maps.Keys(o.Refused)) {
		list = append(list, api.HandoffViolation{Rule: rule, Count: o.Refused[rule]})
	}
	return list
}

// wholeRunes is text without the begin of a character at its end; what is no text stays as it is.
func wholeRunes(text []byte) []byte {
	for n := 0; n < utf8.UTFMax && n <= len(text); n++ {
		if utf8.Valid(text[:len(text)-n]) {
			return text[:len(text)-n]
		}
	}
	return text
}

// wholeRunesAtEnd is text without the rest of a character at its begin.
func wholeRunesAtEnd(text []byte) []byte {
	for n := 0; n < utf8.UTFMax && n <= len(text); n++ {
		if utf8.Valid(text[n:]) {
			return text[n:]
		}
	}
	return text
}

// textOf is data as text if it is, else in base64.
func textOf(data []byte) (text, b64 *string) {
	if utf8.Valid(data) {
		s := string(data)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(data)
	return nil, &s
}

// bytesOf is what textOf was given.
func bytesOf(text, b64 *string) []byte {
	if text != nil {
		return []byte(*text)
	}
	if b64 == nil {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(*b64)
	if err != nil {
		return []byte(*b64) // not ours, and shown as it is
	}
	return data
}

// encode is the content as it is kept and sent.
func encode(c api.HandoffContent) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("encode hand-off %s: %w", c.ID, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func decode(text []byte) (c api.HandoffContent, err error) {
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("decode a hand-off: %w", err)
	}
	return c, nil
}

package disktrace

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// call is one system call. Begun and ended are places in the order of all beginnings and ends.
type call struct {
	name         string
	args         []string
	ret          int64
	begun, ended int
}

// moment is the beginning or the end of a call.
type moment struct {
	call *call
	end  bool
}

// parse reads what strace -f -xx has written, into moments in their order. A call that did not come back has no end, and
// those that failed are left out.
func parse(r io.Reader) (moments []moment, err error) {
	lines := bufio.NewReaderSize(r, 1<<20)
	open := map[string]*half{}
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return kept(moments), nil
		}
		if err != nil {
			return nil, err
		}
		pid, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		text = strings.TrimLeft(text, " ")
		if !ok {
			return nil, fmt.Errorf("line %d of the trace: %.80q", n, line)
		}
		if strings.HasPrefix(text, "+++ ") || strings.HasPrefix(text, "--- ") { // an end, a signal
			continue
		}
		at := len(moments)
		if start, ok := strings.CutSuffix(text, " <unfinished ...>"); ok {
			h := &half{call: &call{begun: at, ended: -1}, text: start}
			open[pid] = h
			if err := h.begin(); err != nil {
				return nil, fmt.Errorf("line %d of the trace: %w", n, err)
			}
			moments = append(moments, moment{h.call, false})
			continue
		}
		h := open[pid]
		if strings.HasPrefix(text, "<... ") {
			_, rest, _ := strings.Cut(text, " resumed>")
			if h == nil {
				return nil, fmt.Errorf("line %d of the trace: the end of a call that did not begin: %.80q", n, text)
			}
			h.text += rest
			delete(open, pid)
		} else {
			h = &half{call: &call{begun: at}, text: text}
			moments = append(moments, moment{h.call, false})
			at++
		}
		h.call.ended = at
		if err := h.end(); err != nil {
			return nil, fmt.Errorf("line %d of the trace: %w", n, err)
		}
		moments = append(moments, moment{h.call, true})
	}
}

// kept leaves out the calls that failed, whose places stay empty.
func kept(all []moment) []moment {
	for i, m := range all {
		if m.call.ended >= 0 && m.call.ret < 0 {
			all[i].call = nil
		}
	}
	return all
}

// half is a call as far as it is known.
type half struct {
	*call
	text string
}

func (h *half) begin() error {
	name, rest, ok := strings.Cut(h.text, "(")
	if !ok {
		return fmt.Errorf("no call: %.80q", h.text)
	}
	h.name, h.args = name, strings.Split(strings.TrimSuffix(strings.TrimSpace(rest), ","), ", ") // strings are hexadecimal: no comma is in them
	return nil
}

func (h *half) end() error {
	i := strings.LastIndex(h.text, " = ")
	if i < 0 {
		return fmt.Errorf("a call without an end: %.80q", h.text)
	}
	result := h.text[i+len(" = "):]
	h.text = strings.TrimSuffix(strings.TrimRight(h.text[:i], " "), ")")
	if err := h.begin(); err != nil {
		return err
	}
	number := result
	if j := strings.IndexAny(result, " <"); j >= 0 {
		number = result[:j]
	}
	if number == "?" { // the process ended in it
		h.ret = -1
		return nil
	}
	ret, err := strconv.ParseInt(number, 0, 64)
	if err != nil {
		return fmt.Errorf("the result of a call: %w", err)
	}
	h.ret = ret
	return nil
}

// text decodes a string argument: "\x2f\x61".
func text(arg string) ([]byte, error) {
	quoted, ok := strings.CutPrefix(arg, `"`)
	if !ok || !strings.HasSuffix(quoted, `"`) { // also one that strace has cut off: "..."...
		return nil, fmt.Errorf("%.80q is no whole string", arg)
	}
	return unhex(strings.TrimSuffix(quoted, `"`))
}

func unhex(s string) ([]byte, error) { return hex.DecodeString(strings.ReplaceAll(s, `\x`, "")) }

// descriptor decodes 3<\x2f\x61>, or AT_FDCWD<\x2f>.
func descriptor(arg string) (fd int, path string, err error) {
	number, rest, _ := strings.Cut(arg, "<")
	rest, _, _ = strings.Cut(rest, ">")
	name, err := unhex(rest)
	if err != nil {
		name = nil // a socket, or another thing without a name
	}
	if number == "AT_FDCWD" {
		return -1, string(name), nil
	}
	fd, err = strconv.Atoi(number)
	return fd, string(name), err
}

func number(arg string) (int64, error) { return strconv.ParseInt(arg, 0, 64) }

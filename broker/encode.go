package broker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/api"
)

// channel is a number, so that what is kept for each can be an array.
type channel uint8

const (
	stdout channel = iota
	stderr
	channels // how many
)

var channelNames = [channels]string{"stdout", "stderr"}

func (c channel) String() string { return channelNames[c] }

func parseChannel(name string) (channel, bool) {
	for i, n := range channelNames {
		if n == name {
			return channel(i), true
		}
	}
	return 0, false
}

// stamp is where a piece of output stands in its run. A piece that was joined has that of its last part.
type stamp struct {
	seq uint64
	at  time.Duration
}

// later returns the later of both in each respect, so that stamps never fall from frame to frame.
func (s stamp) later(t stamp) stamp { return stamp{max(s.seq, t.seq), max(s.at, t.at)} }

// encodeOutput is the frame of p, which begins at offset. It is what json.Marshal makes of an api.Frame, only several times
// faster, and without escapes that only HTML needs.
func encodeOutput(run string, c channel, at stamp, offset int64, p []byte) []byte {
	text, size := asText(p)
	b := make([]byte, 0, 160+len(run)+size)
	b = append(b, `{"type":"output","run":"`...)
	b = append(b, run...)
	b = append(b, `","seq":`...)
	b = strconv.AppendUint(b, at.seq, 10)
	b = append(b, `,"at_ms":`...)
	b = strconv.AppendInt(b, at.at.Milliseconds(), 10)
	b = append(b, `,"channel":"`...)
	b = append(b, c.String()...)
	b = append(b, `","offset":`...)
	b = strconv.AppendInt(b, offset, 10)
	if text {
		b = append(b, `,"data":"`...)
		b = appendEscaped(b, p)
	} else {
		b = append(b, `,"b64":"`...)
		b = base64.StdEncoding.AppendEncode(b, p)
	}
	return append(b, `"}`...)
}

// asText says whether p goes as a string, and how long it is then, or as base64. What is not UTF-8 cannot be a string, and
// what is mostly control characters, which are escaped into six bytes each, should not: a frame of 32 KiB of zeros would
// have 192 KiB, and what bounds the memory of a stream counts on frames that are at most twice as long as their payload.
func asText(p []byte) (text bool, size int) {
	for _, c := range p {
		size += int(escapedLength[c])
	}
	if utf8.Valid(p) && (len(p) <= 1<<10 || size <= 2*len(p)) {
		return true, size
	}
	return false, base64.StdEncoding.EncodedLen(len(p))
}

// escapedLength is the length of each byte in a JSON string: RFC 8259 section 7.
var escapedLength = func() (n [256]uint8) {
	for c := range n {
		switch {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n[c] = 2
		case c < ' ':
			n[c] = 6
		default:
			n[c] = 1
		}
	}
	return n
}()

func appendEscaped(b, p []byte) []byte {
	const hex = "0123456789abcdef"
	from := 0
	for i, c := range p {
		if escapedLength[c] == 1 {
			continue
		}
		b = append(b, p[from:i]...)
		from = i + 1
		switch c {
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		case '"', '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(b, p[from:]...)
}

// cutOutput is the rest of an output frame from a later offset on.
func cutOutput(run string, e *entry, offset int64) ([]byte, error) {
	var f api.Frame
	if err := json.Unmarshal(e.frame, &f); err != nil {
		return nil, fmt.Errorf("read own frame: %w", err)
	}
	p, err := f.Bytes()
	if err != nil {
		return nil, fmt.Errorf("read own frame: %w", err)
	}
	return encodeOutput(run, e.channel, e.stamp, offset, p[offset-e.from:]), nil
}

// encode is the JSON of any other frame.
func encode(f api.Frame) []byte {
	b, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("broker: encode frame: %v", err)) // the type has nothing that JSON has not
	}
	return b
}

func encodeGap(run string, c channel, from, to int64) []byte {
	return encode(api.Frame{Type: api.FrameGap, Run: run, Channel: c.String(), From: &from, To: &to})
}

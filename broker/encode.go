package broker

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"sync"
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

// encodeOutput is the frame of p, which begins at offset. It is what json.Marshal makes of an api.Frame, only several
// times faster, and without escapes that only HTML needs.
func encodeOutput(run string, c channel, at stamp, offset int64, p []byte) []byte {
	buffer := encoders.Get().(*[]byte)
	defer encoders.Put(buffer)
	b := (*buffer)[:0]
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
	b = append(appendPayload(b, p), '}')
	*buffer = b
	return bytes.Clone(b) // exactly as long as needed: it is kept
}

// encoders saves busy streams from growing a buffer for each frame.
var encoders = sync.Pool{New: func() any { return new([]byte) }}

// appendPayload appends the last field of an output frame. What is not UTF-8 cannot be a string, and what is mostly
// control characters, which are escaped into six bytes each, should not: a frame of 32 KiB of zeros would have 192 KiB,
// and what bounds the memory of a stream counts on frames that are at most twice as long as their payload.
func appendPayload(b, p []byte) []byte {
	start := len(b)
	if utf8.Valid(p) {
		b = appendEscaped(append(b, `,"data":"`...), p)
		if n := len(b) - start; len(p) <= 1<<10 || n <= 2*len(p)+16 {
			return append(b, '"')
		}
	}
	b = append(b[:start], `,"b64":"`...)
	b = base64.StdEncoding.AppendEncode(b, p)
	return append(b, '"')
}

// appendEscaped appends p as the inside of a JSON string: RFC 8259 section 7.
func appendEscaped(b, p []byte) []byte {
	const hex = "0123456789abcdef"
	for {
		n := plain(p)
		b = append(b, p[:n]...)
		if n == len(p) {
			return b
		}
		c := p[n]
		p = p[n+1:]
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
}

// plain is how many bytes at the begin of p need no escape. It looks at eight at a time: where a byte of x is smaller
// than n, at most 128, (x - n) &^ x has the highest bit of that byte set, and of bytes after it perhaps too (Warren,
// Hacker's Delight, section 6-1).
func plain(p []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(p); i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		if found := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(p); i++ {
		if c := p[i]; c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return i
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

package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A segment is a zstd-compressed file of JSON lines: a header, the events in order as [Event] prints them, and a seal. It
// can be read with zstdcat. There is one way to write each line, so what a reader accepts is what was written.
const (
	segmentSchema = "silk.audit-segment/v1"
	segmentPerm   = 0o600

	// maxLine bounds a line: the data of an event, which JSON may escape no further, and its other fields.
	maxLine = MaxDataBytes + 4096

	// window is that of the compression: what a reader must remember. 1 MiB of events repeats all there is to repeat.
	window = 1 << 20
)

// header is the first line of a segment.
type header struct {
	Schema   string `json:"schema"`
	FirstSeq int64  `json:"first_seq"`
	PrevHash string `json:"prev_hash"` // of the event before the first
}

// seal is the last line of a segment.
type seal struct {
	LastSeq  int64  `json:"last_seq"`
	LastHash string `json:"last_hash"`
	Events   int64  `json:"events"`
	SHA256   string `json:"sha256"` // of all lines before this one, uncompressed
}

// segment is a listed file of events.
type segment struct {
	First, Last int64
	LastHash    string
	Newest      int64 // CreatedAt of the last event
	State       string
}

// The states of a segment, in their order.
const (
	sealed   = "sealed"   // it is a part of the trail
	removing = "removing" // retention has said that it is gone; the file may still be there
	removed  = "removed"
)

// segmentName is the name of the file of a segment. Names sort as the events do.
func segmentName(first, last int64) string { return fmt.Sprintf("%012d-%012d.jsonl.zst", first, last) }

// parseSegmentName is the reverse of segmentName.
func parseSegmentName(name string) (first, last int64, ok bool) {
	if _, err := fmt.Sscanf(name, "%d-%d.jsonl.zst", &first, &last); err != nil {
		return 0, 0, false
	}
	return first, last, name == segmentName(first, last)
}

// line is v as one line of JSON, with data as it is.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // it would change data, and so its hash
	err := enc.Encode(v)
	return b.Bytes(), err
}

// writer writes a segment. Not safe for concurrent use.
type writer struct {
	z      *zstd.Encoder
	sum    hash.Hash
	head   Head
	events int64
}

func newWriter(w io.Writer, after Head) (*writer, error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return nil, err
	}
	s := &writer{z: z, sum: sha256.New(), head: after}
	return s, s.line(header{Schema: segmentSchema, FirstSeq: after.Seq + 1, PrevHash: after.Hash})
}

func (s *writer) line(v any) error {
	text, err := line(v)
	if err != nil {
		return err
	}
	s.sum.Write(text)
	_, err = s.z.Write(text)
	return err
}

// add adds the next event, which must continue the chain.
func (s *writer) add(e Event) error {
	if err := s.head.follow(e); err != nil {
		return err
	}
	s.events++
	return s.line(e)
}

// close writes the seal and flushes; the file is the caller's.
func (s *writer) close() error {
	sum := hex.EncodeToString(s.sum.Sum(nil))
	if err := s.line(seal{LastSeq: s.head.Seq, LastHash: s.head.Hash, Events: s.events, SHA256: sum}); err != nil {
		return err
	}
	return s.z.Close()
}

// errSegment is wrapped by what readSegment says of content that is not a whole segment.
var errSegment = errors.New("not a whole segment")

func segmentf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSegment, fmt.Sprintf(format, args...))
}

// readSegment reads a segment that continues after and calls visit with each event. It checks form, order and seal, and
// with each event's hash what the chain checks, so the events that were visited are whole also when it fails later. It
// returns the last event that was. Safe for hostile input: memory is bounded by window and maxLine.
func readSegment(r io.Reader, after Head, visit func(Event) error) (Head, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return after, err
	}
	defer z.Close()
	lines := bufio.NewReaderSize(z, maxLine)
	head, sum := after, sha256.New()
	text, err := nextLine(lines)
	if err != nil {
		return head, err
	}
	var h header
	if err := exactly(text, &h); err != nil {
		return head, segmentf("its header is not one: %v", err)
	}
	if want := (header{segmentSchema, after.Seq + 1, after.Hash}); h != want {
		return head, segmentf("its header is %+v, not %+v", h, want)
	}
	for events := int64(0); ; events++ {
		sum.Write(text)
		if text, err = nextLine(lines); err != nil {
			return head, err
		}
		if bytes.HasPrefix(text, []byte(`{"last_seq":`)) {
			var got seal
			if err := exactly(text, &got); err != nil {
				return head, segmentf("its seal is not one: %v", err)
			}
			if want := (seal{head.Seq, head.Hash, events, hex.EncodeToString(sum.Sum(nil))}); got != want {
				return head, segmentf("its seal is %+v, not %+v", got, want)
			}
			break
		}
		var e Event
		if err := exactly(text, &e); err != nil {
			return head, segmentf("what follows event %d is none: %v", head.Seq, err)
		}
		if err := head.follow(e); err != nil {
			return head, err
		}
		if err := visit(e); err != nil {
			return head, err
		}
	}
	if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) {
		return head, segmentf("something follows its seal")
	}
	return head, nil
}

// nextLine returns the next line, with its end; it is valid until the next call.
func nextLine(r *bufio.Reader) ([]byte, error) {
	text, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, segmentf("a line is longer than %d bytes", maxLine)
	case errors.Is(err, io.EOF):
		return nil, segmentf("it ends before its seal")
	case err != nil:
		return nil, segmentf("%v", err)
	}
	return text, nil
}

// exactly decodes a line that is the one way to write v: nothing in it can hide from a hash over the fields.
func exactly(text []byte, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return err
	}
	again, err := line(v)
	if err == nil && !bytes.Equal(again, text) {
		err = errors.New("it is not written as silk writes it")
	}
	return err
}

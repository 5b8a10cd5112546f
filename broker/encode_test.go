package broker

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
)

// The fast encoder says what json.Marshal says.
func FuzzEncodeOutput(f *testing.F) {
	f.Add([]byte("plain\n"), int64(0), uint64(1), int64(0))
	f.Add([]byte("\x00\x1f\x7f\"\\/\b\f\n\r\t<>&\u2028\u2029é€😀"), int64(7), uint64(1<<63), int64(86400000))
	f.Add([]byte("\xff\xc3"), int64(1<<53), uint64(2), int64(1))
	f.Add(bytes.Repeat([]byte{0}, 3000), int64(1), uint64(2), int64(1))
	f.Fuzz(func(t *testing.T, p []byte, offset int64, seq uint64, ms int64) {
		if len(p) == 0 || ms < 0 || ms > 1<<40 || seq == 0 {
			return
		}
		frame := encodeOutput("r-1", stderr, stamp{seq, time.Duration(ms) * time.Millisecond}, offset, p)
		var got api.Frame
		if err := json.Unmarshal(frame, &got); err != nil {
			t.Fatalf("%q: %v", frame, err)
		}
		want := api.Frame{Type: api.FrameOutput, Run: "r-1", Seq: seq, AtMs: &ms, Channel: "stderr", Offset: &offset}
		want.Data, want.B64 = got.Data, got.B64
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("want -, got +:\n%s", diff)
		}
		if b, err := got.Bytes(); err != nil || !bytes.Equal(b, p) {
			t.Fatalf("got %q, %v, want %q", b, err, p)
		}
		if got.B64 == "" && !utf8.Valid(p) {
			t.Fatal("what is not UTF-8 goes as a string")
		}
		if got.B64 != "" && utf8.Valid(p) && len(p) <= 1<<10 {
			t.Fatal("a short text goes as base64")
		}
		if len(frame) > 2*len(p)+200 && len(p) > 1<<10 {
			t.Fatalf("%d bytes make a frame of %d", len(p), len(frame))
		}
		if cap(frame) > len(frame)+len(frame)/4+64 { // a size class of the runtime
			t.Fatalf("a frame of %d bytes holds %d", len(frame), cap(frame))
		}
	})
}

// Text goes as text, however many lines and quotes it has; base64 is for what nobody can read.
func TestTextOrBase64(t *testing.T) {
	for _, test := range []struct {
		name string
		data string
		text bool
	}{
		{"text", strings.Repeat("Grüße, \"Welt\" 😀\n", 1000), true},
		{"empty lines", strings.Repeat("\n", 30000), true},
		{"colours", strings.Repeat("\x1b[31mred\x1b[0m\n", 1000), true},
		{"a few zeros", "\x00\x00\x00", true},
		{"many zeros", strings.Repeat("\x00", 30000), false},
		{"not UTF-8", "caf\xe9\n", false},
		{"half a surrogate", "\xed\xa0\x80", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := decode(t, encodeOutput("r", stdout, stamp{}, 0, []byte(test.data)))
			if got := f.Data != ""; got != test.text || (f.B64 != "") == test.text {
				t.Errorf("data has %d bytes, b64 %d", len(f.Data), len(f.B64))
			}
		})
	}
}

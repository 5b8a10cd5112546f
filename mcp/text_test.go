package mcp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/api"
)

func TestClean(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"plain", "a ä 漢 \t\n", "a ä 漢 \t\n"},
		{"colours", "\x1b[1;31mred\x1b[0m", "red"},
		{"a title and a link", "\x1b]0;title\x07x\x1b]8;;http://e\x1b\\y", "xy"},
		{"a title without an end", "\x1b]0;title\nnext", "\nnext"},
		{"a charset", "\x1b(Bx\x1b=y", "xy"},
		{"C1 controls", "\u009b31mx\u0085y", "xy"},
		{"a cut off sequence", "x\x1b[3", "x"},
		{"progress", " 1%\r 50%\r100%\ndone", "100%\ndone"},
		{"Windows line ends", "a\r\nb\r\r\nc", "a\nb\nc"},
		{"a return at the end", "a\r", "a"},
		{"backspaces", "ab\b\bc\b\b\bd", "d"},
		{"not UTF-8", "a\xffb", "a\ufffdb"},
		{"NUL and bell", "a\x00\x07b", "ab"},
		{"invisible", "a\u202eb\U000e0041c\ufeff", "a<U+202E>b<U+E0041>c<U+FEFF>"},
		{"a family", "👩\u200d👩\u200d👧", "👩\u200d👩\u200d👧"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := clean([]byte(test.in)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	f.Add([]byte("\x1b[31mred\x1b]0;x\x07\r\b\xff\u202e"))
	f.Fuzz(func(t *testing.T, p []byte) {
		got := clean(p)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\x00\x07\r\b\u202e\u009b") {
			t.Errorf("%q became %q", p, got)
		}
		if again := clean([]byte(got)); again != got {
			t.Errorf("%q became %q and then %q", p, got, again)
		}
	})
}

// FuzzBuffer compares the buffer with all that was written.
func FuzzBuffer(f *testing.F) {
	f.Add(uint64(1), 5)
	f.Add(uint64(7), 40)
	f.Fuzz(func(t *testing.T, seed uint64, writes int) {
		r := rand.New(rand.NewPCG(seed, 0))
		var b buffer
		var all []byte
		for range min(writes, 60) {
			p := make([]byte, r.IntN(100<<10))
			for i := range p {
				p[i] = byte(r.Uint32())
			}
			if len(all) > 0 && r.IntN(4) == 0 { // some of it comes twice
				back := r.IntN(min(len(all), 1000))
				b.write(int64(len(all)-back), append(bytes.Clone(all[len(all)-back:]), p...))
			} else {
				b.write(int64(len(all)), p)
			}
			all = append(all, p...)
			offset, size := int64(r.IntN(len(all)+100)), r.IntN(400<<10)
			got, from, end := b.read(offset, size)
			if end != int64(len(all)) {
				t.Fatalf("%d bytes, want %d", end, len(all))
			}
			if from > end || from < min(offset, end) || !bytes.Equal(got, all[from:from+int64(len(got))]) {
				t.Fatalf("read at %d gives %d bytes of %d, not those from %d on", offset, len(got), end, from)
			}
			if offset < liveHead && from != min(offset, end) || offset > end-liveTail && from != min(offset, end) {
				t.Fatalf("read at %d of %d begins at %d", offset, end, from)
			}
			if size > 0 && offset < end && len(got) == 0 {
				t.Fatalf("read at %d of %d gives nothing", offset, end)
			}
		}
	})
}

// TestBufferGap: what is behind a gap never looks as if it followed what was before it.
func TestBufferGap(t *testing.T) {
	var b buffer
	b.write(0, []byte("abc"))
	b.write(10, []byte("xyz"))
	if got, from, end := b.read(0, 100); string(got) != "abc" || from != 0 || end != 13 {
		t.Errorf("the begin: %q %d %d", got, from, end)
	}
	if got, from, _ := b.read(3, 100); string(got) != "xyz" || from != 10 {
		t.Errorf("behind it: %q %d", got, from)
	}
	var long buffer
	long.write(0, make([]byte, liveHead+1000))
	long.write(liveHead+2000, []byte("after"))
	if got, from, end := long.read(liveHead, 5000); string(got) != "after" || from != liveHead+2000 || end != liveHead+2005 {
		t.Errorf("behind a gap in the tail: %d bytes, %d %d", len(got), from, end)
	}
	a := runAnswer{Run: "R"}
	if e := a.excerpt("stdout", &b, 1000); e.Omitted != 7 || !strings.HasPrefix(e.Text, "abc\n[... 7 bytes") || !strings.HasSuffix(e.Text, "]\nxyz") {
		t.Errorf("excerpt %+v", e)
	}
}

func TestCuts(t *testing.T) {
	text := []byte("erste Zeile\nzweite Zeile\nä")
	for size := range len(text) + 2 {
		head, tail := headOf(text, size), tailOf(text, size)
		if !bytes.HasPrefix(text, head) || !bytes.HasSuffix(text, tail) || len(head) > size || len(tail) > size || !utf8.Valid(head) || !utf8.Valid(tail) {
			t.Errorf("%d: %q %q", size, head, tail)
		}
	}
	if got := fence("a ```` b"); got != "`````" {
		t.Errorf("fence %q", got)
	}
}

// TestUnreached: an agent learns why a look-up or a connection of its program came to nothing.
func TestUnreached(t *testing.T) {
	o := api.Outcome{Kind: "failed", Egress: []api.Destination{{Host: "a.org", Allowed: true}, {Host: "pip.example", Reason: `no rule has the name "pip.example"`}}}
	for i := range 2 * maxUnreached {
		o.Egress = append(o.Egress, api.Destination{Host: fmt.Sprint("h", i), Reason: "line\nbreak"})
	}
	a := answerOf(o, "lab:python")
	if len(a.Unreached) != maxUnreached || a.Unreached[0] != `pip.example: no rule has the name "pip.example"` || strings.Contains(a.Unreached[1], "\n") {
		t.Errorf("%q", a.Unreached)
	}
	if text := a.text(); !strings.Contains(text, "not reached: pip.example: ") {
		t.Error(text)
	}
}

package broker

import (
	"bytes"
	"unicode/utf8"
)

const (
	tailBytes = 4 << 10 // DESIGN, promise 9: the last 4 KiB hydrate a late viewer
	nearLine  = 512     // how many of them are given up for a tail that begins with a line
)

// tail keeps the last bytes of one channel. Its memory is at most twice tailBytes.
type tail struct {
	kept []byte
	end  int64 // offset after the last byte
}

// write takes the piece that begins at offset. Where bytes before it are missing, the tail begins anew.
func (t *tail) write(p []byte, offset int64) {
	if offset != t.end {
		t.kept = t.kept[:0]
	}
	t.end = offset + int64(len(p))
	if len(p) >= tailBytes {
		t.kept = append(t.kept[:0], p[len(p)-tailBytes:]...)
		return
	}
	if len(t.kept)+len(p) > 2*tailBytes {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-tailBytes:]...)
	}
	t.kept = append(t.kept, p...)
}

func (t *tail) last() []byte { return t.kept[max(0, len(t.kept)-tailBytes):] }

// from is the offset of the first kept byte.
func (t *tail) from() int64 { return t.end - int64(len(t.last())) }

// since returns a copy of the kept bytes from offset on, which must not be before from.
func (t *tail) since(offset int64) []byte {
	last := t.last()
	return bytes.Clone(last[int64(len(last))-(t.end-offset):])
}

// begin is where a late viewer begins to read: at the first kept byte, or after the first line end if that is near; in
// the midst of a line never in the midst of a rune.
func (t *tail) begin() int64 {
	from, p := t.from(), t.last()
	if from == 0 {
		return 0
	}
	if i := bytes.IndexByte(p[:min(len(p), nearLine)], '\n'); i >= 0 && i+1 < len(p) {
		return from + int64(i) + 1
	}
	skip := 0
	for skip < min(len(p), utf8.UTFMax-1) && !utf8.RuneStart(p[skip]) {
		skip++
	}
	return from + int64(skip)
}

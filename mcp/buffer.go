package mcp

import "sync"

// Of each channel of a run that is not over, so much is kept for read_output: its begin and its end.
const (
	liveHead = 64 << 10
	liveTail = 192 << 10
)

// buffer keeps the first and the last bytes of a channel while a run lives. Its memory is bounded whatever is printed. Its zero
// value is empty. Safe for concurrent use.
type buffer struct {
	mu   sync.Mutex
	head []byte
	tail []byte // of what came after head, the newest
	end  int64  // bytes that were written
}

// write appends p, which begins at offset; bytes between the end and offset are gone.
func (b *buffer) write(offset int64, p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if offset > b.end { // a gap: what is kept must not look as if it followed
		b.tail, b.end = b.tail[:0], offset
	} else if skip := b.end - offset; skip > 0 {
		p = p[min(skip, int64(len(p))):]
	}
	if room := liveHead - len(b.head); room > 0 && int64(len(b.head)) == b.end {
		n := min(room, len(p))
		b.head = append(b.head, p[:n]...)
		b.end += int64(n)
		p = p[n:]
	}
	b.end += int64(len(p))
	b.tail = append(b.tail, p...)
	if n := len(b.tail); n > 2*liveTail { // seldom, as it moves what stays
		b.tail = append(b.tail[:0], b.tail[n-liveTail:]...)
	}
}

// read returns a copy of what is kept from offset on, size bytes at most, where it begins, and how much was written so far. What
// is not kept is left out: the answer then begins later.
func (b *buffer) read(offset int64, size int) (p []byte, from, end int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tailFrom := b.end - int64(len(b.tail))
	part, from := b.tail, tailFrom
	if offset < int64(len(b.head)) {
		part, from = b.head, 0
	}
	if offset > from {
		part = part[min(offset-from, int64(len(part))):]
		from = min(offset, b.end)
	}
	return append([]byte{}, part[:min(size, len(part))]...), from, b.end
}

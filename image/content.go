package image

import (
	"crypto/sha256"
	"fmt"
	"io"
)

// store copies r to the spool, or finds that its content is there already.
func (t *Tree) store(r io.Reader) (content, error) {
	return t.admit(r, io.NewOffsetWriter(t.spool, t.end), content{from: t.spool, offset: t.end})
}

// adopt is store for a part of the base image, which stays where it is.
func (t *Tree) adopt(offset, size int64) (content, error) {
	r := io.NewSectionReader(t.base, offset, size)
	got, err := t.admit(r, io.Discard, content{from: t.base, offset: offset})
	if err == nil && got.size != size {
		err = io.ErrUnexpectedEOF
	}
	return got, err
}

// admit hashes r and copies it to w, which is where says; equal contents end up in the place of the first.
func (t *Tree) admit(r io.Reader, w io.Writer, where content) (content, error) {
	t.hash.Reset()
	room := t.config.MaxBytes - t.bytes
	n, err := io.CopyBuffer(io.MultiWriter(t.hash, w),
		struct{ io.Reader }{io.LimitReader(r, room+1)}, // hides WriterTo, which would ignore the buffer
		t.buffer)
	if err != nil {
		return content{}, err
	}
	if n > room {
		return content{}, fmt.Errorf("more than %d bytes: %w", t.config.MaxBytes, ErrTooLarge)
	}
	t.bytes += n
	sum := [sha256.Size]byte(t.hash.Sum(nil))
	known, ok := t.contents[sum]
	if ok {
		return known, nil
	}
	where.size, where.sum = n, sum
	if n == 0 {
		where.from, where.offset = nil, 0
	}
	t.contents[sum] = where
	if where.from == t.spool {
		t.end += n
	}
	return where, nil
}

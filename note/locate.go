package note

import (
	"errors"
	"slices"
)

// ErrNotFound is returned by Locate if no block of the note has the content, or if several have it and nothing says which.
var ErrNotFound = errors.New("the block is not in the note any more, or is not the only one like it")

// Locate finds the block that began at a line of an earlier version of the note and has this hash. Where several have it, or had -
// copies of one block - the text that has not changed before or behind it says which one it is; if a copy was put directly beside it,
// which reads the same above and below, it is the first one. before may be nil if the earlier version is not known: then one of
// several is found only at the very line.
//
// It returns [ErrNotFound] if there is any doubt.
func Locate(before, now *Note, line int, hash string) (int, error) {
	same := now.with(hash)
	if len(same) == 0 {
		return 0, ErrNotFound
	}
	if before == nil {
		if len(same) == 1 {
			return same[0], nil
		}
		return now.at(same, line)
	}
	old := before.with(hash)
	which, err := before.at(old, line)
	switch {
	case err != nil:
		return 0, err
	case len(old) == 1 && len(same) == 1:
		return same[0], nil
	}
	return unchanged(before, now, before.Blocks[which], same)
}

// with returns the indexes of the blocks that have this hash.
func (n *Note) with(hash string) (list []int) {
	for i, b := range n.Blocks {
		if b.CodeHash == hash {
			list = append(list, i)
		}
	}
	return list
}

// at returns which block of a list begins at this line.
func (n *Note) at(list []int, line int) (int, error) {
	i := slices.IndexFunc(list, func(i int) bool { return n.Blocks[i].Line == line })
	if i < 0 {
		return 0, ErrNotFound
	}
	return list[i], nil
}

// unchanged finds the block among several by the lines before or behind it, which are as they were.
func unchanged(before, now *Note, b Block, same []int) (int, error) {
	head, most := 0, min(len(before.lines), len(now.lines))
	for head < most && before.content(head) == now.content(head) {
		head++
	}
	tail := 0
	for tail < most-head && before.content(len(before.lines)-1-tail) == now.content(len(now.lines)-1-tail) {
		tail++
	}
	at := -1
	switch {
	case b.EndLine < head:
		at = b.Line
	case b.Line >= len(before.lines)-tail:
		at = b.Line + len(now.lines) - len(before.lines)
	}
	return now.at(same, at)
}

package disktrace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// State is the content of a directory: of a file by its path, nil for a directory. Parents come before what is in them if the
// paths are sorted.
type State map[string][]byte

// Killed is what is there if the process ends at a moment: everything that it had written.
func (t *Trace) Killed(at int) State {
	return t.state(
		func(c *change) bool { return c.ended <= at },
		func(w *write) []byte { return whole(w, w.ended <= at) })
}

// PowerLoss is the least that is there after a power loss at a moment.
func (t *Trace) PowerLoss(at int) State {
	return t.state(
		func(c *change) bool { return c.survives() <= at },
		func(w *write) []byte { return whole(w, w.durable <= at) })
}

// sector is what a disk writes whole.
const sector = 512

// Torn is one of the many states after a power loss at a moment, as random decides: half of the writes that were not synced,
// half of those only in part, and the changes of names up to one of them.
func (t *Trace) Torn(at int, random *rand.Rand) State {
	var loose []int
	for _, c := range t.names {
		if c.ended <= at && min(c.survives(), c.byFile) > at {
			loose = append(loose, c.ended)
		}
	}
	until := -1
	if n := random.IntN(len(loose) + 1); n > 0 {
		until = loose[n-1]
	}
	return t.state(
		func(c *change) bool { return c.ended <= at && (c.ended <= until || min(c.survives(), c.byFile) <= at) },
		func(w *write) []byte {
			switch {
			case w.durable <= at:
				return whole(w, true)
			case w.begun > at || random.IntN(2) == 0:
				return nil
			case len(w.data) > sector && random.IntN(2) == 0:
				return w.data[:random.IntN(len(w.data)/sector)*sector]
			}
			return whole(w, true)
		})
}

// whole is all of a write, if it is there; a cut has no bytes, but is there.
func whole(w *write, there bool) []byte {
	switch {
	case !there:
		return nil
	case w.data == nil:
		return []byte{}
	}
	return w.data
}

// state applies the changes of names that are there, and what is there of each write.
func (t *Trace) state(there func(*change) bool, part func(*write) []byte) State {
	entries := map[*inode]map[string]*inode{t.root: {}}
	in := func(dir *inode) map[string]*inode {
		if entries[dir] == nil {
			entries[dir] = map[string]*inode{}
		}
		return entries[dir]
	}
	for _, c := range t.names {
		if !there(c) {
			continue
		}
		if c.fromDir != nil && in(c.fromDir)[c.fromName] == c.node {
			delete(in(c.fromDir), c.fromName)
		}
		if c.node == nil {
			delete(in(c.dir), c.name)
		} else {
			in(c.dir)[c.name] = c.node
		}
	}
	s := State{}
	var walk func(dir *inode, path string)
	walk = func(dir *inode, path string) {
		for _, name := range slices.Sorted(maps.Keys(entries[dir])) {
			node, p := entries[dir][name], filepath.Join(path, name)
			switch {
			case node.ignored:
			case node.entries != nil:
				s[p] = nil
				walk(node, p)
			default:
				s[p] = node.content(part)
			}
		}
	}
	walk(t.root, "")
	return s
}

func (n *inode) content(part func(*write) []byte) []byte {
	data := []byte{}
	for _, w := range n.writes {
		p := part(w)
		end := w.off + int64(len(p))
		switch {
		case p == nil:
			continue
		case w.data == nil && end < int64(len(data)):
			data = data[:end]
			continue
		}
		if grow := end - int64(len(data)); grow > 0 {
			data = append(data, make([]byte, grow)...)
		}
		copy(data[w.off:], p)
	}
	return data
}

// Sum is a digest of all of it.
func (s State) Sum() string {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(h, "%q %t %d\n", path, s[path] == nil, len(s[path]))
		h.Write(s[path])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Write makes the directory dir, with the state in it.
func (s State) Write(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(s)) {
		var err error
		if s[path] == nil {
			err = os.Mkdir(filepath.Join(dir, path), 0o700)
		} else {
			err = os.WriteFile(filepath.Join(dir, path), s[path], 0o600) //nolint:forbidigo // nobody else reads it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Read reads a directory, but for the files for which ignore says so. What goes away meanwhile is not there.
func Read(dir string, ignore func(name string) bool) (State, error) {
	s := State{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(dir, path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && rel == "." || ignore != nil && ignore(filepath.Base(path)):
			return nil
		case err != nil || rerr != nil:
			return errors.Join(err, rerr)
		case e.IsDir():
			s[rel] = nil
			return nil
		}
		data, err := os.ReadFile(path)
		s[rel] = append([]byte{}, data...)
		return err
	})
	return s, err
}

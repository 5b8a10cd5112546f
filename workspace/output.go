package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// output is a directory of the host that receives copies. Everything goes through it by single elements that are looked
// at first, so that no link in it, planted before or during the run, is ever followed.
type output struct {
	base *os.Root
	path []string // elements of dir
	dir  *os.Root // directory of the latest file, base if path is empty

	swept map[string]bool // directories in which nothing is left of earlier outputs
}

// openOutput opens dir, which is made with its parents if it is missing.
func openOutput(dir string) (*output, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	base, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	sweep(base)
	return &output{base: base, dir: base, swept: map[string]bool{}}, nil
}

func (o *output) close() error {
	var err error
	if o.dir != o.base {
		err = o.dir.Close()
	}
	return errors.Join(err, o.base.Close())
}

// pending is a file that is being copied and has a temporary name. A nil pending is none.
type pending struct {
	dir  *os.Root
	file *os.File
	temp string
	name string // in dir; "": a spool, which commit copies to its place
}

// create makes the directories that lead to elements and a temporary file beside its future name. It must be committed
// or discarded before the next create.
func (o *output) create(elements []string, mode fs.FileMode) (*pending, error) {
	last := len(elements) - 1
	if err := o.enter(elements[:last]); err != nil {
		return nil, err
	}
	perm := fs.FileMode(0o644)
	if mode&0o100 != 0 {
		perm = 0o755
	}
	return newPending(o.dir, elements[last], perm)
}

// spool makes a temporary file that needs no directory below the top.
func (o *output) spool() (*pending, error) { return newPending(o.base, "", 0o600) }

func newPending(dir *os.Root, name string, perm fs.FileMode) (*pending, error) {
	temp := tempPrefix + rand.Text()
	file, err := dir.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	_ = lockFile(file) // where it cannot be locked it cannot be found dead either
	return &pending{dir: dir, file: file, temp: temp, name: name}, nil
}

// commit gives p the name of elements; a file or link that has the name is replaced, a directory is not. On error
// nothing of p is left.
func (o *output) commit(p *pending, elements []string, mode fs.FileMode, buf []byte) error {
	if p.name != "" {
		return p.rename()
	}
	defer p.discard()
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	final, err := o.create(elements, mode)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(&errWriter{w: final.file}, p.file, buf); err != nil {
		final.discard()
		return err
	}
	return final.rename()
}

// enter makes o.dir the directory of that path. Streams come in the order of the tree, so it starts from where the
// latest file was if that is on the way.
func (o *output) enter(elements []string) error {
	at, dir := 0, o.base
	if n := len(o.path); n > 0 && n <= len(elements) && slices.Equal(o.path, elements[:n]) {
		at, dir = n, o.dir
	}
	for ; at < len(elements); at++ {
		next, err := o.enterOne(dir, elements[:at+1])
		if err != nil {
			if dir != o.base && dir != o.dir {
				err = errors.Join(err, dir.Close())
			}
			return err
		}
		if dir != o.base && dir != o.dir {
			if err := dir.Close(); err != nil {
				return errors.Join(err, next.Close())
			}
		}
		dir = next
	}
	if dir == o.dir {
		return nil
	}
	var err error
	if o.dir != o.base {
		err = o.dir.Close()
	}
	o.dir, o.path = dir, slices.Clone(elements)
	return err
}

// enterOne opens the directory of that path, whose last element is in dir. It is made if it is missing.
func (o *output) enterOne(dir *os.Root, elements []string) (*os.Root, error) {
	name := elements[len(elements)-1]
	info, err := dir.Lstat(name)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		if err := dir.Mkdir(name, 0o755); err != nil {
			return nil, err
		}
		info, err = dir.Lstat(name)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%.100q in the artifact directory is a %s, not a directory", name, typeOf(info.Mode()))
	}
	next, err := openSame(dir, name, info)
	if path := strings.Join(elements, "/"); err == nil && !made && !o.swept[path] {
		o.swept[path] = true
		sweep(next)
	}
	return next, err
}

// rename closes the file and gives it its name.
func (p *pending) rename() error {
	err := p.file.Close()
	if err == nil {
		err = p.dir.Rename(p.temp, p.name)
	}
	if err != nil {
		return errors.Join(err, p.dir.Remove(p.temp))
	}
	return nil
}

// discard removes the file.
func (p *pending) discard() {
	if p == nil {
		return
	}
	// The copy is unwanted or broken already; nothing better can be done about an error here.
	_ = p.file.Close()
	_ = p.dir.Remove(p.temp)
}

// isHostError tells an error that every further copy would meet from one that concerns a single name.
func isHostError(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

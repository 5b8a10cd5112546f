package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// maxOpenDirs is how many directories a tree keeps open at once. Trees may be thousands of levels deep, and a process
// may have as few as 1,024 descriptors (RLIMIT_NOFILE, getrlimit(2)).
const maxOpenDirs = 64

// errTooMany says that a directory has more names than there is room for.
var errTooMany = errors.New("it has too many entries")

// tree walks a directory depth first, in byte order of the names, without recursion and without ever handing the kernel
// a path of more than one element: paths may be longer than PATH_MAX.
type tree struct {
	frames []frame // from the top directory down to the one that is being read; the first one stays open
}

type frame struct {
	name  string      // in its parent
	path  string      // below the top
	info  fs.FileInfo // to know it again
	root  *os.Root    // nil: closed to spare descriptors
	names []string    // not visited yet
}

func openTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{frames: []frame{{root: root}}}, nil
}

func (t *tree) top() *frame { return &t.frames[len(t.frames)-1] }

// root is the directory that is being read.
func (t *tree) root() *os.Root { return t.top().root }

// path is the path below the top of a name in the directory that is being read.
func (t *tree) path(name string) string { return joinPath(t.top().path, name) }

// next takes the next name of the directory that is being read.
func (t *tree) next() (name string, ok bool) {
	f := t.top()
	if len(f.names) == 0 {
		return "", false
	}
	name, f.names = f.names[0], f.names[1:]
	return name, true
}

// read lists the directory that is being read; more than room names are errTooMany.
func (t *tree) read(room int) error {
	f := t.top()
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		f.names = append(f.names, names...)
		if len(f.names) > room {
			return errTooMany
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(f.names)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// push goes down into name, which looked like info.
func (t *tree) push(name string, info fs.FileInfo) error {
	root, err := openSame(t.root(), name, info)
	if err != nil {
		return err
	}
	t.frames = append(t.frames, frame{name: name, path: t.path(name), info: info, root: root})
	spare := len(t.frames) - 1 - maxOpenDirs
	if spare <= 0 || t.frames[spare].root == nil {
		return nil
	}
	root, t.frames[spare].root = t.frames[spare].root, nil
	return root.Close()
}

// pop goes back up to the nearest directory that has names left, or to the top. more is false if the top directory was
// left, which stays open until close.
func (t *tree) pop() (more bool, err error) {
	if len(t.frames) == 1 {
		return false, nil
	}
	for first := true; len(t.frames) > 1 && (first || len(t.top().names) == 0); first = false {
		if root := t.root(); root != nil {
			err = errors.Join(err, root.Close())
		}
		t.frames = t.frames[:len(t.frames)-1]
	}
	if err == nil && t.root() == nil {
		err = t.reopen()
	}
	return true, err
}

// reopen opens the closed directories nearest to the end, from the top down, since a way up cannot be trusted.
func (t *tree) reopen() error {
	dir := t.frames[0].root
	keep := max(1, len(t.frames)-maxOpenDirs)
	for i := 1; i < len(t.frames); i++ {
		f := &t.frames[i]
		next, err := openSame(dir, f.name, f.info)
		if i > 1 && i-1 < keep {
			err = errors.Join(err, dir.Close())
		}
		if err != nil {
			return err
		}
		if i >= keep {
			f.root = next
		}
		dir = next
	}
	return nil
}

func (t *tree) close() error {
	var err error
	for _, f := range t.frames {
		if f.root != nil {
			err = errors.Join(err, f.root.Close())
		}
	}
	t.frames = nil
	return err
}

// openSame opens the directory name in dir and makes sure that it is the one that looked like info, not something a
// link put in its place.
func openSame(dir *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	root, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	now, err := root.Stat(".")
	if err == nil && !os.SameFile(info, now) {
		err = errReplaced
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

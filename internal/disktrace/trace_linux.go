package disktrace

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
)

// never is later than all moments.
const never = math.MaxInt

// Trace is what a program did to the files of a directory. Moments are counted from 0.
type Trace struct {
	Moments int    // how many there are
	Syncs   []int  // when something came to the disk: the ends of fsync(2) and its like
	Changes []int  // when something changed: the ends of writes, and changes of names
	Said    []Said // on standard output

	dir    string
	ignore func(name string) bool
	root   *inode
	names  []*change       // of all directories
	fds    map[int]*opened // by descriptor
	using  map[*call]*opened
}

// Said is what was written to standard output at once.
type Said struct {
	At   int // the moment when the write began
	Text string
}

// inode is a file or a directory.
type inode struct {
	writes  []*write
	entries map[string]*inode // of a directory, as the program sees it
	ignored bool
}

// write is one change of a file's content.
type write struct {
	begun, ended int
	durable      int // the moment since when it survives everything
	off          int64
	data         []byte // nil: the file is cut, or lengthened with zeros, to off
}

// change is one change of a directory: a name that is there, or is not any more, or has become another.
type change struct {
	ended     int
	durable   int // when its directory was synced
	byFile    int // when the file itself was: on ext4 that brings the name to the disk, too
	dir       *inode
	name      string
	node      *inode // nil: name is gone
	fromDir   *inode // renamed from there; else nil
	fromName  string
	fromThere int // when that directory was synced
}

// survives is when all directories of the change were synced.
func (c *change) survives() int {
	if c.fromDir == nil {
		return c.durable
	}
	return max(c.durable, c.fromThere)
}

// opened is an open file.
type opened struct {
	node   *inode
	off    int64
	append bool
	sync   bool // each write is synced: O_SYNC, O_DSYNC
}

func newTrace(dir string, ignore func(string) bool) *Trace {
	if ignore == nil {
		ignore = func(string) bool { return false }
	}
	return &Trace{dir: filepath.Clean(dir), ignore: ignore, root: newDir(), fds: map[int]*opened{}, using: map[*call]*opened{}}
}

// below says where a path is in the directory: "." is itself.
func (t *Trace) below(path string) (rel string, ok bool) {
	rel, err := filepath.Rel(t.dir, filepath.Clean(path))
	return rel, err == nil && filepath.IsLocal(rel)
}

// at joins the two arguments of the calls that end with at.
func at(dirfd, name string) (string, error) {
	path, err := text(name)
	if err != nil {
		return "", err
	}
	if filepath.IsAbs(string(path)) {
		return string(path), nil
	}
	_, dir, err := descriptor(dirfd)
	return filepath.Join(dir, string(path)), err
}

// find returns the directory that holds a name, and what has that name, if anything.
func (t *Trace) find(rel string) (dir *inode, name string, node *inode, err error) {
	if rel == "." {
		return nil, "", t.root, nil
	}
	dir = t.root
	parts := strings.Split(rel, string(filepath.Separator))
	for _, p := range parts[:len(parts)-1] {
		if dir = dir.entries[p]; dir == nil || dir.entries == nil {
			return nil, "", nil, fmt.Errorf("%s is in no directory that was made", rel)
		}
	}
	name = parts[len(parts)-1]
	return dir, name, dir.entries[name], nil
}

var errNotModelled = errors.New("a call on the directory that is not modelled")

// add takes up the beginning or the end of a call.
func (t *Trace) add(now int, m moment) error {
	c := m.call
	if !m.end {
		return t.begin(c)
	}
	f := t.using[c]
	delete(t.using, c)
	switch c.name {
	case "write":
		if strings.HasPrefix(c.args[0], "1<") {
			data, err := text(c.args[1])
			t.Said = append(t.Said, Said{c.begun, string(data)})
			return err
		}
		return t.write(c, f, nil)
	case "pwrite64":
		off, err := number(c.args[3])
		if err != nil {
			return err
		}
		return t.write(c, f, &off)
	case "ftruncate":
		size, err := number(c.args[1])
		if err == nil && f != nil {
			t.cut(c, f.node, size)
		}
		return err
	case "lseek":
		if f != nil {
			f.off = c.ret
		}
	case "fsync", "fdatasync":
		if f != nil {
			t.synced(f.node, c.begun, now)
		}
	case "open":
		return t.open(c, "AT_FDCWD<>", c.args[0], c.args[1])
	case "openat":
		return t.open(c, c.args[0], c.args[1], c.args[2])
	case "mkdir":
		return t.set(c, "AT_FDCWD<>", c.args[0], newDir())
	case "mkdirat":
		return t.set(c, c.args[0], c.args[1], newDir())
	case "unlink", "rmdir":
		return t.set(c, "AT_FDCWD<>", c.args[0], nil)
	case "unlinkat":
		return t.set(c, c.args[0], c.args[1], nil)
	case "rename":
		return t.rename(c, "AT_FDCWD<>", c.args[0], "AT_FDCWD<>", c.args[1])
	case "renameat":
		return t.rename(c, c.args[0], c.args[1], c.args[2], c.args[3])
	case "close":
	case "mmap":
		if f != nil && !f.node.ignored && strings.Contains(c.args[3], "MAP_SHARED") && strings.Contains(c.args[2], "PROT_WRITE") {
			return errNotModelled
		}
	default:
		return t.strange(c, f)
	}
	return nil
}

// begin notes the file that a call is about, since its descriptor may be another's when the call ends, and forgets what
// is closed: another open may have the number before close comes back.
func (t *Trace) begin(c *call) error {
	arg := c.args[0]
	if c.name == "mmap" && len(c.args) > 4 {
		arg = c.args[4]
	}
	if fd, _, err := descriptor(arg); err == nil && t.fds[fd] != nil {
		t.using[c] = t.fds[fd]
		if c.name == "close" {
			delete(t.fds, fd)
		}
	}
	return nil
}

// strange refuses a call that is not modelled, if the directory is in its arguments.
func (t *Trace) strange(c *call, f *opened) error {
	if f != nil && !f.node.ignored {
		return errNotModelled
	}
	for _, arg := range c.args {
		path, err := text(arg)
		if err != nil {
			_, p, _ := descriptor(arg)
			path = []byte(p)
		}
		if _, ok := t.below(string(path)); ok && filepath.IsAbs(string(path)) {
			return errNotModelled
		}
	}
	return nil
}

func (t *Trace) open(c *call, dirfd, name, flags string) error {
	path, err := at(dirfd, name)
	if err != nil {
		return err
	}
	fd := int(c.ret)
	delete(t.fds, fd)
	rel, ok := t.below(path)
	if !ok {
		return nil
	}
	dir, base, node, err := t.find(rel)
	if err != nil {
		return err
	}
	switch {
	case node == nil && !strings.Contains(flags, "O_CREAT"):
		return fmt.Errorf("%s was not made", rel)
	case node == nil:
		node = &inode{ignored: t.ignore(base)}
		t.put(&change{ended: c.ended, dir: dir, name: base, node: node})
	case strings.Contains(flags, "O_TRUNC"):
		t.cut(c, node, 0)
	}
	t.fds[fd] = &opened{node: node, append: strings.Contains(flags, "O_APPEND"), sync: strings.Contains(flags, "O_SYNC") || strings.Contains(flags, "O_DSYNC")}
	return nil
}

// put takes up a change of a directory.
func (t *Trace) put(c *change) {
	c.durable, c.byFile, c.fromThere = never, never, never
	if c.fromDir != nil {
		delete(c.fromDir.entries, c.fromName)
	}
	if c.node == nil {
		delete(c.dir.entries, c.name)
	} else {
		c.dir.entries[c.name] = c.node
	}
	t.names = append(t.names, c)
	t.Changes = append(t.Changes, c.ended)
}

func newDir() *inode { return &inode{entries: map[string]*inode{}} }

// set gives a name to a new directory, or takes it away if node is nil.
func (t *Trace) set(c *call, dirfd, name string, node *inode) error {
	path, err := at(dirfd, name)
	if err != nil {
		return err
	}
	rel, ok := t.below(path)
	if !ok {
		return nil
	}
	dir, base, _, err := t.find(rel)
	if err == nil && dir != nil {
		t.put(&change{ended: c.ended, dir: dir, name: base, node: node})
	}
	return err
}

func (t *Trace) rename(c *call, dirfd, name, toDirfd, toName string) error {
	from, err := at(dirfd, name)
	if err != nil {
		return err
	}
	to, err := at(toDirfd, toName)
	if err != nil {
		return err
	}
	a, okFrom := t.below(from)
	b, okTo := t.below(to)
	switch {
	case !okFrom && !okTo:
		return nil
	case okFrom != okTo:
		return errNotModelled
	}
	fromDir, fromName, node, err := t.find(a)
	if err != nil {
		return err
	}
	dir, base, _, err := t.find(b)
	if err != nil || node == nil || fromDir == nil || dir == nil {
		return errors.Join(err, errNotModelled)
	}
	t.put(&change{ended: c.ended, dir: dir, name: base, node: node, fromDir: fromDir, fromName: fromName})
	return nil
}

func (t *Trace) write(c *call, f *opened, off *int64) error {
	if f == nil {
		return nil
	}
	data, err := text(c.args[1])
	if err != nil {
		return err
	}
	data = data[:c.ret]
	w := &write{begun: c.begun, ended: c.ended, durable: never, data: data}
	switch {
	case off != nil:
		w.off = *off
	case f.append:
		w.off = f.node.size()
	default:
		w.off = f.off
	}
	if off == nil {
		f.off = w.off + int64(len(data))
	}
	if f.sync {
		w.durable = c.ended
		t.Syncs = append(t.Syncs, c.ended)
	}
	if len(data) > 0 && !f.node.ignored {
		f.node.writes = append(f.node.writes, w)
		t.Changes = append(t.Changes, c.ended)
	}
	return nil
}

func (t *Trace) cut(c *call, node *inode, size int64) {
	if node.ignored {
		return
	}
	node.writes = append(node.writes, &write{begun: c.begun, ended: c.ended, durable: never, off: size})
	t.Changes = append(t.Changes, c.ended)
}

// size is how long the program sees the file.
func (n *inode) size() (size int64) {
	for _, w := range n.writes {
		if w.data == nil {
			size = w.off
			continue
		}
		size = max(size, w.off+int64(len(w.data)))
	}
	return size
}

// synced notes that what had ended before begun survives from now on.
func (t *Trace) synced(node *inode, begun, now int) {
	if node.ignored {
		return
	}
	t.Syncs = append(t.Syncs, now)
	for _, w := range node.writes {
		if w.ended < begun {
			w.durable = min(w.durable, now)
		}
	}
	for _, c := range t.names {
		if c.ended >= begun {
			continue
		}
		if c.dir == node {
			c.durable = min(c.durable, now)
		}
		if c.fromDir == node {
			c.fromThere = min(c.fromThere, now)
		}
	}
	t.named(node, begun, now)
}

// Unsync makes the trace one in which no sync of the files of that name did anything: for the test of a test.
func (t *Trace) Unsync(name string) {
	for _, c := range t.names {
		if c.name != name || c.node == nil {
			continue
		}
		for _, w := range c.node.writes {
			w.durable = never
		}
	}
}

// named notes that on ext4 the sync of a file brings its name to the disk, and those of the directories above: they are in
// the same journal.
func (t *Trace) named(node *inode, begun, now int) {
	for i := len(t.names) - 1; i >= 0; i-- {
		if c := t.names[i]; c.node == node && c.ended < begun {
			c.byFile = min(c.byFile, now)
			t.named(c.dir, begun, now)
		}
	}
}

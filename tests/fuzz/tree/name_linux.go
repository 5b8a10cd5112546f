package tree

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

const (
	maxLinks   = 40 // path_resolution(7)
	readable   = 4  // R_OK of unistd.h
	executable = 1  // X_OK
)

// interpreterOf is the interpreter of a script; execve(2).
func interpreterOf(file string) []byte {
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	head := make([]byte, 256)
	n, err := syscall.Read(fd, head)
	line, whole, _ := bytes.Cut(head[:max(0, n)], []byte{'\n'})
	if rest, ok := bytes.CutPrefix(line, []byte("#!")); ok && err == nil && whole != nil {
		name, _, _ := bytes.Cut(bytes.TrimLeft(rest, " \t"), []byte{' '})
		return bytes.Clone(name)
	}
	return nil
}

// nameOf is the absolute name that a question is about: that of the deepest directory that the kernel reaches on the
// way, and the names that are left. It goes name by name, with descriptors that only hold places (O_PATH), so each answer
// is the kernel's own; of links it reads what they say, but for those that lead to an object.
func nameOf(q Question) ([]byte, Way) {
	name := string(q.Name)
	if name == "" || len(name) >= 4096 {
		var way Way
		if q.Exec && name == "" {
			way.look(q.DirFD)
		}
		return nil, way
	}
	at, err := openAt(NoDir, "/proc/self/cwd", OPath|OCloseExec, 0)
	switch {
	case strings.HasPrefix(name, "/"):
		syscall.Close(at)
		at, err = openAt(NoDir, "/", OPath|OCloseExec, 0)
	case q.DirFD != NoDir:
		syscall.Close(at)
		at, err = syscall.Dup(q.DirFD)
	}
	if err != nil {
		return nil, Way{}
	}
	w := walk{at: at}
	defer func() { syscall.Close(w.at) }()
	create := q.Flags&OCreate != 0 && q.Flags&OPath == 0 // O_PATH passes over all but O_DIRECTORY and O_NOFOLLOW
	follow := q.Flags&ONoFollow == 0 && (!create || q.Flags&OExclusive == 0)
	if q.Exec {
		create, follow = false, q.Flags&AtNoFollow == 0
	}
	where := w.name(name, follow, create)
	if w.made != nil {
		where = w.made
	}
	w.way.Links = w.links
	if q.Exec && !w.failed {
		w.way.look(w.at)
	}
	return where, w.way
}

// look looks at what would be executed.
func (w *Way) look(fd int) {
	file := "/proc/self/fd/" + strconv.Itoa(fd)
	if syscall.Access(file, executable) != nil || bytes.HasPrefix(ownName(fd), []byte("/tmp/")) { // nothing in /tmp may be executed
		return
	}
	if w.Unreadable = syscall.Access(file, readable) != nil; !w.Unreadable {
		w.Interpreter = interpreterOf(file)
	}
}

type walk struct {
	at     int
	links  int
	way    Way
	made   []byte // name of a file that was to be made
	failed bool   // the walk has ended early
}

// is is the name of what is called rest from where the walk is.
func (w *walk) is(rest string) []byte {
	dir, gone := bytes.CutSuffix(ownName(w.at), []byte(" (deleted)"))
	w.way.Gone = w.way.Gone || gone
	if len(dir) == 0 || dir[0] != '/' {
		return nil
	}
	return []byte(path.Clean(string(dir) + "/" + rest))
}

// lost is the name of a walk that ends early.
func (w *walk) lost(rest string) []byte {
	w.failed = true
	w.way.Dots = slices.Contains(strings.Split(rest, "/"), "..")
	return w.is(rest)
}

func (w *walk) name(rest string, follow, create bool) []byte {
	for {
		rest = strings.TrimLeft(rest, "/")
		c, left, _ := strings.Cut(rest, "/")
		if i := len(c); i < len(rest) {
			left = rest[i:]
		}
		last := strings.Trim(left, "/") == ""
		slash := last && left != ""
		w.way.SlashFinal = w.way.SlashFinal || slash
		if c == "" {
			return w.is("")
		}
		// A file cannot be made under a name that ends in a slash: fs/namei.c, open_last_lookups. The rest is for Way.
		if last && slash && create {
			w.made, create = w.is(c), false
		}
		if last && !follow && !slash {
			where := w.is(c)
			if fd, err := openAt(w.at, c, OPath|ONoFollow|OCloseExec, 0); err == nil {
				w.move(fd) // for nameOf to look at
			}
			return where
		}
		fd, err := openAt(w.at, c, OPath|ONoFollow|OCloseExec, 0)
		if err != nil {
			return w.lost(rest)
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			syscall.Close(fd)
			return w.lost(rest)
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFLNK {
			w.move(fd)
			if last {
				return w.is("")
			}
			rest = left
			continue
		}
		target, magic := w.read(fd, c)
		syscall.Close(fd)
		if w.links++; w.links > maxLinks {
			return w.lost(rest)
		}
		if magic {
			w.way.Link, w.way.Last = w.is(rest), last
			if fd, err = openAt(w.at, c, OPath|OCloseExec, 0); err != nil {
				return w.lost(rest)
			}
			w.move(fd)
			if err := syscall.Fstat(fd, &st); err == nil {
				w.way.LinkFD = w.way.LinkFD || st.Mode&syscall.S_IFMT == syscall.S_IFLNK
				w.way.FileFD = w.way.FileFD || st.Mode&syscall.S_IFMT != syscall.S_IFDIR
			}
			if last {
				return w.is("")
			}
			rest = left
			continue
		}
		if strings.HasPrefix(target, "/") {
			if fd, err = openAt(NoDir, "/", OPath|OCloseExec, 0); err != nil {
				return nil
			}
			w.move(fd)
		}
		rest = target + left
		if target == "" {
			return w.lost(rest)
		}
	}
}

func (w *walk) move(fd int) {
	syscall.Close(w.at)
	w.at = fd
}

// read reads a link, and says whether it is one that leads to an object: procfs has such below the directories of
// processes.
func (w *walk) read(fd int, name string) (target string, magic bool) {
	buf := make([]byte, 8192)
	n, err := readlinkAt(fd, buf)
	if err != nil {
		return "", false
	}
	dir := string(ownName(w.at))
	return string(buf[:n]), strings.HasPrefix(dir, "/proc/self") && name != "self" && name != "thread-self"
}

// readlinkAt reads the link that fd is open on.
func readlinkAt(fd int, buf []byte) (int, error) {
	empty := []byte{0}
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

package sentry

import (
	"errors"
	"strings"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// walker resolves a path one name at a time, so that what is judged and what is opened come from one walk. Leaving the
// walk to the open itself and judging afterwards is not enough: when the open fails because the image does not have the
// forbidden file, a second walk that finds out what it was about may find something else, if another thread swaps a
// link in between.
//
// A step looks at one name in one directory, and what a link says is read once. The last name is not looked up: the
// caller opens it in the directory that the walk ended in, without following links, and walks again if it has become
// one.
type walker struct {
	t     *kernel.Task
	guard *guard
	root  vfs.VirtualDentry // not owned
	at    vfs.VirtualDentry // the directory that the walk has reached; owned
	links int
}

// maxLinks is how many symbolic links a path may have; path_resolution(7).
const maxLinks = 40

// destination is where a walk ended.
type destination struct {
	dir   vfs.VirtualDentry // owned by the walker
	name  string            // of the object in dir, "." for dir itself; may have a slash at its end
	magic bool              // name is a link of procfs that leads to an object, not to a path
	path  string            // absolute name, to be judged; for magic of the link itself
}

var errNotLink = errors.New("not a symbolic link")

// isDirectory says whether d is a directory: not if it does not exist.
func (w *walker) isDirectory(d destination) bool {
	if d.name == "" { // the walk did not get there
		return true // whatever is missing on the way is the answer
	}
	st, err := w.t.Kernel().VFS().StatAt(w.t, w.t.Credentials(), w.operation(d.name, false), &vfs.StatOptions{Mask: linux.STATX_TYPE})
	return err != nil || st.Mode&linux.S_IFMT == linux.S_IFDIR
}

// walk resolves name from start, which it takes over.
func (g *guard) walk(t *kernel.Task, root, start vfs.VirtualDentry, name string, follow bool) (*walker, destination, error) {
	w := &walker{t: t, guard: g, root: root, at: start}
	d, err := w.run(name, follow)
	return w, d, err
}

func (w *walker) release() { w.at.DecRef(w.t) }

func (w *walker) run(name string, follow bool) (destination, error) {
	rest := name
	if strings.HasPrefix(rest, "/") {
		w.move(w.root)
	}
	for {
		rest = strings.TrimLeft(rest, "/")
		var c string
		c, rest, _ = cutName(rest)
		last := strings.Trim(rest, "/") == ""
		mustBeDir := last && rest != ""
		switch {
		case c == "":
			return w.end(".", false)
		case c == ".":
			if last {
				return w.end(".", false)
			}
			continue
		case last && !follow && !mustBeDir:
			return w.end(c, false)
		}
		if c != ".." {
			target, magic, err := w.link(c)
			switch {
			case err == nil && magic && last:
				return w.end(c, true)
			case err == nil && !magic:
				if w.links++; w.links > maxLinks {
					return destination{path: w.path(c, rest)}, linuxerr.ELOOP
				}
				if strings.HasPrefix(target, "/") {
					w.move(w.root)
				}
				rest = target + "/" + rest
				if last && !mustBeDir {
					rest = target
				}
				continue
			case err != nil && !errors.Is(err, errNotLink):
				return destination{path: w.path(c, rest)}, err
			}
			if last && !magic {
				if mustBeDir {
					c += "/"
				}
				return w.end(c, false)
			}
		}
		if err := w.step(c); err != nil {
			return destination{path: w.path(c, rest)}, err
		}
		if last {
			return w.end(".", false)
		}
	}
}

// cutName splits off the first name.
func cutName(path string) (name, rest string, found bool) {
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:], true
	}
	return path, "", false
}

// move makes vd the place of the walk.
func (w *walker) move(vd vfs.VirtualDentry) {
	vd.IncRef()
	w.at.DecRef(w.t)
	w.at = vd
}

func (w *walker) operation(name string, follow bool) *vfs.PathOperation {
	return &vfs.PathOperation{Root: w.root, Start: w.at, Path: fspath.Parse(name), FollowFinalSymlink: follow}
}

// step goes into the directory called name. Magic links are followed: what they lead to has no path to read.
func (w *walker) step(name string) error {
	vd, err := w.t.Kernel().VFS().GetDentryAt(w.t, w.t.Credentials(), w.operation(name, true), &vfs.GetDentryOptions{CheckSearchable: true})
	if err != nil {
		return err
	}
	w.at.DecRef(w.t)
	w.at = vd
	return nil
}

// link reads the symbolic link called name. The error is errNotLink if it exists and is none.
func (w *walker) link(name string) (target string, magic bool, err error) {
	target, err = w.t.Kernel().VFS().ReadlinkAt(w.t, w.t.Credentials(), w.operation(name, false))
	if linuxerr.Equals(linuxerr.EINVAL, err) {
		return "", false, errNotLink
	}
	if err != nil {
		// It is not there, or may not be looked at. Only the open itself can tell, and it must not go elsewhere.
		if linuxerr.Equals(linuxerr.ENOENT, err) {
			return "", false, errNotLink
		}
		return "", false, err
	}
	dir, nerr := w.guard.nameOf(w.t, w.at)
	return target, nerr == nil && ofProcess(dir), nil
}

// path is the absolute name of what the walk is about: the place it has reached and the names that are left.
func (w *walker) path(name, rest string) string {
	dir, err := w.guard.nameOf(w.t, w.at)
	if err != nil || dir == "" {
		return ""
	}
	return cleanJoin(dir, name+"/"+rest)
}

func (w *walker) end(name string, magic bool) (destination, error) {
	return destination{dir: w.at, name: name, magic: magic, path: w.path(name, "")}, nil
}

// start is where a walk of name begins for openat(2): the caller's root, working directory, or dirfd. Both are owned.
func startOf(t *kernel.Task, dirfd int32, name string) (root, start vfs.VirtualDentry, err error) {
	root = t.FSContext().RootDirectory()
	switch {
	case strings.HasPrefix(name, "/"):
		start = root
		start.IncRef()
	case dirfd == linux.AT_FDCWD:
		start = t.FSContext().WorkingDirectory()
	default:
		dir := t.GetFile(dirfd)
		if dir == nil {
			root.DecRef(t)
			return root, start, linuxerr.EBADF
		}
		start = dir.VirtualDentry()
		start.IncRef()
		dir.DecRef(t)
	}
	return root, start, nil
}

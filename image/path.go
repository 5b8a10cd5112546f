package image

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Limits of names, limits.h: a component and a whole path without its NUL.
const (
	maxName  = 255
	maxPath  = 4095
	maxLinks = 40 // path_resolution(7)
)

// checkPath refuses a path that is not canonical. The root is "", "." or "/".
func checkPath(name string) error {
	name = cleaned(name)
	if name == "/" {
		return nil
	}
	if len(name) > maxPath {
		return fmt.Errorf("longer than %d bytes: %w", maxPath, fs.ErrInvalid)
	}
	for part := range strings.SplitSeq(name[1:], "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return fmt.Errorf("not canonical: %w", fs.ErrInvalid)
		case len(part) > maxName:
			return fmt.Errorf("a name longer than %d bytes: %w", maxName, fs.ErrInvalid)
		case strings.ContainsRune(part, 0):
			return fmt.Errorf("a NUL in the name: %w", fs.ErrInvalid)
		}
	}
	return nil
}

// cleaned makes a path absolute. It judges nothing; see checkPath.
func cleaned(name string) string {
	name = strings.TrimPrefix(name, "./")
	if name == "." || name == "" {
		return "/"
	}
	if !strings.HasPrefix(name, "/") {
		name = "/" + name
	}
	if len(name) > 1 {
		name = strings.TrimSuffix(name, "/")
	}
	return name
}

func join(dir, base string) string {
	if dir == "/" {
		return "/" + base
	}
	return dir + "/" + base
}

// parentOf finds, and makes where missing, the directory that holds name. base is empty for the root itself.
func (t *Tree) parentOf(op, name string) (parent *node, base string, err error) {
	if err := checkPath(name); err != nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	dir, base := path.Split(cleaned(name))
	parent, err = t.directory(op, dir, true)
	if err != nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	return parent, base, nil
}

// leaf is parentOf for something that is no directory and may not replace one.
func (t *Tree) leaf(op, name string) (parent *node, base string, err error) {
	parent, base, err = t.parentOf(op, name)
	if err != nil {
		return nil, "", err
	}
	if old := parent.children[base]; base == "" || old != nil && old.mode.IsDir() {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: ErrIsDirectory}
	}
	return parent, base, nil
}

// find is parentOf without making anything.
func (t *Tree) find(op, name string) (parent *node, base string, err error) {
	if err := checkPath(name); err != nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	dir, base := path.Split(cleaned(name))
	parent, err = t.directory(op, dir, false)
	if err != nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	return parent, base, nil
}

// directory follows name, links included, to a directory. With make it makes what is missing.
func (t *Tree) directory(op, name string, make bool) (*node, error) {
	_, found, err := t.follow(op, name, make)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, fs.ErrNotExist
	case !found.mode.IsDir():
		return nil, ErrNotDirectory
	}
	return found, nil
}

// resolve follows name to whatever it leads to.
func (t *Tree) resolve(op, name string) (string, *node, error) {
	if err := checkPath(name); err != nil {
		return "", nil, err
	}
	return t.follow(op, cleaned(name), false)
}

// follow walks a path as inside a chroot: ".." at the root stays there, absolute targets begin at the tree's root.
// Unlike a caller's path, a link's target need not be canonical. It returns where the path leads, and nil if that
// does not exist.
func (t *Tree) follow(op, name string, make bool) (string, *node, error) {
	todo := strings.Split(name, "/")
	stack := []*node{t.root}
	names := []string{}
	links := 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		here := stack[len(stack)-1]
		switch {
		case part == "" || part == ".":
			continue
		case !here.mode.IsDir():
			return "", nil, ErrNotDirectory
		case part == "..":
			if len(stack) > 1 {
				stack, names = stack[:len(stack)-1], names[:len(names)-1]
			}
			continue
		case len(part) > maxName:
			return "", nil, fmt.Errorf("a name longer than %d bytes: %w", maxName, fs.ErrInvalid)
		}
		next := here.children[part]
		if next == nil {
			if !make {
				return "", nil, fs.ErrNotExist
			}
			next = newDirectory(0o755)
			if err := t.put(op, strings.Join(names, "/")+"/"+part, here, part, next); err != nil {
				return "", nil, err
			}
		}
		if next.mode&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return "", nil, ErrLoop
			}
			if strings.HasPrefix(next.target, "/") {
				stack, names = stack[:1], names[:0]
			}
			todo = append(strings.Split(next.target, "/"), todo...)
			continue
		}
		stack, names = append(stack, next), append(names, part)
	}
	return "/" + strings.Join(names, "/"), stack[len(stack)-1], nil
}

// put gives n the name base in parent, in place of what was there.
func (t *Tree) put(op, name string, parent *node, base string, n *node) error {
	old := parent.children[base]
	if old == nil && t.entries >= t.config.MaxEntries {
		return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("more than %d entries: %w", t.config.MaxEntries, ErrTooLarge)}
	}
	if old != nil {
		t.drop(old)
	}
	if !n.mode.IsDir() {
		n.links++
	}
	parent.children[base] = n
	t.entries++
	return nil
}

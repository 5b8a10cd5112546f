package image

import (
	"maps"
	"path"
	"slices"
)

// divided are directories in which what belongs together has a name of its own: configuration and state of many.
var divided = []string{"/", "/etc", "/var", "/var/lib"}

// Trees are the parts that hold all that the tree has, each with everything below it, sorted: /usr, /bin, /etc/fonts.
// They become [Meta.Trees], so that a file which gets into a sandbox's root some other way lies outside. An empty
// directory is part of none: nothing in it can be read. Nor is what the sandbox mounts something over.
func (t *Tree) Trees() []string { return treesBelow(nil, "/", t.root) }

func treesBelow(trees []string, name string, dir *node) []string {
	for _, base := range slices.Sorted(maps.Keys(dir.children)) {
		child, at := dir.children[base], path.Join(name, base)
		switch {
		case slices.ContainsFunc(mountpoints, func(m mountpoint) bool { return m.path == at }) && at != "/etc": // of the sandbox's own
		case slices.Contains(divided, at) && child.mode.IsDir():
			trees = treesBelow(trees, at, child)
		case !child.mode.IsDir() || len(child.children) > 0:
			trees = append(trees, at)
		}
	}
	return trees
}

// Without removes names that no sandbox may read, with everything below them and every other name of the same files,
// and returns what it has removed, sorted.
func (t *Tree) Without(names []string) (removed []string, err error) {
	gone := map[*node]bool{}
	var all func(*node)
	all = func(n *node) {
		if !n.mode.IsDir() {
			gone[n] = true
		}
		for _, child := range n.children {
			all(child)
		}
	}
	for _, name := range names {
		entry, ok := t.Lookup(name)
		if !ok {
			continue
		}
		if all(entry.node); !entry.Mode.IsDir() || len(entry.node.children) > 0 { // nobody misses an empty one
			removed = append(removed, cleaned(name))
		}
		if err := t.RemoveAll(name); err != nil {
			return nil, err
		}
	}
	for entry := range t.All() {
		if gone[entry.node] {
			removed = append(removed, entry.Path)
		}
	}
	for _, name := range removed {
		if err := t.RemoveAll(name); err != nil {
			return nil, err
		}
	}
	slices.Sort(removed)
	return removed, nil
}

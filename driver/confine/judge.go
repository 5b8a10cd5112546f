package confine

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/driver/rules"
)

// Object is what somebody wants to open.
type Object struct {
	Path      string // absolute, resolved; where nothing exists the names that were asked for
	Anonymous bool   // it has no path: a pipe, a socket
	Directory bool
	Absent    bool // nothing has that name
	Link      bool // a symbolic link, and it is not followed
}

// judged says by which rule an object may be opened, or why not. self is the process that asks, as it numbers itself. It is
// the order of driver/rules, with the questions that a name alone does not answer.
func judged(o Object, self int, trees []string) rules.Rule {
	for _, r := range rules.All() {
		if len(r.Calls) == 0 && matches(r, o, self, trees) {
			return r
		}
	}
	r, _ := rules.Named(rules.FileUnlisted)
	return r
}

func matches(r rules.Rule, o Object, self int, trees []string) bool {
	switch r.Name {
	case rules.FileEnviron:
		return ofAnother(o.Path, "environ", self)
	case rules.FileMemory:
		return ofAnother(o.Path, "mem", self)
	case rules.FileDevice:
		return rules.HostDevice(o.Path)
	case rules.FileProbe:
		e, ok := startupEntry(o.Path)
		return ok && e.Hidden
	case rules.FileStartup:
		e, ok := startupEntry(o.Path)
		return ok && !e.Hidden || ofProcess(o.Path)
	case rules.FileSys:
		return rules.Covers("/sys", o.Path) && !onTheWay(o.Path)
	case rules.FileImage:
		return coversAny(trees, o.Path)
	case rules.FileDirectory:
		return !o.Anonymous && o.Directory
	case rules.FileAnonymous:
		return o.Anonymous
	case rules.FileUnlisted:
		return true
	}
	return coversAny(r.Files, o.Path)
}

// coversAny says whether name is one of dirs or lies below one.
func coversAny(dirs []string, name string) bool {
	return name != "" && slices.ContainsFunc(dirs, func(dir string) bool { return rules.Covers(dir, name) })
}

func startupEntry(name string) (rules.Entry, bool) {
	for _, e := range rules.Startup() {
		if name != "" && rules.Covers(e.Name, name) {
			return e, true
		}
	}
	return rules.Entry{}, false
}

// onTheWay says whether name is a directory that leads to an entry of the start-up list.
func onTheWay(name string) bool {
	return slices.ContainsFunc(rules.Startup(), func(e rules.Entry) bool { return rules.Covers(name, e.Name) })
}

// ofProcess says whether name lies in the directory of a process in /proc.
func ofProcess(name string) bool {
	rest, ok := strings.CutPrefix(name, "/proc/")
	return ok && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}

// ofAnother says whether name is the file called base of another process than self.
func ofAnother(name, base string, self int) bool {
	rest, ok := strings.CutPrefix(name, "/proc/")
	if !ok || path.Base(name) != base {
		return false
	}
	pid, _, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(pid)
	return err == nil && n != self
}

// quick are the trees at the top of the image, such as /usr, that no other rule says anything about: nearly all that is opened lies
// there, and what leads out of them leads to the image's other trees, for nobody can put a link into an image.
func quick(trees []string) []string {
	names := []string{"/proc", "/sys", "/dev"}
	for _, r := range rules.All() {
		names = append(names, r.Files...)
	}
	for _, e := range rules.Startup() {
		names = append(names, e.Name)
	}
	return slices.DeleteFunc(slices.Clone(trees), func(tree string) bool {
		return path.Dir(tree) != "/" || slices.ContainsFunc(names, func(name string) bool { return rules.Covers(tree, name) || rules.Covers(name, tree) })
	})
}

// plain says whether a path is absolute and without anything that would have to be resolved but links.
func plain(name string) bool { return path.IsAbs(name) && path.Clean(name) == name }

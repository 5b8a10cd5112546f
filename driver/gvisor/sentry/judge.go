package sentry

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"gvisor.dev/gvisor/pkg/sentry/kernel"

	"github.com/silk-sandbox/silk/driver/rules"
)

// object is a file that somebody is about to open.
type object struct {
	path      string      // absolute and resolved; empty if nobody could resolve it
	anonymous bool        // it has no name in the sandbox's own file system
	directory func() bool // asked only when no other rule has an answer
}

// verdict is what a rule makes of an object. Its zero value allows.
type verdict struct {
	rule   string
	action rules.Action
}

func (v verdict) allows() bool { return v.action == rules.Allow || v.action == "" }

// judge decides on a file by its resolved name, before there is a descriptor. A name that nobody could resolve is allowed:
// the kernel's own answer stands, and it was an error.
func (g *guard) judge(t *kernel.Task, o object) verdict {
	if o.path == "" && !o.anonymous {
		return verdict{}
	}
	if coversAny(g.quick, o.path) && g.on(rules.FileImage) {
		return verdict{rules.FileImage, rules.Allow}
	}
	for _, r := range fileRules {
		if r.matches(g, t, o) && g.on(r.Name) {
			return verdict{r.Name, r.Action}
		}
	}
	if !g.on(rules.FileUnlisted) { // in no product
		return verdict{}
	}
	return verdict{rules.FileUnlisted, rules.Kill} // not reached: the last rule matches everything
}

// quickTrees are the image's trees at the top, such as /usr, that no other rule says anything about: what lies there,
// nearly all that is opened, need not be held against each rule.
func quickTrees(trees []string) []string {
	var names []string
	for _, r := range rules.All() {
		names = append(names, r.Files...)
	}
	for _, e := range rules.Startup() {
		names = append(names, e.Name)
	}
	names = append(names, "/proc", "/sys", "/dev")
	return slices.DeleteFunc(slices.Clone(trees), func(tree string) bool {
		return path.Dir(tree) != "/" || slices.ContainsFunc(names, func(name string) bool { return rules.Covers(tree, name) || rules.Covers(name, tree) })
	})
}

// fileRule is a rule about files and the question whether it is about a certain one.
type fileRule struct {
	rules.Rule
	matches func(*guard, *kernel.Task, object) bool
}

// fileRules are the rules about files in the order of their table.
var fileRules = func() (list []fileRule) {
	special := map[string]func(*guard, *kernel.Task, object) bool{
		rules.FileEnviron: func(_ *guard, t *kernel.Task, o object) bool { return ofAnother(t, o.path, "environ") },
		rules.FileMemory:  func(_ *guard, t *kernel.Task, o object) bool { return ofAnother(t, o.path, "mem") },
		rules.FileDevice:  func(_ *guard, _ *kernel.Task, o object) bool { return rules.HostDevice(o.path) },
		rules.FileProbe:   func(_ *guard, _ *kernel.Task, o object) bool { e, ok := startupEntry(o.path); return ok && e.Hidden },
		rules.FileStartup: func(_ *guard, _ *kernel.Task, o object) bool {
			e, ok := startupEntry(o.path)
			return ok && !e.Hidden || ofProcess(o.path)
		},
		rules.FileSys: func(_ *guard, _ *kernel.Task, o object) bool {
			return rules.Covers("/sys", o.path) && !onTheWay(o.path)
		},
		rules.FileImage:     func(g *guard, _ *kernel.Task, o object) bool { return coversAny(g.trees, o.path) },
		rules.FileDirectory: func(_ *guard, _ *kernel.Task, o object) bool { return !o.anonymous && o.directory() },
		rules.FileAnonymous: func(_ *guard, _ *kernel.Task, o object) bool { return o.anonymous },
		rules.FileUnlisted:  func(*guard, *kernel.Task, object) bool { return true },
	}
	for _, r := range rules.All() {
		switch {
		case special[r.Name] != nil:
			list = append(list, fileRule{r, special[r.Name]})
		case len(r.Files) > 0:
			list = append(list, fileRule{r, func(_ *guard, _ *kernel.Task, o object) bool { return coversAny(r.Files, o.path) }})
		}
	}
	return list
}()

func coversAny(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return rules.Covers(dir, name) })
}

func startupEntry(name string) (rules.Entry, bool) {
	for _, e := range rules.Startup() {
		if rules.Covers(e.Name, name) {
			return e, true
		}
	}
	return rules.Entry{}, false
}

// onTheWay says whether name is a directory that leads to an entry of the start-up list.
func onTheWay(name string) bool {
	return slices.ContainsFunc(rules.Startup(), func(e rules.Entry) bool { return rules.Covers(name, e.Name) })
}

// ofProcess says whether name lies in the directory of a process in /proc. What of it may not be read of others has
// rules of its own, which come first.
func ofProcess(name string) bool {
	rest, ok := strings.CutPrefix(name, "/proc/")
	return ok && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}

// ofAnother says whether name is the file called base of another process. The memory of a process that one traces is
// as one's own.
func ofAnother(t *kernel.Task, name, base string) bool {
	rest, ok := strings.CutPrefix(name, "/proc/")
	if !ok || path.Base(name) != base {
		return false
	}
	pid, _, _ := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(pid, 10, 32)
	if err != nil || t == nil {
		return true
	}
	target := t.PIDNamespace().TaskWithID(kernel.ThreadID(n))
	if target == nil {
		return true
	}
	return !mayEnter(t, target) || base == "environ" && target.ThreadGroup() != t.ThreadGroup()
}

// mayEnter says whether target belongs to the process of t or is traced by it.
func mayEnter(t, target *kernel.Task) bool {
	if target.ThreadGroup() == t.ThreadGroup() {
		return true
	}
	tracer := target.Tracer()
	return tracer != nil && tracer.ThreadGroup() == t.ThreadGroup()
}

// cleanJoin appends the names that do not exist to the directory that does. ".." in them cannot lead anywhere: it
// belongs to a directory that is not there.
func cleanJoin(dir, rest string) string {
	return path.Clean(dir + "/" + rest)
}

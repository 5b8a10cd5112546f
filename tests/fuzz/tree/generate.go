package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Config shapes cases. The zero value makes cases that no policy has anything to say about.
type Config struct {
	Leads []string // names that links and paths lead to besides
}

// Descriptors that the steps of a case open.
const (
	firstFD = 20
	lastFD  = 26
)

// New makes the case of a seed.
func New(seed uint64, c Config) Case {
	g := generator{Rand: rand.New(rand.NewPCG(seed, 0)), leads: c.Leads, dirs: []string{Work, Work, Other}}
	out := Case{Seed: seed, Steps: []Step{{Kind: Dir, Name: []byte(Work), Mode: 0o755}, {Kind: Dir, Name: []byte(Other), Mode: 0o755}}}
	for range 4 + g.IntN(12) {
		out.Steps = append(out.Steps, g.step()...)
	}
	out.Steps = append(out.Steps, g.open()...)
	for range 25 {
		out.Questions = append(out.Questions, g.question())
	}
	return out
}

type generator struct {
	*rand.Rand
	leads       []string
	dirs, names []string // absolute
	fifo        bool     // there is one
}

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

var oddNames = []string{
	"\xff\xfe", "x\ny", "\u2026", " ", "...", "..a", ".h", "a ", "-", "\x1b[31m", "*", "\\", "%s", "a\u0301", "self", "etc", "fd", strings.Repeat("n", 255), strings.Repeat("n", 256),
}

func (g *generator) name() string {
	if g.chance(12) {
		return pick(g, oddNames...)
	}
	return pick(g, "a", "b", "c", "d", "e")
}

// fresh is an absolute name for something new.
func (g *generator) fresh() string {
	name := pick(g, g.dirs...) + "/" + g.name()
	g.names = append(g.names, name)
	return name
}

func (g *generator) known() string {
	if len(g.names) == 0 || g.chance(10) {
		return pick(g, g.dirs...)
	}
	return pick(g, g.names...)
}

func (g *generator) step() []Step {
	one := func(kind Kind, mode uint32, target string) []Step {
		name := g.fresh()
		if kind == Dir {
			g.dirs = append(g.dirs, name)
		}
		return []Step{{Kind: kind, Name: []byte(name), Target: []byte(target), Mode: mode}}
	}
	switch n := g.IntN(100); {
	case n < 32:
		return one(Dir, 0o755, "")
	case n < 45:
		return one(File, pick[uint32](g, 0o644, 0o644, 0o755, 0), "")
	case n < 50:
		interpreter := ""
		if g.chance(50) {
			if interpreter = g.path(); g.chance(50) {
				interpreter = g.known()
			}
			if len(interpreter) > 200 || strings.ContainsAny(interpreter, " \n\t") {
				interpreter = ""
			}
		}
		return one(Script, 0o755, interpreter)
	case n < 54:
		return one(Program, 0, "")
	case n < 82:
		target := g.path()
		if g.chance(25) {
			target = g.known()
		}
		steps := one(Link, 0, target)
		if g.chance(50) { // it may lead to a directory
			g.dirs = append(g.dirs, string(steps[0].Name))
		}
		return steps
	case n < 88:
		return one(Hard, 0, g.known())
	case n < 90:
		g.fifo = true
		return one(Fifo, 0o644, "")
	case n < 93:
		mode := pick[uint32](g, 0, 0o111, 0o444, 0o644, 0o755)
		if g.fifo {
			mode &^= 0o111 // gVisor waits for a writer when it is to execute a fifo
		}
		return []Step{{Kind: Chmod, Name: []byte(g.known()), Mode: mode}}
	case n < 95:
		return []Step{{Kind: Remove, Name: []byte(g.known())}}
	case n < 98:
		return g.chain()
	}
	var steps []Step // a deep one
	at := pick(g, g.dirs...)
	for range 30 {
		at += "/" + pick(g, "a", "b")
		steps = append(steps, Step{Kind: Dir, Name: []byte(at), Mode: 0o755})
	}
	g.dirs, g.names = append(g.dirs, at), append(g.names, at)
	return steps
}

// chain is links that lead to one another, about as many as a path may have.
func (g *generator) chain() []Step {
	dir, target := pick(g, g.dirs...), g.path()
	var steps []Step
	for i := range 37 + g.IntN(5) {
		name := fmt.Sprintf("%s/l%d", dir, i)
		steps = append(steps, Step{Kind: Link, Name: []byte(name), Target: []byte(target)})
		target = name
		if g.chance(50) {
			target = fmt.Sprintf("l%d", i)
		}
		g.names = append(g.names, name)
	}
	g.names = append(g.names, target)
	return steps
}

// open opens descriptors and chooses a working directory.
func (g *generator) open() []Step {
	var steps []Step
	fd := func(n int, name string, flags int) {
		steps = append(steps, Step{Kind: Open, Name: []byte(name), FD: firstFD + n, Flags: flags | ONonblock})
	}
	fd(0, pick(g, g.dirs...), ODirectory)
	fd(1, pick(g, g.dirs...), OPath)
	fd(2, g.known(), OPath)
	fd(3, g.known(), OPath|ONoFollow)
	fd(4, g.known(), 0)
	gone := Work + "/gone"
	steps = append(steps, Step{Kind: Dir, Name: []byte(gone), Mode: 0o755}, Step{Kind: File, Name: []byte(Work + "/lost"), Mode: 0o644})
	fd(5, gone, ODirectory)
	fd(6, Work+"/lost", OReadWrite)
	cwd := pick(g, g.dirs...)
	if g.chance(6) {
		cwd = gone
	}
	return append(steps, Step{Kind: Chdir, Name: []byte(cwd)}, Step{Kind: Remove, Name: []byte(gone)}, Step{Kind: Remove, Name: []byte(Work + "/lost")})
}

// fdPath is a descriptor by name.
func (g *generator) fdPath() string {
	return fmt.Sprintf("%s/%d", pick(g, "/proc/self/fd", "/proc/self/fd", "/dev/fd", "/proc/thread-self/fd"), firstFD+g.IntN(lastFD-firstFD+1))
}

// path is any path, relative or absolute.
func (g *generator) path() string {
	if len(g.leads) > 0 && g.chance(15) {
		return g.spell(pick(g, g.leads...))
	}
	var at string
	switch n := g.IntN(100); {
	case n < 35:
		at = strings.TrimPrefix(g.known(), pick(g, Work+"/", Other+"/", "/workspace/"))
	case n < 50:
		at = g.known()
	case n < 60:
		at = g.name()
	case n < 70:
		at = g.fdPath()
	case n < 76:
		at = pick(g, "/proc/self/cwd", "/proc/self/cwd", "/proc/thread-self/cwd", "/proc/self/../self/cwd", "/proc/self/task/../cwd")
	case n < 82:
		at = "/proc/self/root" + g.known()
	case n < 86:
		at = "/tmp/../" + strings.TrimPrefix(g.known(), "/")
	case n < 90:
		at = strings.Repeat("../", g.IntN(6)) + strings.TrimPrefix(g.known(), "/")
	case n < 94:
		at = pick(g, ".", "..", "", "/", "//", "../..")
	default:
		at = pick(g, g.dirs...)
	}
	for range g.IntN(4) {
		at += "/" + pick(g, g.name(), g.name(), g.name(), "..", ".", "")
	}
	return g.spell(at)
}

// spell writes a path in another way that means the same, or nearly.
func (g *generator) spell(path string) string {
	for g.chance(30) {
		switch g.IntN(7) {
		case 0:
			path = strings.Replace(path, "/", "//", 1+g.IntN(2))
		case 1:
			path = strings.Replace(path, "/", "/./", 1)
		case 2:
			path += pick(g, "/", "/.", "//", "/..", "/./")
		case 3:
			if i := strings.LastIndexByte(path, '/'); i >= 0 {
				path = path[:i] + "/" + g.name() + "/.." + path[i:]
			}
		case 4:
			if path != "" && path[0] != '/' {
				path = "./" + path
			}
		case 5:
			if i := strings.LastIndexByte(path, '/'); i >= 0 {
				path = path[:i] + "/../" + path[strings.LastIndexByte(path[:i], '/')+1:]
			}
		case 6:
			if path != "" && g.chance(8) { // about as long as a path may be
				i := strings.IndexByte(path, '/') + 1
				path = path[:i] + strings.Repeat(pick(g, "./", "../", "a/../"), 4096)[:max(0, 4090+g.IntN(10)-len(path))] + path[i:]
			}
		}
	}
	return strings.ReplaceAll(path, "\x00", "")
}

func (g *generator) question() Question {
	q := Question{DirFD: NoDir, Name: []byte(g.path())}
	if g.chance(30) {
		q.DirFD = firstFD + g.IntN(lastFD-firstFD+2) // the last one is not open
	}
	if g.chance(4) {
		q.Exec = true
		if g.chance(60) { // something that may run
			q.Name = []byte(g.spell(g.known()))
		}
		if q.DirFD != NoDir && g.chance(30) {
			q.Name, q.Flags = nil, AtEmptyPath
		}
		if g.chance(20) {
			q.Flags |= AtNoFollow
		}
		if q.Flags == 0 && g.chance(50) {
			q.DirFD = NoDir
		}
		return q
	}
	q.Flags = ONonblock | OCloseExec | pick(g, 0, 0, 0, 0, OWrite, OReadWrite)
	for _, f := range []struct{ flag, percent int }{{ONoFollow, 25}, {ODirectory, 15}, {OCreate, 20}, {OExclusive, 7}, {OPath, 15}, {OTruncate, 4}, {OAppend, 3}} {
		if g.chance(f.percent) {
			q.Flags |= f.flag
		}
	}
	if q.Flags&(OCreate|ODirectory) == OCreate|ODirectory && g.chance(90) {
		q.Flags &^= ODirectory // Linux refuses the two together
	}
	return q
}

// Equal says whether two answers are the same but for the name.
func (a Answer) Equal(b Answer) bool {
	return a.Errno == b.Errno && bytes.Equal(a.Path, b.Path) && a.Type == b.Type && bytes.Equal(a.Text, b.Text)
}

// Only is c with one question, for a report or to be tried again.
func (c Case) Only(i int) Case {
	c.Questions = slices.Clone(c.Questions[i : i+1])
	return c
}

package skill

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Python's modules and functions by what they are for. A name covers what is below it; one that ends in * covers what begins so.
var (
	pyEval  = []string{"eval", "exec", "compile", "execfile", "__import__", "builtins.eval", "builtins.exec", "builtins.compile", "builtins.__import__", "runpy", "code", "codeop"}
	pySpawn = []string{
		"subprocess", "multiprocessing", "pty", "_posixsubprocess", "concurrent.futures.ProcessPoolExecutor", "concurrent.futures.process",
		"os.system", "os.popen*", "os.exec*", "os.spawn*", "os.posix_spawn*", "os.fork*", "os.startfile", "posix.*",
		"asyncio.create_subprocess_*", "asyncio.subprocess", "sh", "plumbum", "pexpect",
	}
	pyNetwork = []string{
		"socket", "_socket", "ssl", "socketserver", "http.client", "http.server", "urllib.request", "urllib.robotparser", "urllib3", "requests", "httpx", "aiohttp", "websocket", "websockets",
		"ftplib", "smtplib", "poplib", "imaplib", "nntplib", "telnetlib", "xmlrpc", "paramiko", "asyncio.open_connection", "asyncio.start_server", "asyncio.open_unix_connection", "tornado", "twisted", "pycurl", "web3",
	}
	pyWrite = []string{
		"os.remove", "os.unlink", "os.rename*", "os.replace", "os.mkdir", "os.makedirs", "os.rmdir", "os.removedirs", "os.chmod", "os.chown", "os.symlink", "os.link", "os.truncate", "os.mkfifo", "os.mknod", "os.utime",
		"shutil.copy*", "shutil.move", "shutil.rmtree", "shutil.chown", "shutil.make_archive", "shutil.unpack_archive", "tempfile.*",
	}
	pyMembers = []string{"write_text", "write_bytes", "unlink", "mkdir", "rmdir", "touch", "symlink_to", "hardlink_to"} // of pathlib.Path
)

// pyBuiltins are functions of the language itself: without an import.
var pyBuiltins = []string{"eval", "exec", "compile", "execfile", "__import__"}

// writing is a mode in which open changes a file.
var writing = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[rbtU]*[wax+][rbtU+wax]*$`) })

// pyScan is the scan of one file of Python.
type pyScan struct {
	*scan
	tokens

	names map[string]string // what a name stands for, by an import
}

func (s *scan) python(src string) {
	r := pyReader{reader: reader{src: src, line: 1, odd: func(line int, what string) { s.note(line, RuleObfuscation, "%s", what) }}}
	py := pyScan{scan: s, tokens: r.read().joined(), names: map[string]string{}}
	for i := range py.tokens {
		py.imports(i, false)
	}
	for i, t := range py.tokens {
		s.obfuscated(t)
		switch t.kind {
		case name:
			py.imports(i, true)
			py.name(i)
		case text:
			py.text(i)
		}
	}
}

// begins says whether a statement may begin at i.
func (s *pyScan) begins(i int) bool {
	before := s.at(i - 1)
	return before.kind == none || before.kind == newline || before.is(punct, ";", ":")
}

// imports reads an import at i: what it names, and what that is called here. With tell it says what of it meets a rule.
func (s *pyScan) imports(i int, tell bool) {
	if !s.begins(i) {
		return
	}
	line := s.at(i).line
	say := func(line int, module string) {
		if tell {
			s.module(line, module)
		}
	}
	switch {
	case s.at(i).is(name, "import"):
		for i++; s.at(i).kind == name; i++ {
			line = s.at(i).line
			module, next := s.dotted(i)
			say(line, module)
			first, _, _ := strings.Cut(module, ".")
			as, means := first, first
			if i = next; s.at(i).is(name, "as") {
				as, means = s.at(i+1).text, module
				i += 2
			}
			s.names[as] = means
			if !s.at(i).is(punct, ",") {
				return
			}
		}
	case s.at(i).is(name, "from"):
		module, next := s.dotted(i + 1)
		if !s.at(next).is(name, "import") {
			return
		}
		say(line, module)
		for i = next + 1; ; i++ {
			switch t := s.at(i); {
			case t.is(name, "from", "import"): // another one
				return
			case t.is(punct, "(", ",", ")"):
			case t.is(punct, "*") && (module == "os" || module == "posix"):
				if tell {
					s.note(t.line, RuleSpawn, "all of %s, also what starts processes", module)
				}
			case t.kind == newline && s.at(i-1).is(punct, ","):
			case t.kind == name:
				whole := module + "." + t.text
				say(t.line, whole)
				as := t.text
				if s.at(i+1).is(name, "as") {
					as = s.at(i + 2).text
					i += 2
				}
				s.names[as] = whole
			default:
				return
			}
		}
	}
}

// mostTokens is how far a name with points or the arguments of a call are read: what is longer is not there to be read.
const mostTokens = 100

// dotted is the name with points that begins at i, and where it ends, or is as long as names are read.
func (s *pyScan) dotted(i int) (whole string, next int) {
	whole = s.at(i).text
	for most := i + mostTokens; i < most && s.at(i+1).is(punct, ".") && s.at(i+2).kind == name; i += 2 {
		whole += "." + s.at(i+2).text
	}
	return whole, i + 1
}

// module says of a module, or of a name in one, that it is imported.
func (s *pyScan) module(line int, module string) {
	switch {
	case covered(module, pyEval):
		s.note(line, RuleEval, "%s runs text as a program", module)
	case covered(module, pySpawn):
		s.note(line, RuleSpawn, "%s starts processes", module)
	case covered(module, pyNetwork):
		s.note(line, RuleNetwork, "%s reaches the network", module)
	case covered(module, []string{"ctypes", "cffi", "marshal", "_ctypes"}):
		s.note(line, RuleObfuscation, "%s runs what nobody can read", module)
	}
}

func covered(module string, list []string) bool {
	return slices.ContainsFunc(list, func(m string) bool {
		if begin, ok := strings.CutSuffix(m, "*"); ok {
			return strings.HasPrefix(module, begin)
		}
		return module == m || strings.HasPrefix(module, m+".")
	})
}

func (s *pyScan) name(i int) {
	t := s.at(i)
	member := s.at(i-1).is(punct, ".")
	if member {
		if s.at(i+1).is(punct, "(") && slices.Contains(pyMembers, t.text) {
			s.note(t.line, RuleWrite, "%s changes files, and only /tmp can be written", t.text)
		}
		if t.text == "open" {
			s.open(i)
		}
		return
	}
	if s.at(i-1).is(name, "def", "class", "import", "as") || s.at(i+1).is(punct, "=") && !s.at(i+2).is(punct, "=") && s.at(i-1).is(punct, "(", ",") {
		return // it is a name of the program's own, or of an argument
	}
	whole, next := s.dotted(i)
	first, rest, _ := strings.Cut(whole, ".")
	if means, ok := s.names[first]; ok {
		whole = strings.TrimSuffix(means+"."+rest, ".")
	}
	if first == "__builtins__" {
		whole = "builtins." + rest
	}
	called := s.at(next).is(punct, "(")
	switch {
	case slices.Contains(pyBuiltins, whole) && !called && (whole == "compile" || !s.handed(i)):
	case covered(whole, pyEval) && (called || slices.Contains(pyBuiltins, strings.TrimPrefix(whole, "builtins."))):
		s.note(t.line, RuleEval, "%s runs text as a program", whole)
	case covered(whole, pySpawn) && strings.Contains(whole, ".") && s.imported(first):
		s.note(t.line, RuleSpawn, "%s starts processes", whole)
	case covered(whole, pyNetwork) && strings.Contains(whole, ".") && s.imported(first):
		s.note(t.line, RuleNetwork, "%s reaches the network", whole)
	case covered(whole, pyWrite) && called:
		s.note(t.line, RuleWrite, "%s changes files, and only /tmp can be written", whole)
	case whole == "getattr" && s.at(i+2).is(name, "builtins", "__builtins__"), first == "__builtins__" && s.at(i+1).is(punct, "["):
		s.note(t.line, RuleEval, "a built-in function by a name that is computed")
	case whole == "sys.modules" && s.at(next).is(punct, "["):
		s.note(t.line, RuleObfuscation, "a module that is not imported")
	case whole == "open", whole == "io.open", whole == "codecs.open":
		s.open(next - 1)
	case whole == "importlib.import_module" && called:
		if arg := s.at(next + 1); arg.kind == text && s.at(next+2).is(punct, ")", ",") {
			s.module(t.line, arg.text)
		} else {
			s.note(t.line, RuleObfuscation, "a module whose name is computed")
		}
	}
}

// imported says whether a name stands for something that was imported.
func (s *pyScan) imported(name string) bool {
	_, ok := s.names[name]
	return ok
}

// handed says whether the function of name i is given to somebody: run = eval.
func (s *pyScan) handed(i int) bool {
	return (s.at(i-1).is(punct, "=", "(", ",", "[", ":", "{") || s.at(i-1).is(name, "return")) &&
		(s.at(i+1).kind == newline || s.at(i+1).is(punct, ")", ",", "]", "}", ";"))
}

// open looks at the mode of a call of open, name i. Of a path's own open it is the first argument.
func (s *pyScan) open(i int) {
	if !s.at(i+1).is(punct, "(") {
		return
	}
	first := s.at(i-1).is(punct, ".") && !s.at(i-2).is(name, "io", "codecs", "os")
	for depth, arg, j := 1, 0, i+2; depth > 0 && j < min(len(s.tokens), i+mostTokens); j++ {
		t := s.at(j)
		switch {
		case t.is(punct, "(", "[", "{"):
			depth++
		case t.is(punct, ")", "]", "}"):
			depth--
		case t.is(punct, ",") && depth == 1:
			arg++
		case t.kind == text && depth == 1 && writing().MatchString(t.text) && (arg == 1 || arg == 0 && first || s.at(j-1).is(punct, "=") && s.at(j-2).is(name, "mode")):
			s.note(s.at(i).line, RuleWrite, "a file is opened for writing, and only /tmp can be written")
			return
		}
	}
}

// text looks at a string that names a member: globals()["eval"].
func (s *pyScan) text(i int) {
	t, object := s.at(i), s.at(i-2)
	if s.at(i-1).is(punct, "[") && s.at(i+1).is(punct, "]") && (object.kind == name || object.is(punct, ")", "]")) && slices.Contains([]string{"eval", "exec", "__import__", "__builtins__"}, t.text) {
		s.note(t.line, RuleEval, "[%q] may run text as a program", t.text)
	}
}

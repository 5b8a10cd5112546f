package skill

import (
	"path"
	"slices"
	"strings"
)

// Modules of Node.js and of npm by what they are for. A name covers what is below it: dns, dns/promises.
var (
	jsEval    = []string{"vm", "vm2", "isolated-vm", "repl", "inspector"}
	jsSpawn   = []string{"child_process", "cluster", "execa", "cross-spawn", "shelljs", "node-pty", "zx"}
	jsNetwork = []string{
		"http", "https", "http2", "net", "tls", "dgram", "dns", "undici", "axios", "node-fetch", "cross-fetch", "got", "ky", "request", "superagent", "ws", "socket.io-client",
	}
)

// jsGlobals are the names of the object that has all global names as members.
var jsGlobals = []string{"globalThis", "global", "window", "self"}

// jsWrites are functions of fs by names that little else has; jsFs the others, which count as members of fs alone.
var (
	jsWrites = []string{
		"writeFile", "writeFileSync", "appendFile", "appendFileSync", "createWriteStream", "mkdirSync", "mkdtemp", "mkdtempSync", "rmSync", "rmdir", "rmdirSync", "unlinkSync",
		"renameSync", "copyFile", "copyFileSync", "cpSync", "truncateSync", "ftruncate", "ftruncateSync", "chmodSync", "chownSync", "symlink", "symlinkSync", "linkSync", "utimesSync", "writeTextFile",
	}
	jsFs = []string{"mkdir", "rm", "unlink", "rename", "cp", "truncate", "chmod", "chown", "link", "utimes", "write", "writeSync", "writev"}
)

// jsScan is the scan of one file of JavaScript or TypeScript.
type jsScan struct {
	*scan
	tokens

	requires map[string]bool // names that load modules
	fs       map[string]bool // names of the module fs
}

func (s *scan) javascript(src string) {
	r := jsReader{reader: reader{src: src, line: 1, odd: func(line int, what string) { s.note(line, RuleObfuscation, "%s", what) }}}
	js := jsScan{
		scan: s, tokens: r.read().joined(), requires: map[string]bool{"require": true, "getBuiltinModule": true},
		fs: map[string]bool{"fs": true, "fsp": true, "fsPromises": true, "promises": true, "Deno": true, "Bun": true},
	}
	for i := range js.tokens {
		js.alias(i)
	}
	for i, t := range js.tokens {
		s.obfuscated(t)
		switch t.kind {
		case name:
			js.name(i)
		case text:
			js.text(i)
		}
	}
}

// alias takes note of other names for what loads modules, and for fs.
func (s *jsScan) alias(i int) {
	if s.at(i).kind != name {
		return
	}
	made := s.at(i + 2)
	switch {
	case s.at(i+1).is(punct, "=") && made.is(name, "createRequire"),
		s.at(i+1).is(punct, "=") && made.is(name, "require") && !s.at(i+3).is(punct, "(", "."):
		s.requires[s.at(i).text] = true
	case s.at(i+1).is(punct, "=") && made.is(name, "require") && isFs(s.at(i+4).text),
		s.at(i+1).is(name, "from") && isFs(made.text) && made.kind == text:
		s.fs[s.at(i).text] = true
	}
}

func isFs(module string) bool {
	return slices.Contains([]string{"fs", "fs/promises"}, strings.TrimPrefix(module, "node:"))
}

// member says whether name i is one of something else than the global object.
func (s *jsScan) member(i int) bool {
	if !s.at(i-1).is(punct, ".", "?.") {
		return false
	}
	return !s.at(i-2).is(name, jsGlobals...) || s.at(i-3).is(punct, ".", "?.")
}

// key says whether name i is the key of a member that is written down: {fetch: f}.
func (s *jsScan) key(i int) bool {
	return s.at(i+1).is(punct, ":") && s.at(i-1).is(punct, "{", ",")
}

// called says whether name i is called.
func (s *jsScan) called(i int) bool {
	return s.at(i+1).is(punct, "(") || s.at(i+1).is(punct, "?.") && s.at(i+2).is(punct, "(")
}

func (s *jsScan) name(i int) {
	t := s.at(i)
	of := func(objects ...string) bool { return s.at(i-1).is(punct, ".", "?.") && s.at(i-2).is(name, objects...) }
	free := !s.member(i) && !s.key(i)
	switch t.text {
	case "eval":
		if free {
			s.note(t.line, RuleEval, "eval runs text as a program")
		}
	case "Function", "AsyncFunction", "GeneratorFunction":
		if free && (s.called(i) || s.at(i+1).is(punct, ".") && s.at(i+2).is(name, "apply", "call", "bind", "constructor")) {
			s.note(t.line, RuleEval, "%s makes a program of text", t.text)
		}
	case "constructor":
		if s.at(i-2).is(name, "constructor") {
			s.note(t.line, RuleEval, "constructor.constructor is Function, which makes a program of text")
		}
	case "setTimeout", "setInterval", "setImmediate":
		if !s.member(i) && s.at(i+1).is(punct, "(") && (s.at(i+2).kind == text || s.at(i+2).kind == partial) {
			s.note(t.line, RuleEval, "%s runs text as a program", t.text)
		}
	case "fetch":
		if free && !s.at(i-1).is(name, "typeof") {
			s.note(t.line, RuleNetwork, "fetch reaches the network")
		}
	case "WebSocket", "EventSource", "XMLHttpRequest", "WebTransport", "RTCPeerConnection":
		if free && (s.called(i) || s.at(i-1).is(name, "new")) {
			s.note(t.line, RuleNetwork, "%s reaches the network", t.text)
		}
	case "sendBeacon":
		if s.called(i) {
			s.note(t.line, RuleNetwork, "sendBeacon reaches the network")
		}
	case "connect", "connectTls", "listen", "listenTls", "serve", "resolveDns":
		if of("Deno", "Bun") {
			s.note(t.line, RuleNetwork, "%s.%s reaches the network", s.at(i-2).text, t.text)
		}
	case "Command", "run", "spawn", "spawnSync":
		if of("Deno", "Bun") {
			s.note(t.line, RuleSpawn, "%s.%s starts a process", s.at(i-2).text, t.text)
		}
	case "binding", "_linkedBinding", "dlopen":
		if of("process") {
			s.note(t.line, RuleSpawn, "process.%s reaches what modules are made of", t.text)
		}
	case "import":
		if s.at(i+1).is(punct, "(") && !s.at(i-1).is(punct, ".") {
			s.computed(i)
		}
	case "fromCharCode", "fromCodePoint":
		if s.called(i) && s.numbers(i+2) >= manyEscapes {
			s.note(t.line, RuleObfuscation, "text that is written as numbers")
		}
	}
	if s.requires[t.text] && s.called(i) && !s.key(i) {
		s.computed(i)
	}
	if slices.Contains(jsGlobals, t.text) && !s.at(i-1).is(punct, ".", "?.") && s.at(i+1).is(punct, "[") && s.at(i+2).kind != text {
		s.note(t.line, RuleObfuscation, "a global name that is computed")
	}
	if s.called(i) && (slices.Contains(jsWrites, t.text) || slices.Contains(jsFs, t.text) && s.at(i-1).is(punct, ".", "?.") && s.at(i-2).kind == name && s.fs[s.at(i-2).text]) {
		s.note(t.line, RuleWrite, "%s changes files, and only /tmp can be written", t.text)
	}
}

// computed says of a call that loads a module that its name is no plain text. That of a file of the skill must say what is in it.
func (s *jsScan) computed(i int) {
	arg, after := s.at(i+2), s.at(i+3)
	if s.at(i+1).is(punct, "?.") {
		arg, after = s.at(i+3), s.at(i+4)
	}
	if arg.kind != text || !after.is(punct, ")", ",") {
		s.note(s.at(i).line, RuleObfuscation, "a module whose name is computed")
		return
	}
	ext := strings.ToLower(path.Ext(arg.text))
	if _, code := languages[ext]; strings.HasPrefix(arg.text, ".") && ext != "" && !code && ext != ".json" && !slices.Contains(native, ext) && !strings.HasSuffix(arg.text, "/.") {
		s.note(s.at(i).line, RuleObfuscation, "a module in a file that is not read as code: %s", ext)
	}
}

// numbers counts the arguments from i on that are numbers.
func (s *jsScan) numbers(i int) (n int) {
	for s.at(i).kind == number && s.at(i+1).is(punct, ",", ")") {
		n, i = n+1, i+2
	}
	return n
}

// text looks at a string: whether it names a module that is loaded, or a member.
func (s *jsScan) text(i int) {
	t, before := s.at(i), s.at(i-1)
	loads := before.is(name, "from", "import") ||
		before.is(punct, "(") && (s.at(i-2).kind == name && (s.requires[s.at(i-2).text] || s.at(i-2).text == "import") || s.at(i-2).is(punct, ")"))
	module := strings.TrimPrefix(t.text, "node:")
	switch {
	case loads && below(module, jsEval):
		s.note(t.line, RuleEval, "the module %s runs text as a program", module)
	case loads && below(module, jsSpawn):
		s.note(t.line, RuleSpawn, "the module %s starts processes", module)
	case loads && below(module, jsNetwork):
		s.note(t.line, RuleNetwork, "the module %s reaches the network", module)
	}
	if !before.is(punct, "[") || !s.at(i+1).is(punct, "]") {
		return
	}
	object := s.at(i - 2)
	if object.kind != name && !object.is(punct, ")", "]", "?.") {
		return // a list
	}
	global := object.is(name, jsGlobals...)
	switch {
	case t.text == "constructor", global && slices.Contains([]string{"eval", "Function"}, t.text):
		s.note(t.line, RuleEval, "[%q] may run text as a program", t.text)
	case global && slices.Contains([]string{"fetch", "WebSocket", "EventSource", "XMLHttpRequest"}, t.text):
		s.note(t.line, RuleNetwork, "[%q] reaches the network", t.text)
	}
}

// below says whether a module is one of a list, or a part of one.
func below(module string, list []string) bool {
	return slices.ContainsFunc(list, func(m string) bool { return module == m || strings.HasPrefix(module, m+"/") })
}

package profile

import (
	"path"
	"slices"
	"strings"
)

// Language says how a piece of code is run.
type Language struct {
	Name       string   `json:"name"`       // "python"
	Profile    string   `json:"profile"`    // profile used when the request names none
	File       string   `json:"file"`       // name given to code that has none: "main.py"
	Extensions []string `json:"extensions"` // ".py"; an entry without a dot is a whole file name: "Makefile"
	Fences     []string `json:"fences"`     // info strings of Markdown fences, lower case: "python", "py"
	Shebangs   []string `json:"shebangs"`   // base names of interpreters, a trailing version ignored: "python"
	Compile    []string `json:"compile"`    // command run first, in the same sandbox; {file} and {out} are replaced; nil: interpreted
	Command    []string `json:"command"`    // command; {file} and {out} are replaced, arguments are appended
}

// quantumRunner is the program in lab:quantum's image that runs circuits and shows what came of them.
const quantumRunner = "/usr/lib/silk/quantum.mjs"

// evmRunner is the program in lab:evm's image that compiles contracts and runs them on a chain of its own.
const evmRunner = "/usr/lib/silk/evm.mjs"

// TypeScriptLoader is the module in lab:node's and lab:repo's image that strips types before node compiles a file.
const TypeScriptLoader = "/usr/lib/silk/typescript.mjs"

// languages is the map from extensions, fences and shebangs to commands. It is Go, not YAML, because a command and the
// image that has it belong together, and because a run must not pay for decoding it.
var languages = []Language{
	{
		Name: "python", Profile: "lab:python", File: "main.py",
		Extensions: []string{".py", ".pyw"}, Fences: []string{"python", "py", "python3"}, Shebangs: []string{"python", "pypy"},
		Command: []string{"python3", "{file}"},
	},
	{
		Name: "javascript", Profile: "lab:node", File: "main.js",
		Extensions: []string{".js", ".mjs", ".cjs"}, Fences: []string{"javascript", "js", "node", "mjs"}, Shebangs: []string{"node", "nodejs"},
		Command: []string{"node", "{file}"},
	},
	{
		Name: "typescript", Profile: "lab:node", File: "main.ts",
		Extensions: []string{".ts", ".mts", ".cts"}, Fences: []string{"typescript", "ts"}, Shebangs: []string{"ts-node", "tsx"},
		Command: []string{"node", "--import", TypeScriptLoader, "{file}"},
	},
	{
		Name: "sh", Profile: "lab:text", File: "main.sh",
		Extensions: []string{".sh"}, Fences: []string{"sh", "shell", "posix"}, Shebangs: []string{"sh", "dash"},
		Command: []string{"sh", "{file}"},
	},
	{
		Name: "bash", Profile: "lab:text", File: "main.bash",
		Extensions: []string{".bash"}, Fences: []string{"bash"}, Shebangs: []string{"bash"},
		Command: []string{"bash", "{file}"},
	},
	{
		Name: "jq", Profile: "lab:text", File: "main.jq",
		Extensions: []string{".jq"}, Fences: []string{"jq"}, Shebangs: []string{"jq"},
		Command: []string{"jq", "-f", "{file}"},
	},
	{
		Name: "awk", Profile: "lab:text", File: "main.awk",
		Extensions: []string{".awk"}, Fences: []string{"awk", "gawk"}, Shebangs: []string{"awk", "gawk", "mawk"},
		Command: []string{"awk", "-f", "{file}"},
	},
	{
		// -init reads the file, and -bail makes an error in it the exit status; what follows on stdin is SQL too. The
		// first argument is a database file, without one it is in memory.
		Name: "sql", Profile: "lab:text", File: "main.sql",
		Extensions: []string{".sql"}, Fences: []string{"sql", "sqlite", "sqlite3"}, Shebangs: []string{"sqlite"},
		Command: []string{"sqlite3", "-bail", "-batch", "-init", "{file}"},
	},
	{
		Name: "c", Profile: "lab:repo", File: "main.c",
		Extensions: []string{".c"}, Fences: []string{"c"},
		Compile: []string{"gcc", "-O2", "-o", "{out}", "{file}", "-lm"},
		Command: []string{"{out}"},
	},
	{
		Name: "c++", Profile: "lab:repo", File: "main.cpp",
		Extensions: []string{".cpp", ".cc", ".cxx", ".c++"}, Fences: []string{"c++", "cpp", "cc"},
		Compile: []string{"g++", "-O2", "-o", "{out}", "{file}"},
		Command: []string{"{out}"},
	},
	{
		Name: "go", Profile: "lab:repo", File: "main.go",
		Extensions: []string{".go"}, Fences: []string{"go", "golang"},
		Compile: []string{"go", "build", "-o", "{out}", "{file}"},
		Command: []string{"{out}"},
	},
	{
		Name: "make", Profile: "lab:repo", File: "Makefile",
		Extensions: []string{".mk", "Makefile", "makefile", "GNUmakefile"}, Fences: []string{"make", "makefile"}, Shebangs: []string{"make", "gmake"},
		Command: []string{"make", "-f", "{file}"},
	},
	{
		Name: "openqasm", Profile: "lab:quantum", File: "main.qasm",
		Extensions: []string{".qasm"}, Fences: []string{"openqasm", "qasm", "qasm2", "qasm3"},
		Command: []string{"node", quantumRunner, "{file}"},
	},
	{
		Name: "q#", Profile: "lab:quantum", File: "main.qs",
		Extensions: []string{".qs"}, Fences: []string{"q#", "qsharp", "qs"},
		Command: []string{"node", quantumRunner, "{file}"},
	},
	{
		Name: "solidity", Profile: "lab:evm", File: "main.sol",
		Extensions: []string{".sol"}, Fences: []string{"solidity", "sol"},
		Command: []string{"node", evmRunner, "{file}"},
	},
}

// Languages returns every language, in the order of documentation.
func Languages() []Language { return slices.Clone(languages) }

// LanguageNamed returns the language with a name or fence word, whatever its case.
func LanguageNamed(name string) (Language, bool) {
	name = strings.ToLower(name)
	for _, l := range languages {
		if l.Name == name || slices.Contains(l.Fences, name) {
			return l, true
		}
	}
	return Language{}, false
}

// LanguageNames returns the names of all languages, in the order of documentation.
func LanguageNames() []string {
	names := make([]string, len(languages))
	for i, l := range languages {
		names[i] = l.Name
	}
	return names
}

// Detect says which language a piece of code is in: by the word after its Markdown fence, else by its file name, else
// by its first line. Empty arguments are not known. It reports false if nothing of that names a language.
func Detect(name, firstLine, fence string) (Language, bool) {
	if fence != "" {
		return LanguageNamed(fence)
	}
	if name != "" {
		base := path.Base(name)
		for _, l := range languages {
			if slices.Contains(l.Extensions, base) || slices.Contains(l.Extensions, strings.ToLower(path.Ext(base))) {
				return l, true
			}
		}
	}
	if program := Shebang(firstLine); program != "" {
		for _, l := range languages {
			if slices.Contains(l.Shebangs, program) {
				return l, true
			}
		}
	}
	return Language{}, false
}

// Shebang returns the base name of the interpreter in a first line, without a trailing version: "python" for
// "#!/usr/bin/env -S python3.13 -u" (execve(2), env(1)). It returns "" if there is none.
func Shebang(line string) string {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(line, "\ufeff"), "#!")
	if !ok {
		return ""
	}
	words := strings.Fields(rest)
	if len(words) > 0 && path.Base(words[0]) == "env" {
		words = words[1:]
		for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return ""
	}
	return strings.TrimRight(path.Base(words[0]), "0123456789.-")
}

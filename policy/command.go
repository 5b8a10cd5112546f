package policy

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/profile"
)

// compiled is where a compiler puts the program, relative to /workspace.
const compiled = ".silk/main"

// compileScript runs the first $1 of its arguments as a compiler and then becomes the rest. It is a constant: names of
// files and arguments reach it as arguments only, and eval sees nothing but "${2}" "${3}" ... What the compiler says goes to
// stderr, stdin stays for the program, and a failed compilation leaves CompileFailed behind.
const compileScript = `n=$1; shift
i=1; compile=
while [ "$i" -le "$n" ]; do compile="$compile \"\${$i}\""; i=$((i+1)); done
eval "$compile" >&2 </dev/null || { status=$?; mkdir -p /workspace/.silk; : >/workspace/` + CompileFailed + `; exit "$status"; }
shift "$n"
exec "$@"
`

// command settles what is run: the interpreter or compiler of the code's language, or the arguments as they are.
func (d *decision) command() {
	size := 0
	for _, a := range d.req.Args {
		size += len(a) + 1
		if strings.ContainsRune(a, 0) {
			d.fault("argument %q holds a NUL byte", a)
		}
		if len(a) > maxText {
			d.fault("an argument is longer than %d bytes", maxText)
		}
	}
	for _, e := range d.req.Env {
		size += len(e) + 1
	}
	if size > maxTexts {
		d.fault("arguments and environment are %d bytes together, more than %d", size, maxTexts)
	}
	if d.req.Code == nil {
		d.bare()
		return
	}
	if s := d.req.Skill; s != nil && len(s.Command) > 0 {
		d.plan.Args = slices.Concat(s.Command, d.req.Args)
		return
	}
	l, ok := languageOf(d.req, d.prof)
	if !ok {
		d.fault("no language is known for %q; name one of %s", or(d.req.Language, d.req.Code.Name), strings.Join(profile.LanguageNames(), ", "))
		return
	}
	d.plan.Language = l.Name

	file := d.req.Code.Name
	if d.req.Skill != nil {
		file = path.Join(Workspace, file)
	}
	if !strings.ContainsRune(file, '/') && strings.HasPrefix(file, "-") {
		file = "./" + file // or it would be taken for an option
	}
	out := path.Join(Workspace, compiled)
	command := append(substitute(l.Command, file, out), d.req.Args...)
	if l.Compile == nil {
		d.plan.Args = command
		return
	}
	if d.req.NoSpawn {
		d.deny(RuleSpawn, d.words("leave --no-spawn out", "leave no_spawn out"), "%s is compiled in the sandbox, which takes processes", l.Name)
	}
	compiler := substitute(l.Compile, file, out)
	d.plan.Compile = true
	d.plan.MakeDirs = append(d.plan.MakeDirs, path.Dir(compiled))
	d.plan.Args = slices.Concat([]string{"sh", "-c", compileScript, "compile", strconv.Itoa(len(compiler))}, compiler, command)
}

// bare settles a command without code: the arguments, or on a terminal without any, a shell.
func (d *decision) bare() {
	d.plan.Args = slices.Clone(d.req.Args)
	switch {
	case len(d.req.Args) == 0 && d.req.Terminal:
		d.plan.Args = []string{"sh"}
	case len(d.req.Args) == 0:
		d.fault("nothing to run: give a file, code or a command")
	case d.req.Args[0] == "":
		d.fault("the command's name is empty")
	}
}

// languageOf returns the language of the code in req: the one that is named, else what its file name or first line says,
// else the profile's, if req names the profile or the code may be a script.
func languageOf(req Request, prof profile.Profile) (profile.Language, bool) {
	if req.Language != "" {
		return profile.LanguageNamed(req.Language)
	}
	if req.Code == nil {
		return profile.Language{}, false
	}
	line, _, _ := strings.Cut(string(req.Code.Bytes[:min(len(req.Code.Bytes), 256)]), "\n")
	if l, ok := profile.Detect(req.Code.Name, line, ""); ok {
		return l, true
	}
	if profile.Shebang(line) != "" { // an interpreter that we do not know: guessing would run it with another one
		return profile.Language{}, false
	}
	if req.Profile == "" && !maybeScript(req.Code) {
		return profile.Language{}, false
	}
	return profile.LanguageNamed(prof.Language)
}

// maybeScript reports whether code of no known language may be a shell script: it is text, as far as we have it, and its
// name does not say that it is something else.
func maybeScript(c *Code) bool {
	if bytes.IndexByte(c.Bytes, 0) >= 0 {
		return false
	}
	switch strings.ToLower(path.Ext(strings.TrimLeft(path.Base(c.Name), "."))) {
	case "", ".txt", ".text":
		return true
	default:
		return false
	}
}

func substitute(words []string, file, out string) []string {
	done := make([]string, len(words), len(words)+8)
	for i, w := range words {
		switch w {
		case "{file}":
			w = file
		case "{out}":
			w = out
		}
		done[i] = w
	}
	return done
}

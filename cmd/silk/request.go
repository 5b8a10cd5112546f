package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/internal/nearest"
	"github.com/silk-sandbox/silk/internal/pipe"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// maxCode is the largest program that is read into memory. A larger one can be copied in with --dir or --file.
const maxCode = 16 << 20

// operands splits the words after the flags: FILE, if there is one, and what stands after "--".
func operands(cmd *cobra.Command, args []string) (file string, argv []string, err error) {
	before, argv := args, []string(nil)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		before, argv = args[:dash], args[dash:]
	}
	switch len(before) {
	case 0:
		return "", argv, nil
	case 1:
		return before[0], argv, nil
	}
	return before[0], before[1:], usagef("%q is one word too many: arguments of the program stand after --, as in %s %s -- %s",
		before[1], cmd.CommandPath(), before[0], strings.Join(before[1:], " "))
}

// request turns the command line into what policy decides about. Paths become absolute; the code is read. On error it is
// what could be read, for the record.
func (f *runFlags) request(a *app, c config, cmd *cobra.Command, args []string) (policy.Request, error) {
	file, argv, err := operands(cmd, args)
	req := policy.Request{
		Client:        policy.ClientCLI,
		Profile:       f.profile,
		Language:      f.language,
		Args:          argv,
		Terminal:      f.terminal,
		HasStdin:      f.stdin != "" || f.interactive || f.terminal,
		Env:           f.env,
		Limits:        f.limits,
		NoSpawn:       f.noSpawn,
		Deterministic: f.deterministic,
		Driver:        f.driver,
		Isolation:     f.isolation,
		RequireWatch:  f.requireWatch,
		Approve:       f.approve,
		Secrets:       f.secrets,
	}
	req.Network, req.Hosts = f.networkAndHosts()
	hasCode := cmd.Flags().Changed("code")
	switch { // until the code is read
	case file == "-":
		req.Code = &policy.Code{Given: file}
	case file != "":
		req.Code = &policy.Code{Name: file}
	case hasCode:
		req.Code = &policy.Code{Given: "-c"}
	}
	if err != nil {
		return req, err
	}
	if f.language != "" {
		if _, ok := profile.LanguageNamed(f.language); !ok {
			return req, usagef("no language is called %q%s", f.language, suggestLanguage(f.language))
		}
	}
	if err := f.paths(&req); err != nil {
		return req, err
	}
	switch {
	case hasCode && file != "":
		return req, usagef("both -c and the file %s are given; which one is to run?", file)
	case hasCode:
		return req, f.inline(c, &req, "-c", []byte(f.code))
	case file == "-":
		if f.stdin != "" || f.interactive || f.terminal {
			return req, usagef("the code comes from stdin (-), so stdin cannot be passed to the program")
		}
		code, err := a.readInput()
		if err != nil {
			return req, err
		}
		return req, f.inline(c, &req, "-", code)
	case file != "":
		return req, f.fromFile(&req, file)
	}
	return req, nil
}

// paths makes what the user named absolute and says what is not there.
func (f *runFlags) paths(req *policy.Request) error {
	if f.dir != "" {
		dir, info, err := locate(f.dir)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return usagef("--dir %s is not a directory; copy one file in with --file", f.dir)
		}
		req.Dir = dir
	}
	for _, name := range f.files {
		path, info, err := locate(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return usagef("--file %s is a directory; copy it in with --dir", name)
		}
		req.Files = append(req.Files, path)
	}
	for _, m := range f.mounts {
		// The target begins after the last colon that a slash follows, so that sources may have colons.
		source, target := m, ""
		if i := strings.LastIndex(m, ":/"); i > 0 {
			source, target = m[:i], m[i+1:]
		} else if strings.Contains(m, ":") {
			return usagef("--mount %s: the target must be an absolute path below /workspace", m)
		}
		// Not cleaned: policy must see a "..".
		if !filepath.IsAbs(source) {
			wd, err := os.Getwd()
			if err != nil {
				return fmt.Errorf("find working directory: %w", err)
			}
			source = wd + string(filepath.Separator) + strings.TrimPrefix(source, "./")
		}
		if source != "/" {
			source = strings.TrimSuffix(source, "/")
		}
		req.Mounts = append(req.Mounts, policy.Mount{Source: source, Target: target})
	}
	return nil
}

// locate makes a path of the user absolute and looks at it.
func locate(name string) (string, fs.FileInfo, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", nil, fmt.Errorf("find working directory: %w", err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, missingf("there is no %s", name)
	}
	return path, info, err
}

// inline puts code that has no file of its own, given by -c or -, into the request, under the name that its language
// gives it.
func (f *runFlags) inline(c config, req *policy.Request, given string, code []byte) error {
	name := "main"
	l, ok := profile.LanguageNamed(f.language)
	if !ok {
		l, ok = profile.Detect("", firstLine(code), "")
	}
	if !ok {
		if word := profile.Shebang(firstLine(code)); word != "" {
			return usagef("the code is for %s, which is not a known language%s", word, suggestLanguage(word))
		}
		prof, err := c.profiles.Lookup(or(f.profile, "lab:text"))
		if err != nil {
			return err
		}
		if f.profile == "" {
			if bytes.IndexByte(code, 0) >= 0 {
				return usagef("the code is not text; name its language with --lang: %s", languageList())
			}
			f.guessed = prof.Language
		}
		l, ok = profile.LanguageNamed(prof.Language)
	}
	if ok {
		name, req.Language = l.File, l.Name
	}
	if req.Dir != "" {
		// The user's directory may have a file of that name, which the program should see.
		if _, err := os.Lstat(filepath.Join(req.Dir, name)); err == nil {
			name = "silk-" + name
		}
	}
	req.Code = newCode(name, code)
	req.Code.Given = given
	return nil
}

// fromFile puts a file's code into the request: by its bytes, or, if it lies inside --dir, as a part of that.
func (f *runFlags) fromFile(req *policy.Request, file string) error {
	path, info, err := locate(file)
	if err != nil {
		if near := nearestFile(file); near != "" {
			return missingf("%v; did you mean %s?", err, near)
		}
		if !strings.ContainsAny(file, "./") && errors.As(err, new(*missingError)) {
			return missingf("%v; a command stands after --, as in silk run -- %s", err, file)
		}
		return err
	}
	if info.IsDir() {
		return usagef("%s is a directory; copy it in with --dir %s and name the file or command to run", file, file)
	}
	in, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read code: %w", err)
	}
	defer in.Close()
	code, err := readCode(in, file)
	if err != nil {
		return err
	}
	name, inside := filepath.Base(path), false
	if req.Dir != "" {
		name, inside = insideDir(req.Dir, path, name)
		if _, err := os.Lstat(filepath.Join(req.Dir, name)); !inside && err == nil {
			return usagef("%s and %s would both be /workspace/%s", file, filepath.Join(f.dir, name), name)
		}
	}
	req.Code = newCode(filepath.ToSlash(name), code)
	if req.Language == "" {
		if l, ok := profile.Detect(name, firstLine(code), ""); ok {
			req.Language = l.Name
		} else if word := profile.Shebang(firstLine(code)); word != "" {
			return usagef("%s is for %s, which is not a known language%s", file, word, suggestLanguage(word))
		} else if f.profile == "" {
			if err := guessable(file, name, code); err != nil {
				return err
			}
			f.guessed = "sh"
		}
	}
	if inside {
		if link, err := os.Lstat(path); err == nil && link.Mode().IsRegular() {
			req.Code.Bytes = nil // copied with the rest, with its own mode
		}
	}
	return nil
}

// guessable refuses to take a file for a shell script that nobody said is one: its name says that it is something else, or
// its bytes do.
func guessable(file, name string, code []byte) error {
	if bytes.IndexByte(code, 0) >= 0 {
		return usagef("%s is not text; name its language with --lang (%s), or copy it in with --file and name the command after --", file, languageList())
	}
	switch ext := filepath.Ext(strings.TrimLeft(filepath.Base(name), ".")); strings.ToLower(ext) {
	case "", ".txt", ".text":
		return nil
	default:
		return usagef("%s: no known language has the extension %s; name one with --lang: %s", file, printable(ext), languageList())
	}
}

// insideDir says where path lies below dir, both taken as written or, failing that, with links resolved.
func insideDir(dir, path, base string) (name string, inside bool) {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return rel, true
	}
	realDir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return base, false
	}
	realParent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return base, false
	}
	if rel, err := filepath.Rel(realDir, filepath.Join(realParent, base)); err == nil && filepath.IsLocal(rel) {
		return rel, true
	}
	return base, false
}

func newCode(name string, code []byte) *policy.Code {
	sum := sha256.Sum256(code)
	if code == nil {
		code = []byte{} // nil would mean that it lies in the directory
	}
	return &policy.Code{Name: name, Bytes: code, SHA256: hex.EncodeToString(sum[:])}
}

// readInput reads code from stdin until its end or the first Ctrl-C.
func (a *app) readInput() ([]byte, error) {
	in := io.Reader(a.in)
	if r, stop, err := pipe.Interruptible(a.in); err == nil { // elsewhere the second Ctrl-C ends silk
		in = r
		defer stop()
		defer context.AfterFunc(a.ctx, stop)()
	}
	code, err := readCode(in, "stdin")
	if cause := context.Cause(a.ctx); cause != nil {
		return nil, cause
	}
	return code, err
}

func readCode(r io.Reader, name string) ([]byte, error) {
	code, err := io.ReadAll(io.LimitReader(r, maxCode+1))
	if err != nil {
		return nil, fmt.Errorf("read code from %s: %w", name, err)
	}
	if len(code) > maxCode {
		return nil, usagef("the code in %s is larger than %s; copy it in with --dir or --file and name the command after --", name, profile.FormatBytes(maxCode))
	}
	return code, nil
}

func firstLine(code []byte) string {
	line, _, _ := bytes.Cut(code[:min(len(code), 256)], []byte("\n"))
	return string(line)
}

func suggestLanguage(word string) string {
	if near := nearest.To(word, languageNames()); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return "; there are " + languageList()
}

func languageNames() []string {
	var names []string
	for _, l := range profile.Languages() {
		names = append(names, l.Name)
	}
	return names
}

func languageList() string { return strings.Join(languageNames(), ", ") }

// nearestFile looks beside a file that is not there for one that was meant.
func nearestFile(file string) string {
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries[:min(len(entries), 1000)] {
		names = append(names, e.Name())
	}
	if near := nearest.To(filepath.Base(file), names); near != "" {
		return filepath.Join(filepath.Dir(file), near)
	}
	return ""
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

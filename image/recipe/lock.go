package recipe

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// LockSchema names the format of a lock.
const LockSchema = "silk.lock/v1"

// Lock lists exactly what an image is made of. It never names a mirror, a registry or a host.
type Lock struct {
	Schema    string    `json:"schema"` // LockSchema
	Image     string    `json:"image"`
	Suite     string    `json:"suite"`     // Debian release, "trixie"
	Arch      string    `json:"arch"`      // Debian architecture, "amd64"
	Repairs   int       `json:"repairs"`   // revision of the repair rules, see Repairs
	Requested []string  `json:"requested"` // Debian packages that were asked for, sorted
	Packages  []Package `json:"packages"`  // those and what they depend on, sorted by name
	NPM       []Tarball `json:"npm"`       // sorted by name
}

// Package is one Debian package file.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`   // below the mirror: "pool/main/..."
	SHA256  string `json:"sha256"` // lower-case hexadecimal
	Size    int64  `json:"size"`   // bytes
}

// Tarball is one npm package.
type Tarball struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	In        string `json:"in,omitempty"` // see NPM
	Integrity string `json:"integrity"`    // "sha512-" and base64, as in package-lock.json
}

//go:embed locks/*.json
var locks embed.FS

// Committed returns the embedded lock of a lab image.
func Committed(name string) (Lock, error) {
	data, err := locks.ReadFile(path.Join("locks", LockFile(name)))
	if err != nil {
		return Lock{}, fmt.Errorf("no lock for image %q is part of this silk", name)
	}
	return ParseLock(data)
}

// maxPackageBytes bounds one package: the largest in Debian main are below 2 GiB.
const maxPackageBytes = 4 << 30

// ParseLock reads a lock strictly: unknown keys, other schemas and anything that could lead outside the mirror or the
// cache are errors, reported together.
func ParseLock(data []byte) (Lock, error) {
	var l Lock
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Lock{}, fmt.Errorf("read lock: %w", err)
	}
	if dec.More() {
		return Lock{}, errors.New("read lock: more than one JSON value")
	}
	if err := l.validate(); err != nil {
		return Lock{}, fmt.Errorf("read lock of %q: %w", l.Image, err)
	}
	return l, nil
}

// Marshal returns the canonical text of l: sorted, indented, with a newline at the end.
func (l Lock) Marshal() ([]byte, error) {
	l.Packages, l.NPM = slices.Clone(l.Packages), slices.Clone(l.NPM)
	if l.NPM == nil {
		l.NPM = []Tarball{}
	}
	slices.SortFunc(l.Packages, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.NPM, func(a, b Tarball) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.In, b.In)) })
	data, err := json.MarshalIndent(l, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write lock: %w", err)
	}
	return append(data, '\n'), nil
}

func (l Lock) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if l.Schema != LockSchema {
		fail("schema is %q, this silk reads %q", l.Schema, LockSchema)
	}
	if l.Image == "" {
		fail("no image name")
	}
	if !word(l.Suite) || !word(l.Arch) {
		fail("suite %q or architecture %q is not a word", l.Suite, l.Arch)
	}
	if l.Repairs != Repairs {
		fail("written for repair rules %d, this silk has %d", l.Repairs, Repairs)
	}
	seen := map[string]bool{}
	for _, p := range l.Packages {
		if err := p.validate(); err != nil {
			fail("package %q: %w", p.Name, err)
		}
		if seen[p.Name] {
			fail("package %q is listed twice", p.Name)
		}
		seen[p.Name] = true
	}
	for _, t := range l.NPM {
		if err := t.validate(); err != nil {
			fail("npm package %q: %w", t.Name, err)
		}
		if seen[t.dir()] {
			fail("npm package %q is listed twice", t.Name)
		}
		seen[t.dir()] = true
	}
	return errors.Join(errs...)
}

func (p Package) validate() error {
	sum, err := hex.DecodeString(p.SHA256)
	switch {
	case !word(p.Name) || p.Version == "":
		return fmt.Errorf("name or version %q is missing or odd", p.Version)
	case p.Path != path.Clean(p.Path) || !strings.HasPrefix(p.Path, "pool/") || strings.ContainsAny(p.Path, "?#%\\"):
		return fmt.Errorf("path %q is not a pool path", p.Path)
	case err != nil || len(sum) != 32 || p.SHA256 != strings.ToLower(p.SHA256):
		return fmt.Errorf("sha256 %q is not 64 lower-case hexadecimal digits", p.SHA256)
	case p.Size <= 0 || p.Size > maxPackageBytes:
		return fmt.Errorf("size %d is not in 1..%d", p.Size, int64(maxPackageBytes))
	}
	return nil
}

func (t Tarball) validate() error {
	_, err := t.sum()
	switch {
	case !npmName(t.Name) || t.In != "" && !npmName(t.In):
		return errors.New("not a package name")
	case t.Version == "" || strings.ContainsAny(t.Version, "/?#%\\ "):
		return fmt.Errorf("version %q is not a version", t.Version)
	}
	return err
}

// dir is where the package lies in an image.
func (t Tarball) dir() string {
	if t.In == "" {
		return nodeModules + t.Name
	}
	return nodeModules + t.In + "/node_modules/" + t.Name
}

// sum returns the sha512 of the tarball.
func (t Tarball) sum() ([]byte, error) {
	text, ok := strings.CutPrefix(t.Integrity, "sha512-")
	sum, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(sum) != 64 {
		return nil, fmt.Errorf("integrity %q is not a sha512 in base64", t.Integrity)
	}
	return sum, nil
}

// npmName reports whether name is a package name as npm allows them today: "name" or "@scope/name".
func npmName(name string) bool {
	if scope, rest, ok := strings.Cut(name, "/"); ok {
		return strings.HasPrefix(scope, "@") && word(scope[1:]) && word(rest)
	}
	return word(name)
}

// word reports whether s is a plain name: letters, digits and .+-_~, not starting with a dot or a dash.
func word(s string) bool {
	for i, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && strings.ContainsRune(".+-_~", c):
		default:
			return false
		}
	}
	return s != ""
}

package skill

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of the files of one skill. They are held in memory from the moment when their hashes are compared until they are in the
// sandbox, so that nobody changes them in between.
const (
	MaxFiles     = 1000
	MaxFileBytes = 64 << 20 // all together; a quarter of the room that /workspace has by default
	maxPath      = 4095     // PATH_MAX without the NUL, limits.h(0p)
	maxElement   = 255      // NAME_MAX
)

// Content is a file of a skill with its bytes, whose hash is the manifest's.
type Content struct {
	Path  string
	Bytes []byte
}

// Mismatch is a file that is not what the manifest says.
type Mismatch struct {
	Path     string `json:"path"`
	Expected string `json:"expected"`
	Actual   string `json:"actual"` // "" if it cannot be read
	Message  string `json:"message,omitempty"`
}

// CheckPaths says which paths of files are no plain paths below a directory, or may mean one file twice.
func CheckPaths(files []File) (faults []Fault) {
	if len(files) > MaxFiles {
		return fault("/files", fmt.Sprintf("has more than %d files", MaxFiles))
	}
	seen := map[string]int{}
	for i, f := range files {
		at := "/files/" + strconv.Itoa(i) + "/path"
		if what := badPath(f.Path); what != "" {
			faults = append(faults, Fault{at, what})
			continue
		}
		if first, ok := seen[folded(f.Path)]; ok { // on some systems they are one file
			faults = append(faults, Fault{at, fmt.Sprintf("is that of file %d, but for upper and lower case", first)})
			continue
		}
		seen[folded(f.Path)] = i
	}
	for i, f := range files {
		for dir := path.Dir(f.Path); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if first, ok := seen[folded(dir)]; ok {
				faults = append(faults, Fault{"/files/" + strconv.Itoa(i) + "/path", fmt.Sprintf("lies below file %d", first)})
				break
			}
		}
	}
	return faults
}

// folded is s with every letter replaced by one that stands for all its cases.
func folded(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}

// badPath says why p is not a plain path below a directory, on Linux and elsewhere, or "".
func badPath(p string) string {
	switch {
	case len(p) > maxPath:
		return fmt.Sprintf("is longer than %d bytes", maxPath)
	case !utf8.ValidString(p), strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "has characters that cannot be printed"
	case strings.ContainsAny(p, `\:`): // separates elements, or names a drive or a stream, on Windows
		return `has a \ or a :`
	case !fs.ValidPath(p) || p == ".":
		return "is not a plain path below the skill's directory: no / at its begin or end, no . or .. in it"
	}
	for element := range strings.SplitSeq(p, "/") {
		switch {
		case len(element) > maxElement:
			return fmt.Sprintf("has an element of more than %d bytes", maxElement)
		case strings.TrimRight(element, " .") != element:
			return "has an element that ends in a dot or a space, which some systems drop"
		case element == ".silk":
			return "has .silk in it, which silk needs itself"
		}
	}
	return ""
}

// ReadFiles reads the files of a manifest below dir: plain files by exactly these names, through no link. What is not there or has
// another hash is a mismatch. The error is about dir.
func ReadFiles(dir string, files []File) (contents []Content, mismatches []Mismatch, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open the skill's directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	room := int64(MaxFileBytes)
	for _, f := range files {
		data, err := readFile(root, f.Path, room)
		m := Mismatch{Path: f.Path, Expected: f.SHA256}
		if err != nil {
			m.Message = err.Error()
			mismatches = append(mismatches, m)
			continue
		}
		room -= int64(len(data))
		if m.Actual = hashOf(data); m.Actual != f.SHA256 {
			mismatches = append(mismatches, m)
			continue
		}
		contents = append(contents, Content{f.Path, data})
	}
	return contents, mismatches, nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// readFile reads one file of at most room bytes. Its errors name no path of the host.
func readFile(root *os.Root, name string, room int64) (data []byte, err error) {
	if what := badPath(name); what != "" {
		return nil, errors.New("the path " + what)
	}
	below, base := path.Split(name)
	dir, err := openDir(root, strings.TrimSuffix(below, "/"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	info, err := lookAt(dir, base)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New(base + " is no plain file")
	}
	f, err := dir.OpenFile(base, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close() // it was only read
	opened, err := f.Stat()
	if err != nil || !opened.Mode().IsRegular() || !os.SameFile(info, opened) {
		return nil, errors.New(base + " was replaced meanwhile")
	}
	data, err = io.ReadAll(io.LimitReader(f, room+1))
	if err != nil {
		return nil, plain(err)
	}
	if int64(len(data)) > room {
		return nil, fmt.Errorf("the files take more than %d MiB", MaxFileBytes>>20)
	}
	return data, nil
}

// openDir opens a directory below root, each element of its path by its exact name and none through a link.
func openDir(root *os.Root, name string) (_ *os.Root, err error) {
	at, err := root.OpenRoot(".")
	if err != nil || name == "" {
		return at, plain(err)
	}
	for element := range strings.SplitSeq(name, "/") {
		info, err := lookAt(at, element)
		if err == nil && !info.IsDir() {
			err = errors.New(element + " is no directory")
		}
		var next *os.Root
		if err == nil {
			next, err = at.OpenRoot(element)
		}
		if err = errors.Join(plain(err), at.Close()); err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// lookAt looks at an entry of a directory without following it. Where upper and lower case are one, only the name that the directory
// itself has will do.
func lookAt(dir *os.Root, name string) (fs.FileInfo, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, plain(err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, errors.New(name + " is a link")
	}
	d, err := dir.Open(".")
	if err != nil {
		return nil, plain(err)
	}
	defer d.Close() // it was only read
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, plain(err)
	}
	if !slices.Contains(names, name) {
		return nil, errors.New(name + " is called otherwise in its directory")
	}
	return info, nil
}

// plain is an error of the file system without the path that it was about, which may be of the host.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// HashFiles makes the list of files for a manifest: those that names says, below dir. It is held to what [ReadFiles] takes.
func HashFiles(dir string, names []string) (files []File, err error) {
	for _, name := range names {
		files = append(files, File{Path: name})
	}
	if faults := CheckPaths(files); len(faults) > 0 {
		return nil, &InvalidError{faults}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the skill's directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	room := int64(MaxFileBytes)
	for i, f := range files {
		data, err := readFile(root, f.Path, room)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Path, err)
		}
		room -= int64(len(data))
		files[i].SHA256 = hashOf(data)
	}
	return files, nil
}

// ListFiles names the plain files below dir for a new manifest, in the order of their names: all but manifests of skills, and what begins with a dot.
// A link or anything else that a skill cannot have is an error.
func ListFiles(dir string) (names []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the skill's directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case strings.HasPrefix(d.Name(), "."), d.IsDir() && (d.Name() == "node_modules" || d.Name() == "__pycache__"):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir(), name == FileName:
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no plain file, and a skill has only those", name)
		}
		if names = append(names, name); len(names) > MaxFiles {
			return fmt.Errorf("there are more than %d files", MaxFiles)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the skill's files: %w", err)
	}
	return names, nil
}

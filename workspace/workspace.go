// Package workspace is about what goes into the one writable directory of a run, /workspace, and what comes out of it.
//
// [Fill] writes a [Source] - a copied directory, single files, the code - as a tar stream that a driver unpacks before
// the program starts, and returns a [Manifest] of it. [Collect] reads the tar stream that a driver makes of the final
// workspace and says what is new or changed since that manifest. [CheckMount] decides whether a host directory may be
// laid read-only over a part of the workspace.
//
// Both directions stream: memory does not grow with the size of files. What the host gives is opened through [os.Root]
// and never through a link. What comes back was made by untrusted code: names, links, types and sizes are taken as
// hostile, nothing in it is opened, followed or executed, and copies are written so that neither a name in the stream
// nor a link planted in the destination leads out of it.
//
// The package starts nothing, knows no driver and holds no policy beyond these rules.
package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Root is where a sandbox has its workspace.
const Root = "/workspace"

// Owner is the uid and gid of everything in a workspace: the one that every sandbox runs as.
const Owner = 1000

// Defaults of [FillLimits].
const (
	DefaultFillBytes   = 256 << 20 // the default quota of a workspace
	DefaultFillEntries = 100_000
)

const (
	maxPathBytes = 256 << 10 // of one path; archive/tar takes at most 1 MiB of records per entry
	maxNameBytes = 64 << 20  // of all paths of a manifest together: what a manifest may take of our memory
)

// Source is what a workspace starts with. The zero value is an empty workspace.
//
// The parts are written in the order of the fields but for Code, which comes last. Two parts must not have the same
// name, except that a file of Dir gives way to Code, to the same file named by Files, and directories merge.
type Source struct {
	Tar   []byte   // the stream of an earlier [Fill], taken over entry by entry in its order
	Dir   string   // host directory whose content is copied; links in it are kept as links and never followed
	Files []string // host files copied under their base names; here a link is followed, since the user named it
	Code  *File    // the program
	Extra []File   // files, directories (Mode has fs.ModeDir) and links (fs.ModeSymlink) that the engine adds
}

// File is a file that silk itself puts into a workspace.
type File struct {
	Name    string // below the workspace, slash-separated, without "." and ".." elements
	Bytes   []byte
	Mode    fs.FileMode // permissions; 0 means 0644, for a directory 0755. With fs.ModeSymlink, Bytes is what it leads to
	ModTime time.Time   // zero: the Unix epoch, so that equal requests make equal workspaces
}

func (f File) perm() fs.FileMode {
	switch perm := f.Mode.Perm(); {
	case perm != 0:
		return perm
	case f.Mode.IsDir():
		return 0o755
	default:
		return 0o644
	}
}

// FillLimits bound what goes in.
type FillLimits struct {
	Bytes   int64 // content of all files; 0: DefaultFillBytes
	Entries int   // files, directories and links; 0: DefaultFillEntries
}

func (l FillLimits) withDefaults() FillLimits {
	if l.Bytes == 0 {
		l.Bytes = DefaultFillBytes
	}
	if l.Entries == 0 {
		l.Entries = DefaultFillEntries
	}
	return l
}

// LimitError says that a source is larger than a workspace may be.
type LimitError struct {
	What  string // "bytes", "entries", "names" or "path"
	Limit int64
	Path  string // entry at which the limit was reached
}

func (e *LimitError) Error() string {
	switch e.What {
	case "bytes":
		return fmt.Sprintf("the files for the workspace take more than its %d MiB (reached at %q); leave some out, or "+
			"raise the limit, as with --disk %dGiB or in the profile", e.Limit>>20, e.Path, max(1, 4*e.Limit>>30))
	case "entries":
		return fmt.Sprintf("more than %d files and directories for the workspace (reached at %q); name a smaller "+
			"directory, or mount it read-only with --mount", e.Limit, e.Path)
	case "path":
		return fmt.Sprintf("a path for the workspace is longer than %d bytes (%.60q...); leave that directory out", e.Limit, e.Path)
	default:
		return fmt.Sprintf("the names of the files for the workspace take more than %d MiB (reached at %.60q...); "+
			"leave deep directories out", e.Limit>>20, e.Path)
	}
}

// ConflictError says that two parts of a source want the same name, or that one lies below the file or link of another.
type ConflictError struct {
	Path   string
	Detail string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("two files for the workspace at %q: %s", e.Path, e.Detail)
}

// Check finds what is wrong with s before anything starts, without reading content: names that are not below the
// workspace, files that are missing or are not files, duplicates, sizes beyond lim. It does not walk Dir, whose size
// only [Fill] finds out.
func (s Source) Check(lim FillLimits) error {
	lim = lim.withDefaults()
	if s.Dir != "" {
		info, err := os.Stat(s.Dir)
		if err != nil {
			return fmt.Errorf("look at workspace directory: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("look at workspace directory: %s is not a directory; name single files with --file", s.Dir)
		}
	}
	names := map[string]bool{}
	var total int64
	add := func(name string, size int64, isDir bool) error {
		if names[name] && !isDir {
			return &ConflictError{Path: name, Detail: "it is named twice"}
		}
		names[name] = true
		if total += size; total > lim.Bytes {
			return &LimitError{What: "bytes", Limit: lim.Bytes, Path: name}
		}
		if len(names) > lim.Entries {
			return &LimitError{What: "entries", Limit: int64(lim.Entries), Path: name}
		}
		return nil
	}
	for _, file := range s.Files {
		info, err := statFile(file)
		if err != nil {
			return err
		}
		if err := add(filepath.Base(filepath.Clean(file)), info.Size(), false); err != nil {
			return err
		}
	}
	for _, file := range s.own() {
		if err := checkName(file.Name); err != nil {
			return err
		}
		if err := add(file.Name, int64(len(file.Bytes)), file.Mode.IsDir()); err != nil {
			return err
		}
	}
	return nil
}

// own lists the files that silk adds, in the order in which they are written.
func (s Source) own() []File {
	own := append([]File(nil), s.Extra...)
	if s.Code != nil {
		own = append(own, *s.Code)
	}
	return own
}

// statFile looks at a file named by the user, through links.
func statFile(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at file for the workspace: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("look at file for the workspace: %s is a directory; copy it with --dir", name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("look at file for the workspace: %s is a %s, not a regular file", name, typeOf(info.Mode()))
	}
	return info, nil
}

// checkName refuses names of our own that are not plainly below the workspace.
func checkName(name string) error {
	if _, ok := splitName(name); !ok || path.Clean(name) != name || len(name) > maxPathBytes {
		return fmt.Errorf("name for a file in the workspace: %q is not a plain path below it", name)
	}
	return nil
}

// splitName splits a slash-separated name into elements. It is not ok if the name is empty, absolute, or has an
// element that is empty, "." or "..", or holds a NUL; one leading "./" and trailing slashes do no harm. Names need not
// be UTF-8, which is why fs.ValidPath does not serve.
func splitName(name string) (elements []string, ok bool) {
	name = strings.TrimRight(strings.TrimPrefix(name, "./"), "/")
	elements = strings.Split(name, "/")
	for _, e := range elements {
		if e == "" || e == "." || e == ".." || strings.IndexByte(e, 0) >= 0 {
			return nil, false
		}
	}
	return elements, true
}

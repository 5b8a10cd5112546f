package workspace

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Rules of a [MountError].
const (
	MountNoStore = "mount-no-store" // the owner has listed no store
	MountOutside = "mount-outside"  // the source, its links resolved, lies in no store
	MountParent  = "mount-parent"   // an element of a path is ".."
	MountTarget  = "mount-target"   // the target is not below /workspace
	MountMissing = "mount-missing"  // the source does not exist or cannot be looked at
	MountType    = "mount-type"     // the source is neither a directory nor a file
)

// MountError is the refusal of a mount.
type MountError struct {
	Rule   string // one of the Mount constants
	Path   string // the source or target that is refused, as the user wrote it
	Detail string // why, and what would be allowed
	Err    error  // for MountMissing
}

func (e *MountError) Error() string { return fmt.Sprintf("mount %q: %s", e.Path, e.Detail) }

func (e *MountError) Unwrap() error { return e.Err }

// CheckMount decides whether src may be mounted read-only at dst, and returns src with every link resolved, which is
// the path to use from then on.
//
// src must resolve into one of stores, which are resolved as well, so that a link inside a store cannot lead out of it;
// a store itself may be mounted. dst must be a clean absolute path below /workspace. Neither may have a ".." element.
// Every error is a [*MountError]. The answer holds as long as nobody who may write to the store changes it.
func CheckMount(src, dst string, stores []string) (resolved string, err error) {
	if err := checkTarget(dst); err != nil {
		return "", err
	}
	if len(stores) == 0 {
		return "", &MountError{
			Rule: MountNoStore, Path: src,
			Detail: "no store is listed; the owner allows sources under grants: stores: in the configuration",
		}
	}
	if hasParent(filepath.ToSlash(src)) {
		return "", &MountError{Rule: MountParent, Path: src, Detail: `a source has no ".." element; write the whole path`}
	}
	resolved, err = resolve(src)
	if err != nil {
		return "", &MountError{Rule: MountMissing, Path: src, Detail: err.Error(), Err: err}
	}
	if !inStores(resolved, stores) {
		detail := "it lies in none of the stores that the owner listed: " + strings.Join(stores, ", ")
		if abs, err := filepath.Abs(src); err == nil && abs != resolved {
			detail = "it leads to " + resolved + ", and " + detail
		}
		return "", &MountError{Rule: MountOutside, Path: src, Detail: detail}
	}
	info, err := os.Lstat(resolved)
	if err != nil {
		return "", &MountError{Rule: MountMissing, Path: src, Detail: err.Error(), Err: err}
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return "", &MountError{
			Rule: MountType, Path: src,
			Detail: fmt.Sprintf("it is a %s; only directories and regular files are mounted", typeOf(info.Mode())),
		}
	}
	return resolved, nil
}

func checkTarget(dst string) error {
	refuse := func(rule, detail string) error { return &MountError{Rule: rule, Path: dst, Detail: detail} }
	switch {
	case hasParent(dst):
		return refuse(MountParent, `a target has no ".." element`)
	case strings.IndexByte(dst, 0) >= 0:
		return refuse(MountTarget, "a target has no NUL byte")
	case path.Clean(dst) != dst || !strings.HasPrefix(dst, Root+"/"):
		return refuse(MountTarget, "a target is a plain path below "+Root+", such as "+Root+"/data")
	case len(dst) >= 4096: // PATH_MAX, include/uapi/linux/limits.h
		return refuse(MountTarget, "a target is shorter than 4096 bytes")
	}
	return nil
}

func hasParent(p string) bool {
	for element := range strings.SplitSeq(p, "/") {
		if element == ".." {
			return true
		}
	}
	return false
}

// resolve makes p absolute and follows every link in it.
func resolve(p string) (string, error) {
	if p == "" {
		return "", errors.New("the path is empty")
	}
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// inStores reports whether resolved is one of stores or below one. A store that does not exist covers nothing.
func inStores(resolved string, stores []string) bool {
	for _, store := range stores {
		root, err := resolve(store)
		if err != nil || !filepath.IsAbs(store) {
			continue
		}
		rel, err := filepath.Rel(root, resolved)
		if err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

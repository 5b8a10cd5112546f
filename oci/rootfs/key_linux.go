package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/silk-sandbox/silk/image"
)

// version changes when the same directory becomes another image.
const version = "silk.rootfs/v1"

// Key is what an image of a root directory is found by: equal keys have equal images.
type Key struct {
	ID     string   // hex
	Layers []string // the directories that it was computed from and that stay as they are
}

// smallLayer and smallBytes are up to how many entries and bytes a layer is known by its content. Engines put one below each container
// that is the container's own and has a dozen empty files; a larger layer is an image's, and known by where it lies.
const (
	smallLayer = 64
	smallBytes = 1 << 20
)

// keyOf computes the key of root. The upper directory of an overlay, which the container's own engine may have written to, is
// read with each call; it is empty or nearly so.
func keyOf(ctx context.Context, root string, user User) (Key, error) {
	k := newKeying(ctx, user)
	lower, upper, err := overlayOf(root)
	if err != nil {
		return Key{}, err
	}
	if len(lower) == 0 {
		k.layers = append(k.layers, root)
		err = k.content(root, true)
	}
	for _, dir := range slices.Backward(lower) { // the lowest first
		if err == nil {
			err = k.lower(dir)
		}
	}
	if upper != "" && err == nil {
		err = k.content(upper, false)
	}
	if err != nil {
		return Key{}, err
	}
	return k.key(), nil
}

// keying is one computation of a key.
type keying struct {
	cancelled func() error
	sum       hash.Hash
	layers    []string
}

func newKeying(ctx context.Context, user User) *keying {
	k := &keying{cancelled: ctx.Err, sum: sha256.New()}
	fmt.Fprintf(k.sum, "%s\n%s\n", version, user)
	return k
}

func (k *keying) key() Key { return Key{ID: hex.EncodeToString(k.sum.Sum(nil)), Layers: k.layers} }

// lower adds a layer that never changes: by its content if it is small, else by the directory, which engines make anew and never
// write to again.
func (k *keying) lower(dir string) error {
	small, err := isSmall(dir)
	if err != nil {
		return err
	}
	if small {
		return k.content(dir, false)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("identify %s", dir)
	}
	fmt.Fprintf(k.sum, "layer %q %d %d.%09d\n", dir, stat.Ino, stat.Ctim.Sec, stat.Ctim.Nsec)
	k.layers = append(k.layers, dir)
	return nil
}

// isSmall says whether there is little below dir.
func isSmall(dir string) (bool, error) {
	entries, bytes := 0, int64(0)
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if entries++; info.Mode().IsRegular() {
			bytes += info.Size()
		}
		if entries > smallLayer+1 || bytes > smallBytes { // dir itself is one
			return fs.SkipAll
		}
		return nil
	})
	return entries <= smallLayer+1 && bytes <= smallBytes, err
}

// content adds what is below dir. With identity a file is known by its inode and the time of its last change, as make(1) knows it,
// and is not read: its owner is the engine.
func (k *keying) content(dir string, identity bool) error {
	fmt.Fprintln(k.sum, "content")
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = k.cancelled()
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("identify %s", path)
		}
		fmt.Fprintf(k.sum, "%q %v %d %d %d ", name, info.Mode(), stat.Uid, stat.Gid, stat.Rdev)
		switch {
		case info.Mode().IsRegular() && identity:
			fmt.Fprintf(k.sum, "%d %d %d.%09d", stat.Ino, stat.Size, stat.Ctim.Sec, stat.Ctim.Nsec)
		case info.Mode().IsRegular():
			// An image has no later time, and files that the engine has just made differ in nothing else.
			fmt.Fprintf(k.sum, "%d ", min(stat.Mtim.Sec, image.DefaultEpoch.Unix()))
			if err := k.file(path); err != nil {
				return err
			}
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(k.sum, "%q", target)
		}
		if err := k.overlayAttributes(path, info); err != nil {
			return err
		}
		fmt.Fprintln(k.sum)
		return nil
	})
}

func (k *keying) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	fmt.Fprintf(k.sum, "%x", sum.Sum(nil))
	return nil
}

// overlayAttributes adds what makes a directory hide the one below it, or a file another's content: overlayfs keeps that in extended
// attributes (Documentation/filesystems/overlayfs.rst).
func (k *keying) overlayAttributes(path string, info fs.FileInfo) error {
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil
	}
	for _, name := range []string{"trusted.overlay.opaque", "trusted.overlay.redirect", "trusted.overlay.metacopy", "user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy"} {
		value := make([]byte, 1024)
		n, err := syscall.Getxattr(path, name, value)
		switch {
		case err == nil:
			fmt.Fprintf(k.sum, " %s=%q", name, value[:n])
		case errors.Is(err, syscall.ENODATA), errors.Is(err, syscall.ENOTSUP):
		default:
			return fmt.Errorf("read attributes of %s: %w", path, err)
		}
	}
	return nil
}

// overlayOf returns the directories of the overlay that is mounted on root: the topmost lower one first. Of another file system there
// are none.
func overlayOf(root string) (lower []string, upper string, err error) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, "", err
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, "", err
	}
	lower, upper = parseOverlay(string(text), real)
	for i, dir := range lower { // Docker Engine names layers by short links
		if lower[i], err = filepath.EvalSymlinks(dir); err != nil {
			return nil, "", err
		}
	}
	return lower, upper, nil
}

// parseOverlay finds the overlay on point in proc_pid_mountinfo(5). Directories that are written relative to where the mount was
// made, as engines do when there are many, cannot be found again: the overlay is then one like any other directory. So is one whose
// directories have colons or commas in their names.
func parseOverlay(mountinfo, point string) (lower []string, upper string) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, super := strings.Fields(before), strings.SplitN(after, " ", 3)
		if !ok || len(fields) < 5 || len(super) < 3 || unescape(fields[4]) != point {
			continue
		}
		lower, upper = nil, "" // of several mounts on one point the last is seen
		if super[0] != "overlay" || fields[3] != "/" {
			continue
		}
		for option := range strings.SplitSeq(super[2], ",") {
			if dirs, ok := strings.CutPrefix(option, "lowerdir="); ok {
				lower = strings.Split(unescape(dirs), ":")
			}
			if dir, ok := strings.CutPrefix(option, "upperdir="); ok {
				upper = unescape(dir)
			}
		}
	}
	if slices.ContainsFunc(append(slices.Clone(lower), upper), func(dir string) bool {
		return dir != "" && !filepath.IsAbs(dir) || strings.Contains(dir, `\`)
	}) || slices.Contains(lower, "") {
		return nil, ""
	}
	return lower, upper
}

// unescape turns \040 and its like, by which mountinfo writes blanks, into bytes.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}

package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Remove takes away a tag and, if it was the last one, its image; or, given a digest, an image with all its tags.
// Sandboxes that use it keep their open file. What is in the system store cannot be removed: ErrReadOnly. Nor can what is held: a
// [*HeldError].
func (s *Store) Remove(ref string) error {
	unlock, err := s.lock(exclusive)
	if err != nil {
		return fmt.Errorf("remove image %s: %w", ref, err)
	}
	defer unlock()
	if err := s.removeLocked(ref); err != nil {
		return fmt.Errorf("remove image %s: %w", ref, err)
	}
	return nil
}

func (s *Store) removeLocked(ref string) error {
	tags, err := tagsOf(s.home)
	if err != nil {
		return err
	}
	d, isTag := tags[ref]
	if !isTag {
		img, err := s.Resolve(ref)
		if err != nil {
			return err
		}
		if img.System || checkTag(ref) == nil {
			return fmt.Errorf("%w: it is in the system store", ErrReadOnly)
		}
		d = img.Digest
	}
	if d.IsZero() { // the tag is damaged
		return os.Remove(s.home.tag(ref))
	}
	gone := []string{}
	for tag, of := range tags {
		if of == d {
			gone = append(gone, tag)
		}
	}
	if isTag && len(gone) > 1 { // the image has other names
		return os.Remove(s.home.tag(ref))
	}
	return s.removeImage(d, gone)
}

// removeImage needs the exclusive lock. Tags go first, so that none points to nothing.
func (s *Store) removeImage(d Digest, tags []string) error {
	if err := s.checkHeld(d); err != nil {
		return err
	}
	for _, tag := range tags {
		if err := os.Remove(s.home.tag(tag)); err != nil {
			return err
		}
	}
	return s.removeBlob(d)
}

// removeBlob needs the exclusive lock. The description goes last, so that an image always has one.
func (s *Store) removeBlob(d Digest) error {
	for _, path := range []string{s.home.blob(d), s.home.meta(d)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// GCResult says what [Store.GC] removed, or would remove.
type GCResult struct {
	Images    []Image // as they were chosen, with their tags
	Leftovers int     // files of writers that died
	Bytes     int64   // freed together
}

// Choose says which of the images of the home store go, given with their tags. It is called once, while nobody can store, hold or
// remove an image.
type Choose func(images []Image) (remove []Digest, err error)

// Untagged chooses the images without a tag.
func Untagged(images []Image) (remove []Digest, _ error) {
	for _, img := range images {
		if len(img.Tags) == 0 {
			remove = append(remove, img.Digest)
		}
	}
	return remove, nil
}

// GC removes from the home store the images that are chosen, and what writers that died left. With dryRun it only says
// what it would remove. Images being stored at the same time are safe; those that are held, or that a sandbox uses, stay whoever chooses them.
func (s *Store) GC(dryRun bool, choose Choose) (GCResult, error) {
	unlock, err := s.lock(exclusive)
	if err != nil {
		return GCResult{}, fmt.Errorf("collect garbage: %w", err)
	}
	defer unlock()
	result := GCResult{}
	if err := errors.Join(s.gcImages(&result, dryRun, choose), s.gcLeftovers(&result, dryRun)); err != nil {
		return result, fmt.Errorf("collect garbage: %w", err)
	}
	return result, nil
}

func (s *Store) gcImages(result *GCResult, dryRun bool, choose Choose) error {
	tags, err := tagsOf(s.home)
	if err != nil {
		return err
	}
	for tag, d := range tags {
		if d.IsZero() {
			return fmt.Errorf("tag %s: %w: remove it first, since nobody knows which image it keeps", tag, ErrCorrupt)
		}
	}
	images, err := s.blobs()
	if err != nil {
		return err
	}
	images = slices.DeleteFunc(images, func(img Image) bool { return img.System })
	for i := range images {
		for tag, d := range tags {
			if d == images[i].Digest {
				images[i].Tags = append(images[i].Tags, tag)
			}
		}
		slices.Sort(images[i].Tags)
	}
	remove, err := choose(images)
	if err != nil {
		return err
	}
	for _, img := range images {
		if !slices.Contains(remove, img.Digest) || s.checkHeld(img.Digest) != nil {
			continue
		}
		used, err := s.used(img)
		if err != nil {
			return err
		}
		if used {
			continue
		}
		result.Images = append(result.Images, img)
		result.Bytes += img.SizeBytes
		if dryRun {
			continue
		}
		if err := s.removeImage(img.Digest, img.Tags); err != nil {
			return err
		}
	}
	return nil
}

// used says whether a sandbox has an image open: see openBlob.
func (s *Store) used(img Image) (bool, error) {
	file, err := os.Open(s.home.blob(img.Digest))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close() // nothing was written
	if err := flock(file, try); errors.Is(err, errBusy) {
		return true, nil
	}
	return false, nil // it is free, or the file system has no locks
}

// leftoverAge is how old a temporary file without a lock of its own must be to count as left behind. Such files are
// written in one go, under the store's lock or in microseconds.
const leftoverAge = time.Hour

// gcLeftovers removes blobs that nobody writes any more, files that atomicfile had no time to rename, descriptions
// without an image, and digests remembered of system images that are gone.
func (s *Store) gcLeftovers(result *GCResult, dryRun bool) error {
	for _, name := range []string{"tmp", "blobs", "meta", "tags", "checked"} {
		entries, err := os.ReadDir(s.home.dir(name))
		if err != nil {
			return err
		}
		for _, entry := range entries {
			path := filepath.Join(s.home.dir(name), entry.Name())
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // stored or discarded meanwhile
			}
			if err != nil {
				return err
			}
			left, err := s.leftover(name, path, info)
			if err != nil {
				return err
			}
			if !left {
				continue
			}
			result.Leftovers++
			result.Bytes += info.Size()
			if dryRun {
				continue
			}
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) leftover(dir, path string, info fs.FileInfo) (bool, error) {
	name := filepath.Base(path)
	switch {
	case dir == "tmp":
		return abandoned(path)
	case strings.HasPrefix(name, "."):
		return time.Since(info.ModTime()) > leftoverAge, nil
	case dir == "meta" || dir == "checked":
		d, err := ParseDigest(digestPrefix + strings.TrimSuffix(name, ".json"))
		if err != nil {
			return false, nil // not ours
		}
		in := s.places()
		if dir == "meta" {
			in = []place{s.home}
		}
		return !slices.ContainsFunc(in, func(p place) bool {
			_, err := os.Lstat(p.blob(d))
			return err == nil
		}), nil
	}
	return false, nil
}

// sweep removes blobs that nobody writes any more. It needs the exclusive lock.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.home.dir("tmp"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(s.home.dir("tmp"), entry.Name())
		dead, err := abandoned(path)
		if err == nil && dead {
			err = os.Remove(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// abandoned reports whether nobody holds the lock of a blob being written.
func abandoned(path string) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // stored or discarded meanwhile
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	switch err := flock(file, try); {
	case errors.Is(err, errBusy):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

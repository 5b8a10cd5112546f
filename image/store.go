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

// Config says where images are kept. At least one of the directories must be given.
type Config struct {
	Home   string   // the user's own store, read and written; made when first written; empty means read-only use
	System string   // a store that is only read, such as /usr/share/silk/images; need not exist; empty means none
	More   []string // further stores like System, in the order in which they are looked up after it
}

// Store keeps images in a home directory and finds them there, then in system directories. It holds no state besides
// the files, so any number of processes may use the same directories at once, and one Store any number of goroutines.
//
// Without a home there is nowhere to remember that a system image was checked, so it is checked at each use.
//
// In each directory:
//
//	blobs/sha256-HEX.erofs  an image, mode 0444, never changed
//	meta/HEX.json           its description, see Meta
//	tags/TAG                the digest that a tag points to
//	tmp/                    blobs being written, each locked by its writer
//	held/HEX.NAME           home only: the image is held under this name, see Hold
//	checked/HEX             home only: this image of the system store had the right digest, see OpenRoot
//	lock                    held shared while something is added, exclusively while something is removed
type Store struct {
	home   place // empty if there is none
	system []place
}

// place is one of the directories of a store.
type place string

func (p place) blob(d Digest) string {
	return filepath.Join(string(p), "blobs", "sha256-"+d.hex+".erofs")
}
func (p place) meta(d Digest) string    { return filepath.Join(string(p), "meta", d.hex+".json") }
func (p place) tag(name string) string  { return filepath.Join(string(p), "tags", name) }
func (p place) checked(d Digest) string { return filepath.Join(string(p), "checked", d.hex) }
func (p place) dir(name string) string  { return filepath.Join(string(p), name) }

// Image is one stored image, found but not read: making one costs no more than a stat.
type Image struct {
	Digest    Digest
	Tags      []string // sorted; only [Store.List] and [Store.GC] fill it
	SizeBytes int64
	Stored    time.Time // when its file was written last; only [Store.List] and [Store.GC] fill it
	System    bool      // in a system store, so it cannot be removed

	place place
}

// Errors that callers branch on; they come wrapped in a sentence that says what to do.
var (
	ErrNotFound = errors.New("image not found")  // by Resolve and whatever takes a reference
	ErrCorrupt  = errors.New("image is damaged") // by OpenRoot, Verify and Tree
	ErrReadOnly = errors.New("image store is read-only")
)

// notFoundError is an ErrNotFound with advice.
type notFoundError struct{ ref string }

func (e *notFoundError) Error() string {
	if checkTag(e.ref) != nil {
		return fmt.Sprintf("image %s not found: silk image ls shows what there is", e.ref)
	}
	return fmt.Sprintf("image %s not found: run silk image build %s", e.ref, e.ref)
}

func (e *notFoundError) Is(target error) bool {
	return target == ErrNotFound || target == fs.ErrNotExist
}

// Open opens the stores. It reads nothing yet.
func Open(config Config) (*Store, error) {
	home, err := placeAt(config.Home)
	if err != nil {
		return nil, err
	}
	s := &Store{home: home}
	for _, dir := range slices.Concat([]string{config.System}, config.More) {
		p, err := placeAt(dir)
		if err != nil {
			return nil, err
		}
		if p != "" && !slices.Contains(s.places(), p) {
			s.system = append(s.system, p)
		}
	}
	if len(s.places()) == 0 {
		return nil, errors.New("open image store: neither a home nor a system directory is given")
	}
	return s, nil
}

func placeAt(dir string) (place, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("open image store: %w", err)
	}
	return place(abs), nil
}

// places lists the directories in the order of look-up.
func (s *Store) places() []place {
	if s.home == "" {
		return s.system
	}
	return slices.Concat([]place{s.home}, s.system)
}

// minPrefix is how many digits of a digest name an image.
const minPrefix = 12

// Resolve finds an image by tag, digest, or the first 12 or more digits of one ("sha256:" may be left out), in the
// home store, then in the system stores. ErrNotFound if there is none.
func (s *Store) Resolve(ref string) (Image, error) {
	if prefix := strings.TrimPrefix(ref, digestPrefix); len(prefix) >= minPrefix && len(prefix) <= 64 && isHex(prefix) {
		return s.resolvePrefix(ref, prefix)
	}
	if err := checkTag(ref); err != nil {
		return Image{}, fmt.Errorf("%w: %w", &notFoundError{ref}, err)
	}
	for _, p := range s.places() {
		d, err := readTag(p, ref)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Image{}, err
		}
		img, err := s.find(d)
		if errors.Is(err, fs.ErrNotExist) {
			return Image{}, fmt.Errorf("tag %s points to %s: %w", ref, d.Short(), &notFoundError{ref})
		}
		return img, err
	}
	return Image{}, &notFoundError{ref}
}

func (s *Store) resolvePrefix(ref, prefix string) (Image, error) {
	if d, err := ParseDigest(digestPrefix + prefix); err == nil {
		img, err := s.find(d)
		if errors.Is(err, fs.ErrNotExist) {
			err = &notFoundError{ref}
		}
		return img, err
	}
	images, err := s.blobs()
	if err != nil {
		return Image{}, err
	}
	images = slices.DeleteFunc(images, func(img Image) bool { return !strings.HasPrefix(img.Digest.hex, prefix) })
	switch len(images) {
	case 0:
		return Image{}, &notFoundError{ref}
	case 1:
		return images[0], nil
	default:
		return Image{}, fmt.Errorf("image %s: %d images begin like that; write more digits", ref, len(images))
	}
}

// find looks for a blob; fs.ErrNotExist if there is none.
func (s *Store) find(d Digest) (Image, error) {
	for _, p := range s.places() {
		info, err := os.Lstat(p.blob(d))
		switch {
		case err == nil:
			return Image{Digest: d, SizeBytes: info.Size(), System: p != s.home, place: p}, nil
		case !errors.Is(err, fs.ErrNotExist):
			return Image{}, fmt.Errorf("find image %s: %w", d.Short(), err)
		}
	}
	return Image{}, fmt.Errorf("find image %s: %w", d.Short(), fs.ErrNotExist)
}

// blobs lists the images of all places, those of the home first, each digest once.
func (s *Store) blobs() ([]Image, error) {
	var images []Image
	seen := map[Digest]bool{}
	for _, p := range s.places() {
		entries, err := readDir(p.dir("blobs"))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			hexed, ok := strings.CutPrefix(strings.TrimSuffix(entry.Name(), ".erofs"), "sha256-")
			d, err := ParseDigest(digestPrefix + hexed)
			if !ok || err != nil || seen[d] {
				continue
			}
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, fmt.Errorf("list images: %w", err)
			}
			seen[d] = true
			images = append(images, Image{Digest: d, SizeBytes: info.Size(), Stored: info.ModTime(), System: p != s.home, place: p})
		}
	}
	return images, nil
}

// List returns all images with their tags, sorted by first tag, then digest; untagged ones come last.
func (s *Store) List() ([]Image, error) {
	images, err := s.blobs()
	if err != nil {
		return nil, err
	}
	tags := map[Digest][]string{}
	seen := map[string]bool{}
	for _, p := range s.places() {
		here, err := tagsOf(p)
		if err != nil {
			return nil, err
		}
		for tag, d := range here {
			if !seen[tag] {
				tags[d] = append(tags[d], tag)
			}
			seen[tag] = true
		}
	}
	for i := range images {
		images[i].Tags = tags[images[i].Digest]
		slices.Sort(images[i].Tags)
	}
	slices.SortFunc(images, func(a, b Image) int {
		if (len(a.Tags) == 0) != (len(b.Tags) == 0) {
			return len(b.Tags) - len(a.Tags)
		}
		if len(a.Tags) > 0 {
			return strings.Compare(a.Tags[0], b.Tags[0])
		}
		return strings.Compare(a.Digest.hex, b.Digest.hex)
	})
	return images, nil
}

// readDir is os.ReadDir for a directory that need not exist, without the temporary files of other writers.
func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }), nil
}

package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

const tagBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"

// checkTag says why a text cannot be a tag. A tag is a file name, and never looks like a digest.
func checkTag(tag string) error {
	switch {
	case tag == "" || len(tag) > 128 || strings.Trim(tag, tagBytes) != "" || strings.ContainsAny(tag[:1], "._:-"):
		return fmt.Errorf("tag %.140q: want 1 to 128 of A-Z a-z 0-9 . _ : - beginning with a letter or digit", tag)
	case strings.HasPrefix(tag, digestPrefix) || len(tag) >= minPrefix && isHex(tag):
		return fmt.Errorf("tag %q: looks like a digest", tag)
	}
	return nil
}

// Tag gives an image another name. A tag that is there is moved, and its image stays, as long as it has another or nobody collects garbage.
func (s *Store) Tag(ref, tag string) error {
	if err := checkTag(tag); err != nil {
		return fmt.Errorf("tag image: %w", err)
	}
	unlock, err := s.lock(shared)
	if err != nil {
		return fmt.Errorf("tag image: %w", err)
	}
	defer unlock()
	img, err := s.Resolve(ref)
	if err == nil {
		err = s.writeTag(tag, img.Digest)
	}
	if err != nil {
		return fmt.Errorf("tag image: %w", err)
	}
	return nil
}

// writeTag needs the lock.
func (s *Store) writeTag(tag string, d Digest) error {
	return atomicfile.Write(s.home.tag(tag), []byte(d.String()+"\n"), 0o644)
}

func readTag(p place, tag string) (Digest, error) {
	text, err := os.ReadFile(p.tag(tag))
	if err != nil {
		return Digest{}, fmt.Errorf("read tag: %w", err)
	}
	d, err := ParseDigest(strings.TrimSuffix(string(text), "\n"))
	if err != nil {
		return Digest{}, fmt.Errorf("read tag %s: %w: %w", tag, ErrCorrupt, err)
	}
	return d, nil
}

// tagsOf reads all tags of a place. A damaged one has the zero digest.
func tagsOf(p place) (map[string]Digest, error) {
	entries, err := readDir(p.dir("tags"))
	if err != nil {
		return nil, err
	}
	tags := map[string]Digest{}
	for _, entry := range entries {
		d, err := readTag(p, entry.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return nil, err
		}
		tags[entry.Name()] = d
	}
	return tags, nil
}

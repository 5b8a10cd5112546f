package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// Put stores what content writes under its digest, with meta as its description and tags pointing to it. Schema,
// digest, size and, if zero, the creation time of meta are filled in. content is usually [Tree.WriteEROFS].
//
// On error, a full disk or the end of ctx included, nothing is left. Putting an image that is there replaces file and
// description by equal ones, which heals a damaged file; two processes may do so at once.
func (s *Store) Put(ctx context.Context, content func(io.Writer) error, meta Meta, tags ...string) (_ Image, err error) {
	for _, tag := range tags {
		if err := checkTag(tag); err != nil {
			return Image{}, fmt.Errorf("store image: %w", err)
		}
	}
	tmp, err := s.createTemp()
	if err != nil {
		return Image{}, fmt.Errorf("store image: %w", err)
	}
	defer func() {
		err = errors.Join(err, tmp.discard())
	}()
	digest, size, err := tmp.fill(ctx, content)
	if err != nil {
		return Image{}, fmt.Errorf("store image: %w", err)
	}

	unlock, err := s.lock(shared)
	if err != nil {
		return Image{}, fmt.Errorf("store image: %w", err)
	}
	defer unlock()
	meta.Schema, meta.Digest, meta.SizeBytes = MetaSchema, digest, size
	if meta.Created.IsZero() {
		meta.Created = time.Now().UTC().Truncate(time.Second)
	}
	if err := s.writeMeta(meta); err != nil {
		return Image{}, fmt.Errorf("store image: %w", err)
	}
	if err := tmp.rename(s.home.blob(digest)); err != nil { // from here on the image exists
		return Image{}, fmt.Errorf("store image: %w", err)
	}
	for _, tag := range tags {
		if err := s.writeTag(tag, digest); err != nil {
			return Image{}, fmt.Errorf("store image: %w", err)
		}
	}
	return Image{Digest: digest, SizeBytes: size, place: s.home}, nil
}

// tempBlob is a blob being written. Its lock, which ends with its process, tells GC that it is alive.
type tempBlob struct {
	file *os.File
	name string // empty once it is renamed
}

// createTemp makes one, and removes those of writers that died, which may be as large as the room that is missing.
func (s *Store) createTemp() (*tempBlob, error) {
	unlock, err := s.lock(exclusive) // nobody's sweep may come between creation and lock
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.sweep(); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(s.home.dir("tmp"), "blob-*")
	if err != nil {
		return nil, err
	}
	tmp := &tempBlob{file, file.Name()}
	if err := flock(file, exclusive); err != nil {
		return nil, errors.Join(err, tmp.discard())
	}
	return tmp, nil
}

// fill writes the blob and makes it durable, and says what it became.
func (b *tempBlob) fill(ctx context.Context, content func(io.Writer) error) (Digest, int64, error) {
	hash := sha256.New()
	if err := content(&contextWriter{ctx, io.MultiWriter(b.file, hash)}); err != nil {
		return Digest{}, 0, err
	}
	if err := ctx.Err(); err != nil {
		return Digest{}, 0, context.Cause(ctx)
	}
	info, err := b.file.Stat()
	if err != nil {
		return Digest{}, 0, err
	}
	super, err := readSuper(b.file)
	if err != nil {
		return Digest{}, 0, err
	}
	if super.sizeBytes != info.Size() {
		return Digest{}, 0, fmt.Errorf("its superblock says %d bytes, there are %d", super.sizeBytes, info.Size())
	}
	if err := b.file.Chmod(0o444); err != nil {
		return Digest{}, 0, err
	}
	if err := b.file.Sync(); err != nil {
		return Digest{}, 0, err
	}
	return digestOf(hash.Sum(nil)), info.Size(), nil
}

// rename gives the blob its place, durably.
func (b *tempBlob) rename(to string) error {
	if err := os.Rename(b.name, to); err != nil {
		return err
	}
	b.name = ""
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// discard closes the file, and removes it unless it was renamed.
func (b *tempBlob) discard() error {
	err := b.file.Close()
	if b.name != "" {
		err = errors.Join(err, os.Remove(b.name))
	}
	return err
}

// contextWriter stops writing when ctx ends.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (w *contextWriter) Write(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.w.Write(p)
}

// Meta reads the description of an image.
func (s *Store) Meta(img Image) (Meta, error) {
	data, err := os.ReadFile(img.place.meta(img.Digest))
	if err != nil {
		return Meta{}, fmt.Errorf("describe image %s: %w", img.Digest.Short(), err)
	}
	var meta Meta
	if err := json.Unmarshal(data, &meta); err != nil {
		return Meta{}, fmt.Errorf("describe image %s: %w: %w", img.Digest.Short(), ErrCorrupt, err)
	}
	if meta.Schema != MetaSchema || meta.Digest != img.Digest {
		return Meta{}, fmt.Errorf("describe image %s: %w: its description is %q of %s", img.Digest.Short(), ErrCorrupt,
			meta.Schema, meta.Digest.Short())
	}
	return meta, nil
}

// writeMeta needs the lock. An image that is described with its packages keeps that description when the same bytes
// come in again by a way, such as an import, that knows none.
func (s *Store) writeMeta(meta Meta) error {
	old, err := s.Meta(Image{Digest: meta.Digest, place: s.home})
	if err == nil && len(old.Packages) > 0 && len(meta.Packages) == 0 {
		return nil
	}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(meta); err != nil {
		return err
	}
	return atomicfile.Write(s.home.meta(meta.Digest), data.Bytes(), 0o644)
}

// prepare makes the directories of the home store. Whatever the umask, others may read them, so that ordinary users
// run what root built; who wants privacy has it from the directories above.
func (s *Store) prepare() error {
	if s.home == "" {
		return ErrReadOnly
	}
	err := os.MkdirAll(filepath.Dir(string(s.home)), 0o755)
	for _, name := range []string{"", "blobs", "meta", "tags", "tmp", "held", "checked"} {
		if err == nil {
			err = makeReadable(s.home.dir(name))
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return err
}

func makeReadable(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

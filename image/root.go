package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// OpenRoot opens an image's EROFS file, read-only, for a sandbox to use; the caller closes it. ErrCorrupt if the file
// cannot be what was stored.
//
// It takes well under a millisecond, so it reads no content: the file must be regular, as large as its superblock
// says, owned by root or the caller, and writable by nobody else. What is in the home store had its digest when it
// was stored. What is in the system store may have been installed in any way: its digest is computed when an image is
// first used, and remembered in the home store until the file changes.
func (s *Store) OpenRoot(img Image) (*os.File, error) {
	file, info, err := openBlob(img)
	if err != nil {
		return nil, err
	}
	if err := s.admit(img, file, info); err != nil {
		return nil, errors.Join(fmt.Errorf("open image %s: %w", img.Digest.Short(), err), file.Close())
	}
	return file, nil
}

func (s *Store) admit(img Image, file *os.File, info fs.FileInfo) error {
	if err := checkOwner(info); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !img.System {
		return nil
	}
	id, err := identity(info)
	if err != nil {
		return err
	}
	if s.home != "" {
		if known, err := os.ReadFile(s.home.checked(img.Digest)); err == nil && string(known) == id {
			return nil
		}
	}
	if err := checkDigest(context.Background(), img, file, nil); err != nil {
		return err
	}
	if s.prepare() == nil {
		_ = atomicfile.Write(s.home.checked(img.Digest), []byte(id), 0o644) // else it is computed again next time
	}
	return nil
}

// openBlob opens the file of an image and checks that it is a whole one.
func openBlob(img Image) (_ *os.File, _ fs.FileInfo, err error) {
	path := img.place.blob(img.Digest)
	defer func() {
		if err != nil {
			err = fmt.Errorf("open image %s: %w", img.Digest.Short(), err)
		}
	}()
	before, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &notFoundError{img.Digest.String()}
	}
	if err != nil {
		return nil, nil, err
	}
	if !before.Mode().IsRegular() { // a fifo would block the open, a link would lead away
		return nil, nil, fmt.Errorf("%w: it is no regular file (%v)", ErrCorrupt, before.Mode().Type())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := wholeBlob(file, before)
	if err == nil {
		err = use(file, path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// use locks a blob for as long as anybody has this descriptor of it, a sandbox included, so that GC leaves it: [Store.GC].
func use(file *os.File, path string) error {
	_ = flock(file, shared) // else its file system has no locks, or GC is removing it
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return &notFoundError{filepath.Base(path)}
	}
	return nil
}

func wholeBlob(file *os.File, before fs.FileInfo) (fs.FileInfo, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, info) {
		return nil, fmt.Errorf("%w: it was replaced while it was opened", ErrCorrupt)
	}
	super, err := readSuper(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if super.sizeBytes != info.Size() {
		return nil, fmt.Errorf("%w: %d bytes, its superblock says %d", ErrCorrupt, info.Size(), super.sizeBytes)
	}
	return info, nil
}

// checkDigest reads all of r.
func checkDigest(ctx context.Context, img Image, r io.ReaderAt, progress Progress) error {
	hash := sha256.New()
	done := int64(0)
	section := io.NewSectionReader(r, 0, img.SizeBytes)
	buffer := make([]byte, 1<<20)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := section.Read(buffer)
		hash.Write(buffer[:n])
		done += int64(n)
		progress.report(done, img.SizeBytes, "digest of "+img.Digest.Short())
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if got := digestOf(hash.Sum(nil)); got != img.Digest {
		return fmt.Errorf("%w: its digest is %s, not %s; remove and rebuild it", ErrCorrupt, got.Short(), img.Digest.Short())
	}
	return nil
}

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/lockfile"
)

// imports knows which image of the engine is made of which file: a file below dir for each, with the engine's id, which is a digest of all
// that is in its image. An image is either ours or has another id, whatever its tag says; containers are made by id, and a tag is
// only for people.
type imports struct{ dir string }

// imageOf is the id of the engine's image of a root file system. If the engine does not have it, it is loaded, by one silk at a
// time.
func (d *Driver) imageOf(ctx context.Context, root *os.File) (id string, err error) {
	file, err := identityOf(root)
	if err != nil {
		return "", err
	}
	note := filepath.Join(d.images.dir, file)
	if id, err := d.known(ctx, note); id != "" || err != nil {
		return id, err
	}
	if err := os.MkdirAll(d.images.dir, 0o700); err != nil {
		return "", fmt.Errorf("note which image of the engine it is: %w", err)
	}
	lock, err := lockfile.Directory(ctx, d.images.dir)
	if err != nil {
		return "", fmt.Errorf("wait until another image is loaded into the engine: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Leave()) }()
	if id, err := d.known(ctx, note); id != "" || err != nil {
		return id, err
	}
	if id, err = d.load(ctx, root); err != nil {
		return "", err
	}
	return id, atomicfile.Write(note, []byte(id), 0o600)
}

// known is what a note says, if the engine has that image.
func (d *Driver) known(ctx context.Context, note string) (string, error) {
	id, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read which image of the engine it is: %w", err)
	}
	there, err := d.engine.hasImage(ctx, string(id))
	if !there {
		return "", err
	}
	return string(id), err
}

// load lets the engine have an image, as an archive without a registry: the bytes go from the file through a pipe into the engine.
func (d *Driver) load(ctx context.Context, root *os.File) (string, error) {
	r, w := io.Pipe()
	type made struct {
		id  image.Digest
		err error
	}
	done := make(chan made, 1)
	go func() {
		id, err := image.Archive(ctx, root, "silk", w)
		w.CloseWithError(err)
		done <- made{id, err}
	}()
	err := d.engine.load(ctx, r)
	r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // the engine may have answered before it has read to the end
	m := <-done
	if err != nil {
		return "", fmt.Errorf("load image into the engine: %w", err)
	}
	if m.err != nil {
		return "", m.err
	}
	id := m.id.String()
	there, err := d.engine.hasImage(ctx, id)
	if err == nil && !there {
		err = fmt.Errorf("load image into the engine: it does not have %s afterwards", id)
	}
	return id, err
}

// identityOf names a file and what is in it, as long as nobody writes to it: image files are never changed, and a new one of the
// same name has another change time.
func identityOf(f *os.File) (string, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return "", fmt.Errorf("identify image: %w", err)
	}
	return fmt.Sprintf("%x-%x-%x-%x.%x", s.Dev, s.Ino, s.Size, s.Ctim.Sec, s.Ctim.Nsec), nil
}

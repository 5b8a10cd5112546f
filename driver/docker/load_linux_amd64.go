package docker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// imports knows which image of the engine is made of which file. The engine's id is a digest of all that is in its image, so that an
// image is either ours or has another id, whatever its tag says; containers are made by id, and a tag is only for people.
type imports struct {
	dir string
	mu  sync.Mutex
	one map[string]*sync.Mutex // by file
}

// imageOf is the id of the engine's image of a root file system. If the engine does not have it, it is loaded.
func (d *Driver) imageOf(ctx context.Context, root *os.File) (id string, err error) {
	file, err := identityOf(root)
	if err != nil {
		return "", err
	}
	lock := d.images.lock(file)
	lock.Lock()
	defer lock.Unlock()
	note := filepath.Join(d.images.dir, file)
	if known, err := os.ReadFile(note); err == nil {
		there, err := d.engine.hasImage(ctx, string(known))
		if there || err != nil {
			return string(known), err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read which image of the engine it is: %w", err)
	}
	if id, err = d.load(ctx, root); err != nil {
		return "", err
	}
	if err := os.MkdirAll(d.images.dir, 0o700); err != nil {
		return "", fmt.Errorf("note which image of the engine it is: %w", err)
	}
	return id, atomicfile.Write(note, []byte(id), 0o600)
}

// load lets the engine have an image, as an archive without a registry: the bytes go from the file through a pipe into the engine.
func (d *Driver) load(ctx context.Context, root *os.File) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(root, 0, 1<<62)); err != nil {
		return "", fmt.Errorf("read image: %w", err)
	}
	tag := fmt.Sprintf("silk:%x", hash.Sum(nil)[:12])
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, w := io.Pipe()
	type made struct {
		id  image.Digest
		err error
	}
	done := make(chan made, 1)
	go func() {
		id, err := image.Archive(ctx, root, tag, w)
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

func (i *imports) lock(file string) *sync.Mutex {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.one == nil {
		i.one = map[string]*sync.Mutex{}
	}
	if i.one[file] == nil {
		i.one[file] = &sync.Mutex{}
	}
	return i.one[file]
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

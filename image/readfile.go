package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/erofs/go-erofs"
)

// ReadFile reads a file of the root file system that root has (see [Store.OpenRoot]), by its absolute name, following links inside of it. An error that is
// fs.ErrNotExist means that there is no such file; one of more than most bytes is an error.
func ReadFile(root *os.File, name string, most int64) ([]byte, error) {
	content, err := readFrom(root, name, most)
	if err != nil {
		return nil, fmt.Errorf("read %s of an image: %w", name, err)
	}
	return content, nil
}

func readFrom(root *os.File, name string, most int64) (content []byte, err error) {
	image, err := erofs.Open(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	f, err := image.Open(strings.TrimPrefix(name, "/"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("it is a %v: %w", info.Mode().Type(), fs.ErrInvalid)
	case info.Size() > most:
		return nil, fmt.Errorf("it has %d bytes, more than %d", info.Size(), most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

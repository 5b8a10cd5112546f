//go:build !linux

package pipe

import (
	"errors"
	"fmt"
	"io"
	"os"
)

func grow(*os.File, int) {}

// Interruptible is not supported here.
func Interruptible(*os.File) (r io.Reader, stop func(), err error) {
	return nil, nil, fmt.Errorf("read interruptibly: %w", errors.ErrUnsupported)
}

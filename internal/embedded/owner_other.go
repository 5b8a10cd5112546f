//go:build !linux

package embedded

import (
	"errors"
	"fmt"
	"io/fs"
)

func checkOwner(fs.FileInfo) error {
	return fmt.Errorf("run it on this system: %w", errors.ErrUnsupported)
}

//go:build !linux

package sentrybin

import (
	"errors"
	"fmt"
	"io/fs"
)

func checkOwner(string, fs.FileInfo) error {
	return fmt.Errorf("run a sandbox on this system: %w", errors.ErrUnsupported)
}

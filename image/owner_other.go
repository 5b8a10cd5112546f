//go:build !linux

package image

import (
	"errors"
	"fmt"
	"io/fs"
)

func checkOwner(fs.FileInfo) error { return fmt.Errorf("check owner: %w", errors.ErrUnsupported) }

func identity(fs.FileInfo) (string, error) {
	return "", fmt.Errorf("identify file: %w", errors.ErrUnsupported)
}

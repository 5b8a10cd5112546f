//go:build !linux

package rootfs

import (
	"context"
	"errors"
	"fmt"
)

// Key is what an image of a root directory is found by.
type Key struct {
	ID     string
	Layers []string
}

func keyOf(context.Context, string, User) (Key, error) {
	return Key{}, fmt.Errorf("identify a root directory: %w", errors.ErrUnsupported)
}

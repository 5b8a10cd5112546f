//go:build !unix

package lockfile

import (
	"errors"
	"fmt"
)

// Lock is a locked file.
type Lock struct{}

// Create is not supported here.
func Create(path string) (*Lock, error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}

// Remove does nothing.
func (l *Lock) Remove() error { return nil }

// Leave does nothing.
func (l *Lock) Leave() error { return nil }

// Held is not supported here.
func Held(path string) (bool, error) {
	return true, fmt.Errorf("look at lock %s: %w", path, errors.ErrUnsupported)
}

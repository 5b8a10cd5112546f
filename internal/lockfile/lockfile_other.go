//go:build !unix

package lockfile

import (
	"context"
	"errors"
	"fmt"
)

// Lock is a locked file.
type Lock struct{}

// Create makes nothing: no sandbox runs on such a system, so there is no death to be noticed.
func Create(string) (*Lock, error) { return &Lock{}, nil }

// Take is not supported here.
func Take(path string) (*Lock, error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}

// Directory is not supported here.
func Directory(_ context.Context, dir string) (*Lock, error) {
	return nil, fmt.Errorf("lock %s: %w", dir, errors.ErrUnsupported)
}

// Remove does nothing.
func (l *Lock) Remove() error { return nil }

// Leave does nothing.
func (l *Lock) Leave() error { return nil }

// Held is not supported here.
func Held(path string) (bool, error) {
	return true, fmt.Errorf("look at lock %s: %w", path, errors.ErrUnsupported)
}

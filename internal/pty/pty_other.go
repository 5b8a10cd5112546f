//go:build !linux

package pty

import (
	"errors"
	"fmt"
	"os"
)

// Open is not supported here.
func Open() (main, replica *os.File, err error) {
	return nil, nil, fmt.Errorf("open pseudo-terminal: %w", errors.ErrUnsupported)
}

// Resize is not supported here.
func Resize(side *os.File, columns, rows uint16) error {
	return fmt.Errorf("set terminal size: %w", errors.ErrUnsupported)
}

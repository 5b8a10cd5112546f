//go:build !linux || !amd64

package kvm

import (
	"errors"
	"fmt"
	"time"
)

// Probe returns [ErrUnusable].
func Probe(time.Duration) error { return fmt.Errorf("%w: %w", ErrUnusable, errors.ErrUnsupported) }

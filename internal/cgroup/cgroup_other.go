//go:build !linux

package cgroup

import (
	"context"
	"errors"
	"fmt"
)

// Root is where groups are made; on this system there is none.
type Root struct{ Version int }

// Group is one control group.
type Group struct{}

// Find returns [ErrUnavailable].
func Find() (*Root, error) { return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.ErrUnsupported) }

// Leftovers finds nothing.
func (*Root) Leftovers() ([]string, error) { return nil, nil }

// Sweep does nothing.
func (*Root) Sweep(context.Context) error { return nil }

// Named is a group whose path somebody else chose.
type Named struct{}

// MakeNamed returns [ErrUnavailable].
func MakeNamed(string) (*Named, error) {
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.ErrUnsupported)
}

// FindNamed returns [ErrUnavailable].
func FindNamed(string) (*Named, error) { return MakeNamed("") }

// Processes finds none.
func (*Named) Processes() ([]int, error) { return nil, nil }

// Remove does nothing.
func (*Named) Remove(context.Context) error { return nil }

// Within returns [ErrUnavailable].
func Within(string) (*Root, error) { return Find() }

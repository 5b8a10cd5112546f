//go:build !linux

package detach

import (
	"context"
	"errors"
	"fmt"
)

var errUnsupported = fmt.Errorf("watch a process: %w", errors.ErrUnsupported)

// Network is not supported here.
func Network() error { return errUnsupported }

// Gone is not supported here.
func Gone(context.Context, int) error { return errUnsupported }

// Kill is not supported here.
func Kill(int, func() bool) error { return errUnsupported }

//go:build !linux || !amd64

package docker

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/silk-sandbox/silk/driver"
)

type imports struct{}

// New returns [ErrUnusable].
func New(Config) (*Driver, error) { return nil, fmt.Errorf("%w: %w", ErrUnusable, unsupported()) }

func unsupported() error {
	return fmt.Errorf("sandboxes need Linux on amd64, this is %s on %s: %w", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
}

func (*Driver) start(context.Context, driver.Spec) (driver.Sandbox, error) { return nil, unsupported() }
func (*Driver) usable(driver.Spec) error                                   { return unsupported() }

func (*Silk) start(context.Context, driver.Spec) (driver.Sandbox, error) { return nil, unsupported() }

// Close does nothing.
func (*Driver) Close() error { return nil }

// Sweep does nothing.
func (*Driver) Sweep(context.Context) error { return nil }

// Leftovers finds nothing.
func (*Driver) Leftovers() ([]string, error) { return nil, nil }

// Called finds that nobody has called.
func Called(string, string) (int, error) { return -1, nil }

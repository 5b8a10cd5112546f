//go:build !linux || !amd64

package firecracker

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/silk-sandbox/silk/driver"
)

type host struct{}

func qemuHost(Config) host   { return host{} }
func jailedHost(Config) host { return host{} }

func unsupported() error {
	return fmt.Errorf("%w: sandboxes need Linux on amd64, this is %s on %s: %w", ErrUnusable, runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
}

func (*Driver) start(context.Context, driver.Spec) (driver.Sandbox, error) { return nil, unsupported() }

// Probe returns [ErrUnusable].
func (*Driver) Probe(context.Context, driver.Spec) ([]string, error) { return nil, unsupported() }

// Usable returns [ErrUnusable].
func (*Driver) Usable() error { return unsupported() }

// Leftovers finds nothing.
func (*Driver) Leftovers() ([]string, error) { return nil, nil }

// Sweep does nothing.
func (*Driver) Sweep(context.Context) error { return nil }

//go:build !linux || !amd64

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/silk-sandbox/silk/driver"
)

type host struct{}

func supported() error {
	return fmt.Errorf("sandboxes need Linux on amd64, this is %s on %s: %w", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
}

func openHost(string, func(int, string) (Scope, error)) (host, error) { return host{}, supported() }

func (*Driver) start(context.Context, driver.Spec) (driver.Sandbox, error) { return nil, supported() }

// Close releases what the driver holds.
func (*Driver) Close() error { return nil }

// Prepare starts a sandbox kernel ahead of a run.
func (*Driver) Prepare(context.Context) (release func()) { return func() {} }

// KeepReady starts sandbox kernels ahead of runs.
func (*Driver) KeepReady() {}

// Leftovers names what Sweep would remove.
func (*Driver) Leftovers() ([]string, error) { return nil, supported() }

// Sweep removes what a crashed silk left behind.
func (*Driver) Sweep(context.Context) error { return supported() }

//go:build !linux

package testenv

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
)

func probeNow(need Need) error {
	return fmt.Errorf("%s on %s: %w", need, runtime.GOOS, errors.ErrUnsupported)
}

// NoLeaks checks nothing on this system: what it compares is Linux's.
func NoLeaks(t testing.TB) { t.Helper() }

//go:build !linux || !amd64

package bpf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/silk-sandbox/silk/watch"
)

// Watcher exists on Linux on amd64 only.
type Watcher struct{}

// Scope exists on Linux on amd64 only.
type Scope struct{}

func unsupported() error {
	return fmt.Errorf("%w: %s on %s: %w", ErrUnavailable, runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
}

// Open returns [ErrUnavailable].
func Open(context.Context, Config) (*Watcher, error) { return nil, unsupported() }

// Permitted says no.
func Permitted() Check { return Probe()[0] }

// Probe says no.
func Probe() Report { return Report{{Name: "bpf", Answer: No, Reason: unsupported().Error()}} }

// Watch returns [ErrUnavailable].
func (*Watcher) Watch(int, string) (*Scope, error) { return nil, unsupported() }

// Guest returns [ErrUnavailable].
func (*Watcher) Guest(context.Context, int, io.Writer) (*Scope, error) { return nil, unsupported() }

// Check returns [ErrUnavailable].
func (*Watcher) Check() error { return unsupported() }

// Done returns nil.
func (*Watcher) Done() <-chan struct{} { return nil }

// Err returns [ErrUnavailable].
func (*Watcher) Err() error { return unsupported() }

// Close does nothing.
func (*Watcher) Close() error { return nil }

// Arm returns [ErrUnavailable].
func (*Scope) Arm() error { return unsupported() }

// Events returns nil.
func (*Scope) Events() <-chan watch.Event { return nil }

// Lost returns nil.
func (*Scope) Lost() <-chan struct{} { return nil }

// Alarms returns [ErrUnavailable].
func (*Scope) Alarms() (uint64, watch.Event, error) { return 0, watch.Event{}, unsupported() }

// Counts returns [ErrUnavailable].
func (*Scope) Counts() (Counts, error) { return Counts{}, unsupported() }

// Processes returns [ErrUnavailable].
func (*Scope) Processes() ([]int, error) { return nil, unsupported() }

// Cgroup returns "".
func (*Scope) Cgroup() string { return "" }

// Kill returns [ErrUnavailable].
func (*Scope) Kill(context.Context) error { return unsupported() }

// Close does nothing.
func (*Scope) Close() error { return nil }

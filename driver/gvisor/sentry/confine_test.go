package sentry

import "testing"

// TestUnconfinedIsRefused: a test has what no stage leaves, /proc for one.
func TestUnconfinedIsRefused(t *testing.T) {
	if err := checkConfined(); err == nil {
		t.Error("a process that no stage has confined may become a Sentry")
	}
}

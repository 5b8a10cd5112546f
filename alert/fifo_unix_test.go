//go:build unix

package alert

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A fifo would hold the end of a run until somebody reads it.
func TestFifoIsRefused(t *testing.T) {
	name := filepath.Join(private(t), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sinks(t, Config{Files: []string{name}}).Raise(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("as a file: %v", err)
	}
	hook := Webhook{URL: "http://127.0.0.1:1", SecretFile: name}
	if err := sinks(t, Config{Webhooks: []Webhook{hook}}).Raise(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), "only its owner may read") {
		t.Errorf("as a secret: %v", err)
	}
}

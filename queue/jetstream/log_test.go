package jetstream

import (
	"log/slog"
	"testing"
)

// testLog shows what goes wrong beside the test that it belongs to.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

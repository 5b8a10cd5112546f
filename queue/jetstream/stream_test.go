package jetstream

import (
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/queuetest"
)

func start(t *testing.T, dir string) *Stream {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir, Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStream(t *testing.T) {
	testenv.NoLeaks(t)
	queuetest.TestStream(t, func(t *testing.T) queue.Stream { return start(t, filepath.Join(t.TempDir(), "stream")) })
}

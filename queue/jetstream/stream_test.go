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

func publish(t *testing.T, s *Stream, token string, runs ...string) {
	t.Helper()
	for _, run := range runs {
		if err := s.Publish(t.Context(), token, run); err != nil {
			t.Fatal(err)
		}
	}
}

func list(t *testing.T, s *Stream) map[string]string {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

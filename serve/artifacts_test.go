package serve

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// What is old is looked for at once and then every hour, also after it could not be removed.
func TestClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		var at []time.Duration
		s := &Server{cfg: Config{Logger: slog.New(slog.DiscardHandler), Keep: func(context.Context) error {
			if at = append(at, time.Since(began)); len(at) == 3 {
				stop()
			}
			return errors.New("no")
		}}}
		if err := s.Clean(ctx); err != nil {
			t.Error(err)
		}
		if len(at) != 3 || at[0] != 0 || at[1] != time.Hour || at[2] != 2*time.Hour {
			t.Errorf("asked after %v", at)
		}
	})
	if err := (&Server{}).Clean(t.Context()); err != nil {
		t.Errorf("without anything to do: %v", err)
	}
}

package handoff

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/webhook"
)

// sink is a Sink that is used.
type sink struct {
	Sink

	hook *webhook.Hook // nil: a vault
}

func newSink(s Sink) (sink, error) {
	if err := s.Check(); err != nil {
		return sink{}, err
	}
	if s.Vault != "" {
		return sink{Sink: s}, nil
	}
	hook, err := webhook.New(s.hook())
	if err != nil {
		return sink{}, fmt.Errorf("sink %q: %w", s.Name, err)
	}
	return sink{s, hook}, nil
}

func (s sink) takes(receiver string) bool {
	return len(s.Receivers) == 0 || slices.Contains(s.Receivers, receiver)
}

// timeout bounds one attempt.
func (s sink) timeout() time.Duration { return cmp.Or(s.Timeout, webhook.DefaultTimeout) }

// send makes one attempt.
func (s sink) send(ctx context.Context, c api.HandoffContent, text []byte) error {
	if s.hook == nil {
		return writeNote(s.Vault, c)
	}
	_, err := s.hook.Post(ctx, "handoff_"+c.ID, text) // it is tried again whatever the server said: somebody may put that right
	return err
}

package handoff

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/silk-sandbox/silk/internal/webhook"
)

// Reach says what keeps s from taking hand-offs now: a vault must be a directory that can be written to, a webhook must have its secret
// and be there. Nothing is sent, and nothing stays in the vault.
func (s Sink) Reach(ctx context.Context) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	if s.URL != "" {
		h, err := webhook.New(s.hook())
		if err != nil {
			return err
		}
		return h.Reach(ctx)
	}
	f, err := os.CreateTemp(s.Vault, ".silk-doctor-")
	if err != nil {
		return fmt.Errorf("write to the vault: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

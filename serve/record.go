package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/replay"
)

// Envelope is the signed record of a run that has ended, for whoever may see the record. What the host's own faults say is for owners,
// and there is no signature of a record without it: others get ErrState then.
func (s *Server) Envelope(ctx context.Context, id auth.Identity, runID string) ([]byte, error) {
	entry, err := s.Record(ctx, id, runID)
	if err != nil {
		return nil, err
	}
	if Public(entry.Record).Outcome.Message != entry.Record.Outcome.Message && id.Role != auth.Owner {
		return nil, fmt.Errorf("%w: its signed record says what has failed on the host, which only owners read", ErrState)
	}
	text, err := record.Envelope(ctx, s.cfg.DB, runID)
	if errors.Is(err, record.ErrUnsigned) {
		err = fmt.Errorf("%w: %w", ErrState, err)
	}
	return text, err
}

// Bundle is a run that has ended in one file, as silk record export writes it, but for what its image is made of: a server that has no part
// in building images does not say. It has what went into the run, so that only its own token and owners get it.
func (s *Server) Bundle(ctx context.Context, id auth.Identity, runID string) (replay.Bundle, error) {
	if id.Role == auth.Viewer {
		return replay.Bundle{}, auth.ErrForbidden
	}
	envelope, err := s.Envelope(ctx, id, runID)
	if err != nil {
		return replay.Bundle{}, err
	}
	if err := s.outputHere(ctx, runID, "stdout"); err != nil {
		return replay.Bundle{}, err
	}
	b, _, err := replay.Collect(ctx, s.cfg.DB, replay.Places{Home: s.cfg.Home, Artifacts: s.artifacts(runID)}, runID)
	b.Envelope = envelope
	return b, err
}

package serve

import (
	"context"
	"errors"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
)

// Follow is Stream for the viewer that the program waits for as for the reader of a pipe: see [broker.Broker.Follow]. That may be
// asked for by those who may also end the run. key is of the client's choice.
func (s *Server) Follow(ctx context.Context, id auth.Identity, runID string, cursor broker.Cursor, key string) (*broker.Viewer, error) {
	_, err := s.controlled(ctx, id, runID)
	if errors.Is(err, ErrNotFound) { // one of the command line, say
		return s.Stream(ctx, id, runID, cursor)
	}
	if err != nil {
		return nil, err
	}
	v, err := s.cfg.Broker.Follow(ctx, runID, cursor, key)
	return v, s.orElsewhere(ctx, runID, err)
}

// Expect keeps the place of a run's follower for who comes with key: what the program prints before is not lost either. Who
// asked for the run says it with the request.
func (s *Server) Expect(runID, key string) {
	if l, ok := s.lookup(runID); ok {
		l.stream.Expect(key)
	}
}

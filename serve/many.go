package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
)

// SessionStream is a viewer of all runs of a session, those that are accepted later included. The caller closes it.
func (s *Server) SessionStream(ctx context.Context, id auth.Identity, session string) (*broker.Many, error) {
	if _, err := s.Session(ctx, id, session); err != nil {
		return nil, err
	}
	m := s.cfg.Broker.ViewMany(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[session] == nil {
		s.sessions[session] = map[*broker.Many]bool{}
	}
	s.sessions[session][m] = true
	for run, l := range s.live { // under the lock: a run that comes now is added by open
		if l.session == session {
			if err := m.Add(run, broker.Cursor{Tail: true}); err != nil && !errors.Is(err, broker.ErrUnknownRun) {
				delete(s.sessions[session], m)
				m.Close()
				return nil, fmt.Errorf("watch run %s: %w", run, err)
			}
		}
	}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions[session], m)
		if len(s.sessions[session]) == 0 {
			delete(s.sessions, session)
		}
	})
	return m, nil
}

// tell adds a run that has come to the streams of its session. s.mu is held.
func (s *Server) tell(run, session string) {
	for m := range s.sessions[session] {
		if err := m.Add(run, broker.Cursor{}); err != nil {
			s.cfg.Logger.Warn("a session's stream has no room for another run", "run", run, "error", err)
		}
	}
}

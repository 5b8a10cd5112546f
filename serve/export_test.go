package serve

import (
	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/queue"
)

// OnDecided calls f between a decision and what it means.
func (s *Server) OnDecided(f func()) { s.decided = f }

// Announce is what Submit does when a run is accepted, which a quick run may overtake.
func (s *Server) Announce(e queue.Entry) error {
	return s.announce(e, api.RunRequest{}, policy.Plan{}, nil)
}

// Tracing is how many runs have a trace that has not been handed on.
func (s *Server) Tracing() int {
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	return len(s.traces.runs)
}

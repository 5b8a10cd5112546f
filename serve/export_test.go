package serve

// OnDecided calls f between a decision and what it means.
func (s *Server) OnDecided(f func()) { s.decided = f }

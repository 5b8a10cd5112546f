package serve

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/retention"
)

// ArtifactsDir is the directory of the copies of artifacts, by run, inside a state directory.
const ArtifactsDir = retention.ArtifactsDir

// cleanInterval is how late what is old may go.
const cleanInterval = time.Hour

func (s *Server) artifacts(run string) string { return filepath.Join(s.cfg.Home, ArtifactsDir, run) }

// dropEmpty removes the directory of a run that has left no artifact.
func (s *Server) dropEmpty(run string) { _ = os.Remove(s.artifacts(run)) } // which fails if it has

// Clean calls Config.Keep now and then, until ctx ends.
func (s *Server) Clean(ctx context.Context) error {
	if s.cfg.Keep == nil {
		return nil
	}
	again := time.NewTicker(cleanInterval)
	defer again.Stop()
	for {
		if err := s.cfg.Keep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("remove what is old", logkey.Error, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

package serve

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/internal/logkey"
)

// ArtifactsDir is the directory of the copies of artifacts, by run, inside a state directory.
const ArtifactsDir = "artifacts"

// defaultKeep is how long artifacts can be had when nothing else is said.
const defaultKeep = 30 * 24 * time.Hour

// cleanInterval is how late old artifacts may go.
const cleanInterval = time.Hour

func (s *Server) artifacts(run string) string { return filepath.Join(s.cfg.Home, ArtifactsDir, run) }

// dropEmpty removes the directory of a run that has left no artifact.
func (s *Server) dropEmpty(run string) { _ = os.Remove(s.artifacts(run)) } // which fails if it has

// Clean removes artifacts that are older than Config.KeepArtifacts, until ctx ends. Their records stay, and say what there was.
func (s *Server) Clean(ctx context.Context) error {
	again := time.NewTicker(cleanInterval)
	defer again.Stop()
	for {
		if err := s.clean(time.Now()); err != nil {
			s.cfg.Logger.Error("remove old artifacts", logkey.Error, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

func (s *Server) clean(now time.Time) error {
	entries, err := os.ReadDir(s.artifacts(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var faults []error
	for _, e := range entries {
		id, err := ulid.ParseStrict(e.Name())
		if err != nil || now.Sub(ulid.Time(id.Time())) < s.cfg.KeepArtifacts { // not ours, or young; a run is shorter than any time to keep
			continue
		}
		faults = append(faults, os.RemoveAll(s.artifacts(e.Name())))
	}
	return errors.Join(faults...)
}

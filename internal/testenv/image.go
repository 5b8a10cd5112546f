package testenv

import (
	"fmt"
	"os"
	"path/filepath"
)

// imageTagDirs are the places, below a state directory, where the image store keeps one entry for each tag.
// This package cannot import the store, so the store's own tests compare this list with what it writes.
var imageTagDirs = []string{"images/tags", "images/refs"}

// probeImage reports whether the store below home has an image of that tag.
func probeImage(home, tag string) error {
	if home == "" {
		return fmt.Errorf("no state directory: set %s", EnvHome)
	}
	for _, dir := range imageTagDirs {
		if _, err := os.Stat(filepath.Join(home, dir, tag)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the store in %s has no image %s (run silk image build %s, or set %s)", home, tag, tag, EnvHome)
}

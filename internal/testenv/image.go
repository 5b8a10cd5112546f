package testenv

import (
	"fmt"
	"os"
	"path/filepath"
)

// imageTagDir is where, below a state directory, the image store keeps one file for each tag. This package must not
// import the store; were its layout to change, every test that needs an image would skip, which SILK_TEST_REQUIRE shows.
const imageTagDir = "images/tags"

// probeImage reports whether the store below home has an image of that tag.
func probeImage(home, tag string) error {
	if home == "" {
		return fmt.Errorf("no state directory: set %s", EnvHome)
	}
	if _, err := os.Stat(filepath.Join(home, imageTagDir, tag)); err == nil {
		return nil
	}
	return fmt.Errorf("the store in %s has no image %s (run silk image build %s, or set %s)", home, tag, tag, EnvHome)
}

package labs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/tests/silktest"
)

// TestBuildAgain builds each lab's image a second time, in a state directory of its own and where there is no network:
// what was downloaded once is enough, and the image is the same to the last bit, since its name is its hash.
func TestBuildAgain(t *testing.T) {
	for _, lab := range heavy {
		t.Run(lab, func(t *testing.T) {
			needLab(t, lab)
			testenv.Require(t, testenv.Root) // to be without a network
			dir := t.TempDir()
			s := silktest.Silk{Home: filepath.Join(dir, "home"), Config: filepath.Join(dir, "config.yaml")}
			err := errors.Join(
				os.Mkdir(s.Home, 0o755),
				os.Symlink(filepath.Join(testenv.Home(), "cache"), filepath.Join(s.Home, "cache")),
				os.WriteFile(s.Config, nil, 0o644),
			)
			if err != nil {
				t.Fatal(err)
			}
			cmd := s.Command(t.Context(), "image", "build", "--frozen", lab)
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want, err := os.ReadFile(filepath.Join(testenv.Home(), "images", "tags", lab))
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(s.Home, "images", "tags", lab))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("built again %s is %s, and was %s", lab, got, want)
			}
		})
	}
}

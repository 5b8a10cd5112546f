//go:build unix

package alert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// refused says that neither Raise nor Check takes a file, for a reason, and that nothing was written to it.
func refused(t *testing.T, name, why string) {
	t.Helper()
	s := sinks(t, Config{Files: []string{name}})
	if err := s.Raise(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("raise: %v, want %q", err, why)
	}
	if found := s.Check(t.Context()); len(found) != 1 || found[0].Err == nil || !strings.Contains(found[0].Err.Error(), why) {
		t.Errorf("checked %+v, want %q", found, why)
	}
	if info, err := os.Stat(name); err == nil && info.Size() > 0 {
		t.Error("it was written to")
	}
}

func TestFileWithTwoNamesIsRefused(t *testing.T) {
	name := filepath.Join(private(t), "alerts")
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Link(name, name+".too")); err != nil {
		t.Fatal(err)
	}
	refused(t, name, "has 2 names")
}

func TestFileInADirectoryOfOthersIsRefused(t *testing.T) {
	dir := private(t)
	name := filepath.Join(dir, "alerts")
	for _, mode := range []os.FileMode{0o777, 0o770} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		refused(t, name, "can be written by others")
		if _, err := os.Stat(name); err == nil {
			t.Error("it was made")
		}
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := sinks(t, Config{Files: []string{name}}).Raise(t.Context(), sample()); err != nil {
		t.Errorf("a sticky directory, as /tmp: %v", err)
	}
}

func TestFileOfSomebodyElseIsRefused(t *testing.T) {
	testenv.Require(t, testenv.Root) // only root can give files away
	const nobody = 65534
	dir := private(t)
	name := filepath.Join(dir, "alerts")
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chown(name, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	refused(t, name, "belongs to somebody else")
	if err := errors.Join(os.Chown(name, 0, 0), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	refused(t, name, "belongs to somebody else")
}

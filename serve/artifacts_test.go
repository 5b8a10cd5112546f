package serve

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
)

func TestClean(t *testing.T) {
	s := &Server{cfg: Config{Home: t.TempDir(), KeepArtifacts: 24 * time.Hour}}
	if err := s.clean(time.Now()); err != nil {
		t.Errorf("where nothing was kept: %v", err)
	}
	now := time.Now()
	id := func(age time.Duration) string { return ulid.MustNew(ulid.Timestamp(now.Add(-age)), nil).String() }
	old, young := id(25*time.Hour), id(23*time.Hour)
	for _, name := range []string{old, young, "notes"} {
		if err := os.MkdirAll(filepath.Join(s.artifacts(name), "dir"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.clean(now); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(s.artifacts(""))
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := []string{young, "notes"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v are left, %v; want %v", names, err, want)
	}
	s.dropEmpty(young)
	if _, err := os.Stat(s.artifacts(young)); err != nil {
		t.Errorf("artifacts that are there: %v", err)
	}
}

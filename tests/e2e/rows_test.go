package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestRows runs every row of testdata/rows.
func TestRows(t *testing.T) {
	files, err := filepath.Glob("testdata/rows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find rows: %d files, %v", len(files), err)
	}
	for _, file := range files {
		s, err := loadSuite(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			for _, r := range s.Rows {
				t.Run(r.Name, func(t *testing.T) {
					t.Parallel()
					testRow(t, r)
				})
			}
		})
	}
}

func testRow(t *testing.T, r row) {
	images := r.Needs
	if strings.HasPrefix(r.Profile, "lab:") {
		images = append(images, r.Profile)
	}
	s := newSilk(t, images...)
	var all []result
	for range max(1, r.Times) {
		got, err := s.runRow(t.Context(), r, t.TempDir())
		if err != nil {
			t.Fatalf("%v\nwhy this row: %s", err, r.Why)
		}
		all = append(all, got)
		for _, p := range r.Want.problems(got) {
			t.Error(p)
		}
		if r.Want.Gone != "" {
			if left, err := withCommand(r.Want.Gone); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		}
	}
	for _, p := range r.Want.problemsOfAll(all) {
		t.Error(p)
	}
	if t.Failed() {
		last := all[len(all)-1].outcome
		t.Logf("why this row: %s\nrun %s: stdout %s\nstderr %s", r.Why, last.Run, short(text(last.Stdout)), short(text(last.Stderr)))
	}
}

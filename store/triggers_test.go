package store

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestLostTriggers(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), FileName))
	if lost, err := db.LostTriggers(t.Context()); err != nil || len(lost) > 0 {
		t.Fatalf("a new file has lost %v, %v", lost, err)
	}
	if _, err := db.Exec(`DROP TRIGGER audit_events_no_update; DROP TRIGGER audit_segments_no_delete;
		CREATE TRIGGER audit_segments_no_delete BEFORE DELETE ON audit_segments WHEN 0 BEGIN SELECT 1; END`); err != nil {
		t.Fatal(err)
	}
	lost, err := db.LostTriggers(t.Context())
	if want := []string{"audit_events_no_update", "audit_segments_no_delete"}; err != nil || !slices.Equal(lost, want) {
		t.Errorf("lost %v, %v, want %v", lost, err, want)
	}
}

package record

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBrief reads what lists show from a row with a brief, and from one of an earlier version, which has the record alone.
func TestBrief(t *testing.T) {
	db, _ := open(t)
	r := full()
	finish(t, db, r)
	want := r.Brief()
	for _, change := range []string{"", "UPDATE runs SET brief = ''"} {
		if change != "" {
			if _, err := db.ExecContext(t.Context(), change); err != nil {
				t.Fatal(err)
			}
		}
		var text string
		if err := db.QueryRowContext(t.Context(), "SELECT "+BriefColumn+" FROM runs r").Scan(&text); err != nil {
			t.Fatal(err)
		}
		got, err := ReadBrief(text)
		got.Outcome.Events, got.Outcome.Watched = nil, nil
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("after %q: %v (-want +got):\n%s", change, err, d)
		}
	}
	if _, err := ReadBrief("{"); err == nil {
		t.Error("what is no JSON is read")
	}
}

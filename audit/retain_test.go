//go:build unix

package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/store"
)

// Who reads while retention removes files begins again, or says so.
func TestReadDuringRetention(t *testing.T) {
	keepNone := small
	keepNone.Retention = time.Nanosecond
	for _, test := range []struct {
		name string
		read func(*store.DB) error
		want string
	}{
		{"verify", func(db *store.DB) error {
			report, err := Verify(t.Context(), db)
			if err == nil && (report.Gap == nil || report.Gap.LastSeq != 40) {
				err = fmt.Errorf("got %+v", report)
			}
			return err
		}, ""},
		{"export", func(db *store.DB) error {
			_, _, err := Export(t.Context(), db, io.Discard, Selection{})
			return err
		}, "export it again"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := long(t, 50)
			rotate(t, db, small)
			defer func(old func(string)) { atStep = old }(atStep)
			atStep = func(step string) {
				if step == "file is verified" {
					atStep = func(string) {}
					rotate(t, db, keepNone)
				}
			}
			if err := test.read(db); (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A file that was made after the database was looked at is no stranger.
func TestVerifyDuringRotation(t *testing.T) {
	db := long(t, 50)
	rotate(t, db, small)
	defer func(old func(string)) { atStep = old }(atStep)
	atStep = func(step string) {
		if step == "file is verified" {
			atStep = func(string) {}
			grow(t, db, 40)
			rotate(t, db, small)
		}
	}
	if report := verified(t, db); report.Seq != 50 {
		t.Errorf("got %+v", report)
	}
}

// The rules of the tables hold against whoever can only send SQL.
func TestSegmentsAreAppendOnly(t *testing.T) {
	db := long(t, 50)
	rotate(t, db, small)
	for _, statement := range []string{
		`DELETE FROM audit_events WHERE seq = 41`,
		`DELETE FROM audit_events`,
		`DELETE FROM audit_segments WHERE last_seq = 10`,
		`UPDATE audit_segments SET state = 'removing' WHERE last_seq = 10`, // no event says so
		`UPDATE audit_segments SET last_hash = '' WHERE last_seq = 10`,
		`INSERT INTO audit_segments SELECT 50, 41, hash, 0, 0, 'sealed' FROM audit_events WHERE seq = 50`, // the newest stays
		`INSERT INTO audit_segments SELECT 45, 42, hash, 0, 0, 'sealed' FROM audit_events WHERE seq = 45`, // a gap
		`INSERT INTO audit_segments SELECT 45, 41, 'other', 0, 0, 'sealed' FROM audit_events WHERE seq = 45`,
		`INSERT INTO audit_segments SELECT 45, 41, hash, 0, 0, 'removed' FROM audit_events WHERE seq = 45`,
		`INSERT OR REPLACE INTO audit_segments SELECT 10, 1, last_hash, 0, 0, 'sealed' FROM audit_segments WHERE last_seq = 10`,
	} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "audit_") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if got := verified(t, db).Seq; got != 50 {
		t.Errorf("the trail ends with %d", got)
	}
}

// What a segment was stays, also while it goes.
func TestRemovedSegmentsAreNotRewritten(t *testing.T) {
	db := long(t, 30)
	ctx, cancel := context.WithCancel(t.Context())
	defer func(old func(string)) { atStep = old }(atStep)
	atStep = func(step string) {
		if step == "removal is recorded" {
			cancel()
		}
	}
	policy := small
	policy.Retention = time.Nanosecond
	if _, err := Rotate(ctx, db, policy); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	for _, set := range []string{"last_hash = 'x'", "first_seq = 0", "newest = 0", "sealed_at = 0", "last_seq = 11", "last_seq = 11, last_hash = 'x'"} {
		if _, err := db.Exec("UPDATE audit_segments SET state = 'removed', " + set + " WHERE last_seq = 10"); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("SET %s: %v", set, err)
		}
	}
	if did := rotate(t, db, policy); len(did.Segments) > 0 || len(files(t, db)) > 0 {
		t.Errorf("the next rotation did %+v, left %v", did, files(t, db))
	}
}

func TestRetention(t *testing.T) {
	db := long(t, 30)
	rotate(t, db, small) // two files, ten events left
	old := verified(t, db).Head
	keep := small
	keep.Retention = time.Hour
	if did := rotate(t, db, keep); len(did.Removed) > 0 || len(files(t, db)) != 2 {
		t.Errorf("nothing is an hour old, but it removed %v", did.Removed)
	}
	early, err := After(t.Context(), db, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	boundary, err := After(t.Context(), db, 19, 1)
	if err != nil {
		t.Fatal(err)
	}
	keep.Retention = time.Nanosecond
	if did := rotate(t, db, keep); len(did.Removed) != 2 || len(files(t, db)) != 0 {
		t.Errorf("removed %v, left %v", did.Removed, files(t, db))
	}
	report := verified(t, db, old, Head{boundary[0].Seq, boundary[0].Hash})
	if report.Gap == nil || report.Gap.LastSeq != 20 || time.Since(time.UnixMilli(report.Gap.AtMs)) > time.Minute || report.Seq != 31 {
		t.Errorf("got %+v, %+v", report, report.Gap)
	}
	events := list(t, db, Filter{Limit: 1000})
	if len(events) != 11 || events[0].Name != Removed {
		t.Errorf("%d events, the newest %+v", len(events), events[0])
	}
	var gone *GoneError
	if _, err := Verify(t.Context(), db, Head{early[0].Seq, early[0].Hash}); !errors.As(err, &gone) {
		t.Errorf("a head that nothing is left of: %v", err)
	}
	var broken *BrokenError
	if _, err := Verify(t.Context(), db, Head{boundary[0].Seq, early[0].Hash}); !errors.As(err, &broken) {
		t.Errorf("a wrong head at the end of what is gone: %v", err)
	}
	// The event that says so moves to a file and goes in its turn; the next one takes its place.
	grow(t, db, 20)
	if did := rotate(t, db, keep); len(did.Removed) != len(did.Segments) || len(did.Removed) < 2 {
		t.Errorf("got %+v", did)
	}
	if again := verified(t, db); again.Gap == nil || again.Gap.LastSeq <= 31 {
		t.Errorf("got %+v, %+v", again, again.Gap)
	}
	if did := rotate(t, db, keep); len(did.Removed)+len(did.Segments) > 0 {
		t.Errorf("there was nothing to do, but it did %+v", did)
	}
}

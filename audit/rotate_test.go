//go:build unix

package audit

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/store"
)

// small moves all but ten events, in files of ten.
var small = Policy{MaxBytes: 2900, Keep: 10}

// long is a store whose trail has n events, each of which counts a little less than 300 bytes.
func long(t *testing.T, n int) *store.DB {
	t.Helper()
	db := openFile(t, path(t))
	grow(t, db, n)
	return db
}

func grow(t *testing.T, db *store.DB, n int) {
	t.Helper()
	for i := range n {
		add(t, db, fmt.Sprint("r", i%3), SandboxStarted)
	}
}

func rotate(t *testing.T, db *store.DB, p Policy) Rotated {
	t.Helper()
	did, err := Rotate(t.Context(), db, p)
	if err != nil {
		t.Fatal(err)
	}
	return did
}

func verified(t *testing.T, db *store.DB, known ...Head) Report {
	t.Helper()
	report, err := Verify(t.Context(), db, known...)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func list(t *testing.T, db *store.DB, f Filter) []Event {
	t.Helper()
	events, err := List(t.Context(), db, f)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func inTable(t *testing.T, db *store.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM audit_events").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func files(t *testing.T, db *store.DB) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(Dir(db))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

// Table and files are one trail, before and after a rotation.
func TestRotate(t *testing.T) {
	db := long(t, 50)
	before, head := list(t, db, Filter{}), verified(t, db).Head
	did := rotate(t, db, small)
	if want := []string{"000000000001-000000000010.jsonl.zst", "000000000011-000000000020.jsonl.zst", "000000000021-000000000030.jsonl.zst", "000000000031-000000000040.jsonl.zst"}; !slices.Equal(did.Segments, want) || !slices.Equal(files(t, db), want) {
		t.Errorf("moved to %v, there are %v, want %v", did.Segments, files(t, db), want)
	}
	if n := inTable(t, db); n != 10 {
		t.Errorf("%d events are left in the table, want 10", n)
	}
	after := verified(t, db, head, Head{before[45].Seq, before[45].Hash})
	if after.Head != head || after.Segments != 4 || after.Gap != nil {
		t.Errorf("after the rotation %+v, want head %+v in 4 files", after, head)
	}
	if diff := cmp.Diff(before, list(t, db, Filter{})); diff != "" {
		t.Errorf("other events after the rotation (-before +after):\n%s", diff)
	}
	var newest string
	if err := db.QueryRow(`SELECT hash FROM audit_events WHERE event LIKE 'sandbox_%' ORDER BY timestamp DESC, seq DESC LIMIT 10`).Scan(&newest); err != nil || newest != head.Hash {
		t.Errorf("the published query finds %s, %v; want the newest event", newest, err)
	}
	if did := rotate(t, db, small); len(did.Segments) > 0 {
		t.Errorf("nothing is due, but moved: %v", did)
	}
	grow(t, db, 1)
	if got := verified(t, db); got.Seq != 51 {
		t.Errorf("the chain goes on with %d, want 51", got.Seq)
	}
}

// What List and After answer does not depend on where events are.
func TestReadAcrossFiles(t *testing.T) {
	plain, rotated := long(t, 50), long(t, 50)
	rotate(t, rotated, small)
	seqs := func(events []Event) (s []int64) {
		for _, e := range events {
			s = append(s, e.Seq)
		}
		return s
	}
	for _, f := range []Filter{
		{},
		{Limit: 5},
		{Limit: 11},
		{Limit: 20, Before: 45},
		{Limit: 3, Before: 11},
		{Before: 12, Limit: 2},
		{Run: "r1"},
		{Run: "r1", Limit: 7, Before: 40},
		{Prefix: "sandbox_"},
		{Prefix: "security"},
		{Before: 1},
		{Run: "r9"},
	} {
		if got, want := seqs(list(t, rotated, f)), seqs(list(t, plain, f)); !slices.Equal(got, want) {
			t.Errorf("%+v: got %v, want %v", f, got, want)
		}
	}
	for _, c := range []struct {
		seq   int64
		limit int
	}{{0, 100}, {0, 3}, {9, 4}, {10, 100}, {38, 5}, {40, 5}, {45, 100}, {50, 5}} {
		events, err := After(t.Context(), rotated, c.seq, c.limit)
		want := []int64{}
		for s := c.seq + 1; s <= 50 && len(want) < c.limit; s++ {
			want = append(want, s)
		}
		if err != nil || !slices.Equal(seqs(events), want) {
			t.Errorf("after %d, at most %d: got %v, %v; want %v", c.seq, c.limit, seqs(events), err, want)
		}
	}
}

func TestRotateWhenDue(t *testing.T) {
	for _, test := range []struct {
		name   string
		events int
		policy Policy
		want   int // left in the table
	}{
		{"the default keeps a small trail", 50, Policy{}, 50},
		{"too few bytes", 9, Policy{MaxBytes: 2900, Keep: 4}, 9},
		{"enough bytes", 10, Policy{MaxBytes: 2900, Keep: 4}, 4},
		{"the newest stay", 10, Policy{MaxBytes: 1, Keep: 100}, 10},
		{"too few to move", 11, Policy{MaxBytes: 1, Keep: 9}, 11},
		{"old", 10, Policy{MaxAge: 1, Keep: 4}, 4},
		{"not old", 10, Policy{MaxAge: time.Hour, Keep: 4}, 10},
		{"one event", 1, Policy{MaxBytes: 1, MaxAge: 1, Keep: 1}, 1},
		{"none", 0, Policy{MaxBytes: 1, MaxAge: 1, Keep: 1}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := long(t, test.events)
			did := rotate(t, db, test.policy)
			if n := inTable(t, db); n != test.want || (n < test.events) != (len(did.Segments) > 0) {
				t.Errorf("%d events are left, %+v; want %d", n, did, test.want)
			}
			if _, err := os.Stat(Dir(db)); (err == nil) != (test.want < test.events) {
				t.Errorf("the directory of segments: %v", err)
			}
			if got := verified(t, db).Seq; got != int64(test.events) {
				t.Errorf("the trail ends with %d", got)
			}
		})
	}
}

// The size that is kept is that of the events in the table.
func TestSizeIsCounted(t *testing.T) {
	db := long(t, 30)
	rotate(t, db, small)
	grow(t, db, 5)
	var counted, real int64
	err := db.QueryRow("SELECT (SELECT bytes FROM audit_size), sum(octet_length(data) + 256) FROM audit_events").Scan(&counted, &real)
	if err != nil || counted != real {
		t.Errorf("counted %d, there are %d, %v", counted, real, err)
	}
}

func TestSegmentsBelongToTheirOwnerAlone(t *testing.T) {
	db := long(t, 50)
	if err := os.Mkdir(Dir(db), 0o755); err != nil { // as somebody may have made it
		t.Fatal(err)
	}
	rotate(t, db, small)
	if err := filepath.WalkDir(Dir(db), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// One call does a bounded part of a long trail.
func TestRotateGoesOn(t *testing.T) {
	db := long(t, 100)
	for i, want := range []struct {
		files int
		more  bool
	}{{4, true}, {4, true}, {1, false}, {0, false}} {
		if did := rotate(t, db, small); len(did.Segments) != want.files || did.More != want.more {
			t.Errorf("call %d: %+v, want %+v", i, did, want)
		}
	}
}

// A store of the first version keeps its trail, which moves into files as any other.
func TestUpgrade(t *testing.T) {
	first, err := os.ReadFile("../store/migrations/0001_runs_and_audit.sql")
	if err != nil {
		t.Fatal(err)
	}
	old, err := sql.Open("sqlite", path(t))
	if err != nil {
		t.Fatal(err)
	}
	var file string
	if _, err := old.Exec(string(first) + "PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	events := list(t, long(t, 50), Filter{})
	slices.Reverse(events)
	for _, e := range events {
		if _, err := old.Exec("INSERT INTO audit_events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", e.ID, e.Timestamp, e.Run, string(e.Name), string(e.Data), e.CreatedAt, e.Seq, e.PrevHash, e.Hash); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.QueryRow("SELECT file FROM pragma_database_list").Scan(&file); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db := openFile(t, file)
	if did := rotate(t, db, small); len(did.Segments) != 4 {
		t.Errorf("it moved %+v", did)
	}
	if got := verified(t, db, Head{50, events[49].Hash}); got.Segments != 4 {
		t.Errorf("got %+v", got)
	}
}

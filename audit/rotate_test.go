//go:build unix

package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/store"
)

// small moves all but ten events, in files of ten.
var small = Policy{MaxBytes: 2900, Keep: 10}

// long is a store whose trail has n events, each of which counts a little less than 300 bytes.
func long(t *testing.T, n int) *store.DB {
	t.Helper()
	db := open(t, path(t))
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

func TestOneRotationAtATime(t *testing.T) {
	db := long(t, 50)
	if err := makeDir(Dir(db)); err != nil {
		t.Fatal(err)
	}
	other, err := lockfile.Take(filepath.Join(Dir(db), lockName))
	if err != nil {
		t.Fatal(err)
	}
	if did := rotate(t, db, small); len(did.Segments) > 0 || inTable(t, db) != 50 {
		t.Errorf("it worked beside another: %v", did)
	}
	if err := other.Leave(); err != nil {
		t.Fatal(err)
	}
	if did := rotate(t, db, small); len(did.Segments) != 4 {
		t.Errorf("after the other: %v", did)
	}
}

// A rotation that is cancelled between two steps leaves a whole trail, and the next one finishes it.
func TestRotateStopsWhenCanceled(t *testing.T) {
	db := long(t, 50)
	one := list(t, db, Filter{Limit: 1})[0]
	policy := Policy{MaxBytes: 10*one.size() + 1, Keep: 10} // not due for the ten that stay
	head := verified(t, db).Head
	ctx, cancel := context.WithCancel(t.Context())
	defer func(old func(string)) { atStep = old }(atStep)
	listed := 0
	atStep = func(step string) {
		if step == "file is listed" {
			if listed++; listed == 4 { // only its rows are left to be deleted
				cancel()
			}
		}
	}
	if _, err := Rotate(ctx, db, policy); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := verified(t, db).Head; got != head || inTable(t, db) != 17 {
		t.Errorf("head %+v, want %+v; %d events in the table", got, head, inTable(t, db))
	}
	if events := list(t, db, Filter{}); len(events) != 50 {
		t.Errorf("%d events are listed, want each once", len(events))
	}
	if events, err := After(t.Context(), db, 0, 100); err != nil || len(events) != 50 {
		t.Errorf("%d events are read, %v, want each once", len(events), err)
	}
	rotate(t, db, policy)
	if n := inTable(t, db); n != 10 || verified(t, db).Head != head {
		t.Errorf("%d events are left in the table, want 10", n)
	}
}

// A file that was not listed when its maker died is cleared away, also when the next rotation makes others.
func TestUnlistedFileIsRemoved(t *testing.T) {
	db := long(t, 50)
	ctx, cancel := context.WithCancel(t.Context())
	defer func(old func(string)) { atStep = old }(atStep)
	atStep = func(step string) {
		if step == "file is durable" {
			cancel()
		}
	}
	if _, err := Rotate(ctx, db, small); !errors.Is(err, context.Canceled) || len(files(t, db)) != 1 {
		t.Fatalf("got %v, files %v", err, files(t, db))
	}
	atStep = func(string) {}
	did := rotate(t, db, Policy{MaxBytes: 5000, Keep: 10})
	if names := files(t, db); !slices.Equal(names, did.Segments) || len(names) == 0 {
		t.Errorf("files %v, want %v", names, did.Segments)
	}
}

// What cannot be verified is not sealed: it stays where it can be looked at.
func TestRotateRefusesABrokenTrail(t *testing.T) {
	db := long(t, 50)
	if _, err := db.Exec("DROP TRIGGER audit_events_no_update; UPDATE audit_events SET data = '{}' WHERE seq = 7"); err != nil {
		t.Fatal(err)
	}
	var broken *BrokenError
	if _, err := Rotate(t.Context(), db, small); !errors.As(err, &broken) || broken.Seq != 7 {
		t.Errorf("got %v, want a break at 7", err)
	}
	if n := inTable(t, db); n != 50 || len(files(t, db)) > 0 {
		t.Errorf("%d events in the table, files %v", n, files(t, db))
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

// What does not come back from the disk as it was written is no reason to delete an event.
func TestRotateReadsAgain(t *testing.T) {
	db := long(t, 50)
	defer func(old func(string)) { atStep = old }(atStep)
	atStep = func(step string) {
		if step != "file is written" {
			return
		}
		f, err := os.OpenFile(filepath.Join(Dir(db), ".new-segment"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff}, 100); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if did, err := Rotate(t.Context(), db, small); !errors.Is(err, errSegment) {
		t.Errorf("it did %+v, %v", did, err)
	}
	if n := inTable(t, db); n != 50 || len(files(t, db)) > 0 {
		t.Errorf("%d events in the table, files %v", n, files(t, db))
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
	db := open(t, file)
	if did := rotate(t, db, small); len(did.Segments) != 4 {
		t.Errorf("it moved %+v", did)
	}
	if got := verified(t, db, Head{50, events[49].Hash}); got.Segments != 4 {
		t.Errorf("got %+v", got)
	}
}

// TestKilledRotation kills the process after each step of a rotation with retention. Nothing is lost at any: the next
// rotation finishes.
func TestKilledRotation(t *testing.T) {
	const env, envStep, envCount = "SILK_AUDIT_TEST_ROTATE", "SILK_AUDIT_TEST_STEP", "SILK_AUDIT_TEST_COUNT"
	policy := small
	policy.Retention = time.Nanosecond
	if p := os.Getenv(env); p != "" {
		var count int
		if _, err := fmt.Sscan(os.Getenv(envCount), &count); err != nil {
			t.Fatal(err)
		}
		atStep = func(step string) {
			if step == os.Getenv(envStep) {
				if count--; count == 0 {
					if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					select {}
				}
			}
		}
		rotate(t, open(t, p), policy)
		return
	}
	for _, kill := range []struct {
		step  string
		count int
		table int // events in the table then
	}{
		{"events are written", 1, 50},
		{"file is durable", 1, 50},
		{"file is listed", 1, 50},
		{"rows are deleted", 1, 40},
		{"events are written", 3, 30},
		{"file is durable", 3, 30},
		{"file is listed", 3, 30},
		{"rows are deleted", 4, 10},
		{"removal is recorded", 1, 11},
		{"file is removed", 1, 11},
		{"file is removed", 4, 11},
	} {
		t.Run(fmt.Sprint(kill.step, " ", kill.count), func(t *testing.T) {
			db := long(t, 50)
			before, head := list(t, db, Filter{}), verified(t, db).Head
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledRotation$")
			cmd.Env = append(os.Environ(), env+"="+db.Path(), envStep+"="+kill.step, envCount+"="+fmt.Sprint(kill.count))
			out, err := cmd.CombinedOutput()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("it was not killed there: %v\n%s", err, out)
			}
			if n := inTable(t, db); n != kill.table {
				t.Errorf("%d events are in the table, want %d", n, kill.table)
			}
			report := verified(t, db, head)
			if retained := strings.Contains(kill.step, "remov"); retained {
				if report.Gap == nil || report.Gap.LastSeq != 40 || report.Seq != 51 {
					t.Errorf("the trail is %+v, %+v", report, report.Gap)
				}
			} else if diff := cmp.Diff(before, list(t, db, Filter{})); diff != "" || report.Head != head {
				t.Errorf("after the kill %+v, other events (-before +after):\n%s", report, diff)
			}

			rotate(t, db, policy)
			if report = verified(t, db, head); report.Gap == nil || report.Gap.LastSeq != 40 || inTable(t, db) != 11 {
				t.Errorf("after the next rotation %+v, %d events in the table", report, inTable(t, db))
			}
			if names := files(t, db); len(names) > 0 {
				t.Errorf("left: %v", names)
			}
		})
	}
}

// TestRotateAndAppendFromManyProcesses has processes that append and others that rotate, at once.
func TestRotateAndAppendFromManyProcesses(t *testing.T) {
	const env = "SILK_AUDIT_TEST_BOTH"
	const processes, each = 3, 40
	if p := os.Getenv(env); p != "" {
		db := open(t, p)
		for i := range each {
			add(t, db, fmt.Sprint(os.Getpid()), SandboxStarted, SandboxCompleted)
			if i%4 == 3 {
				rotate(t, db, small)
			}
			if i%10 == 9 {
				verified(t, db)
			}
		}
		return
	}
	p := path(t)
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRotateAndAppendFromManyProcesses$")
			cmd.Env = append(os.Environ(), env+"="+p)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	db := open(t, p)
	for rotate(t, db, small).More {
	}
	report := verified(t, db)
	if report.Seq != processes*each*2 || report.Segments < 10 || inTable(t, db) > 19 {
		t.Errorf("got %+v, %d events in the table", report, inTable(t, db))
	}
	for i, e := range list(t, db, Filter{Limit: 1000}) {
		if e.Seq != report.Seq-int64(i) {
			t.Fatalf("event %d is %d", i, e.Seq)
		}
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

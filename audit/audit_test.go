package audit

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// open opens the store that stands for a path.
func open(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := storetest.Open(t.Context(), path)
	return opened(t, db, err)
}

// openFile is open for what only a file has: segments beside it.
func openFile(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path)
	return opened(t, db, err)
}

func opened(t *testing.T, db *store.DB, err error) *store.DB {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func path(t *testing.T) string { return filepath.Join(t.TempDir(), store.FileName) }

func add(t *testing.T, db *store.DB, run string, names ...Name) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		for i, name := range names {
			e, err := New(run, name, time.UnixMilli(int64(1000+i)), map[string]any{"intentId": run, "n": i, "text": "ä\u2028<\x00"})
			if err != nil {
				return err
			}
			if err := Append(t.Context(), tx, &e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPublishedQuery(t *testing.T) {
	db := open(t, path(t))
	add(t, db, "r1", SandboxStarted, SecurityViolation, SandboxError)
	rows, err := db.Query(`SELECT * FROM audit_events WHERE event LIKE 'sandbox_%' ORDER BY timestamp DESC LIMIT 10`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(columns[:6], " "), "id timestamp intent_id event data created_at"; got != want {
		t.Errorf("columns are %q, want %q", got, want)
	}
	var got []string
	for rows.Next() {
		var id, run, event, data, prev, hash string
		var at, created, seq int64
		if err := rows.Scan(&id, &at, &run, &event, &data, &created, &seq, &prev, &hash); err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(data), &object); err != nil || object["intentId"] != run {
			t.Errorf("data %s of run %s: %v", data, run, err)
		}
		got = append(got, event)
	}
	if want := "[sandbox_error sandbox_started]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAppendOnly(t *testing.T) {
	db := open(t, path(t))
	add(t, db, "r1", SandboxStarted, SandboxCompleted)
	replace, end := "INSERT OR REPLACE INTO", ""
	if db.Shared() {
		replace, end = "INSERT INTO", " ON CONFLICT (id) DO UPDATE SET timestamp = excluded.timestamp"
	}
	for _, statement := range []string{
		`UPDATE audit_events SET data = '{}' WHERE seq = 1`,
		`DELETE FROM audit_events WHERE seq = 2`,
		replace + ` audit_events SELECT id, 0, intent_id, event, data, created_at, seq, prev_hash, hash FROM audit_events WHERE seq = 2` + end,
		replace + ` audit_events SELECT id, 0, intent_id, event, data, created_at, 3, prev_hash, hash FROM audit_events WHERE seq = 1` + end,
		`INSERT INTO audit_events SELECT 'new', 0, intent_id, event, data, created_at, 7, prev_hash, hash FROM audit_events WHERE seq = 1`,
	} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if head, err := Verify(t.Context(), db); err != nil || head.Seq != 2 {
		t.Errorf("Verify after refused changes: %+v, %v", head, err)
	}
}

// unguard lets the trail be changed.
func unguard(t *testing.T, db *store.DB) {
	t.Helper()
	on := ""
	if db.Shared() {
		on = " ON audit_events"
	}
	for _, name := range []string{"audit_events_no_update", "audit_events_no_delete"} {
		if _, err := db.Exec("DROP TRIGGER " + name + on); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerifyNamesTheFirstBrokenEvent(t *testing.T) {
	for _, test := range []struct {
		name, change string
		seq          int64
	}{
		{"data changed", `UPDATE audit_events SET data = '{}' WHERE seq = 3`, 3},
		{"time changed", `UPDATE audit_events SET timestamp = timestamp + 1 WHERE seq = 2`, 2},
		{"run changed", `UPDATE audit_events SET intent_id = 'other' WHERE seq = 5`, 5},
		{"written later", `UPDATE audit_events SET created_at = created_at + 1 WHERE seq = 1`, 1},
		{"one removed", `DELETE FROM audit_events WHERE seq = 4`, 4},
		{"the first removed", `DELETE FROM audit_events WHERE seq = 1`, 1},
		{"removed and renumbered", `DELETE FROM audit_events WHERE seq = 3; UPDATE audit_events SET seq = seq - 1 WHERE seq > 3`, 3},
		{"two swapped", `UPDATE audit_events SET seq = -2 WHERE seq = 2; UPDATE audit_events SET seq = 2 WHERE seq = 3; UPDATE audit_events SET seq = 3 WHERE seq = -2`, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := open(t, path(t))
			add(t, db, "r1", SandboxStarted, SandboxCompleted, SandboxStarted, SecurityViolation, SandboxError)
			if head, err := Verify(t.Context(), db); err != nil || head.Seq != 5 {
				t.Fatalf("before the change: %+v, %v", head, err)
			}
			unguard(t, db)
			if _, err := db.Exec(test.change); err != nil {
				t.Fatal(err)
			}
			head, err := Verify(t.Context(), db)
			var broken *BrokenError
			if !errors.As(err, &broken) || broken.Seq != test.seq {
				t.Errorf("got %v, want a break at %d", err, test.seq)
			}
			if head.Seq != test.seq-1 {
				t.Errorf("the whole part ends at %d, want %d", head.Seq, test.seq-1)
			}
		})
	}
}

// An event that was written anew with a hash that fits leaves the next one without the one before.
func TestVerifyNoticesANewHash(t *testing.T) {
	db := open(t, path(t))
	add(t, db, "r1", SandboxStarted, SecurityViolation, SandboxError)
	events, err := List(t.Context(), db, Filter{Before: 3, Limit: 1})
	if err != nil || len(events) != 1 {
		t.Fatalf("%v, %v", events, err)
	}
	forged := events[0]
	forged.Data = []byte("{}")
	if forged.Hash, err = forged.sum(); err != nil {
		t.Fatal(err)
	}
	unguard(t, db)
	if _, err := db.Exec("UPDATE audit_events SET data = ?, hash = ? WHERE seq = 2", "{}", forged.Hash); err != nil {
		t.Fatal(err)
	}
	var broken *BrokenError
	if _, err := Verify(t.Context(), db); !errors.As(err, &broken) || broken.Seq != 3 {
		t.Errorf("got %v, want a break at 3", err)
	}
}

// TestRotateLeavesASharedTrail: the events of a database server stay in its table.
func TestRotateLeavesASharedTrail(t *testing.T) {
	db := open(t, path(t))
	for i := range 20 {
		add(t, db, fmt.Sprint(i), SandboxStarted)
	}
	did, err := Rotate(t.Context(), db, Policy{MaxBytes: 1, Keep: 1, Retention: 1})
	if err != nil || (len(did.Segments) == 0) != db.Shared() {
		t.Errorf("rotated %+v, %v", did, err)
	}
	if move, remove, err := Preview(t.Context(), db, Policy{MaxBytes: 1, Keep: 1, Retention: 1}); db.Shared() && (move || len(remove) > 0) || err != nil {
		t.Errorf("would move: %t, remove %v, %v", move, remove, err)
	}
	if report, err := Verify(t.Context(), db); err != nil || report.Seq < 20 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestOneChainOfManyProcesses appends from several processes at once.
func TestOneChainOfManyProcesses(t *testing.T) {
	if p := os.Getenv("SILK_AUDIT_TEST_FILE"); p != "" {
		db := open(t, p)
		for range 30 {
			add(t, db, fmt.Sprint(os.Getpid()), SandboxStarted, SandboxCompleted)
		}
		return
	}
	p := path(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOneChainOfManyProcesses$")
			cmd.Env = append(os.Environ(), "SILK_AUDIT_TEST_FILE="+p)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if head, err := Verify(t.Context(), open(t, p)); err != nil || head.Seq != 240 {
		t.Errorf("got %+v, %v, want 240 events in one chain", head, err)
	}
}

func TestList(t *testing.T) {
	db := open(t, path(t))
	add(t, db, "r1", SandboxStarted, OutputTruncated, SandboxCompleted) // timestamps 1000, 1001, 1002
	add(t, db, "r2", SandboxStarted, SandboxError)                      // 1000, 1001
	for _, test := range []struct {
		name   string
		filter Filter
		want   string
	}{
		{"all, the newest first", Filter{}, "[5 4 3 2 1]"},
		{"of one run", Filter{Run: "r1"}, "[3 2 1]"},
		{"by prefix, where _ is no wildcard", Filter{Prefix: "sandbox_"}, "[5 4 3 1]"},
		{"by run and prefix", Filter{Run: "r2", Prefix: "sandbox_e"}, "[5]"},
		{"first page", Filter{Limit: 2}, "[5 4]"},
		{"next page", Filter{Limit: 2, Before: 4}, "[3 2]"},
		{"none", Filter{Run: "r9"}, "[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			events, err := List(t.Context(), db, test.filter)
			if err != nil {
				t.Fatal(err)
			}
			got := []int64{}
			for _, e := range events {
				got = append(got, e.Seq)
			}
			if fmt.Sprint(got) != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestNewRefusesWhatCannotBeCanonical(t *testing.T) {
	if _, err := New("r", SandboxError, time.Now(), map[string]any{"f": func() {}}); err == nil {
		t.Error("a function was encoded")
	}
}

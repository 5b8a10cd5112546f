package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/silk-sandbox/silk/store"
)

// Test is what packages may rely on, whatever database a store is in. at opens the store that stands for a path.
func Test(t *testing.T, at func(ctx context.Context, path string) (*store.DB, error)) {
	dir := t.TempDir()
	// open opens the same new store each time for one t, as several servers do.
	open := func(t *testing.T) *store.DB {
		t.Helper()
		db, err := at(t.Context(), filepath.Join(dir, filepath.Base(t.Name())))
		if err != nil {
			t.Error(err)
			runtime.Goexit()
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db
	}
	t.Run("a failed update leaves nothing", func(t *testing.T) {
		db, boom := open(t), errors.New("boom")
		err := db.Update(t.Context(), func(tx *sql.Tx) error {
			if err := insert(t.Context(), tx, "a"); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) || err.Error() != "boom" {
			t.Errorf("Update returned %v, want %v", err, boom)
		}
		if n := count(t, db); n != 0 {
			t.Errorf("%d rows are left of a failed update", n)
		}
	})
	t.Run("a statement that fails ends the update, and the store goes on", func(t *testing.T) {
		db := open(t)
		err := db.Update(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT INTO nowhere VALUES (1)")
			return err
		})
		if err == nil {
			t.Error("no error")
		}
		if err := db.Update(t.Context(), func(tx *sql.Tx) error { return insert(t.Context(), tx, "a") }); err != nil {
			t.Error(err)
		}
	})
	t.Run("an update that is given up waits no more", func(t *testing.T) {
		db, why := open(t), errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := db.Update(t.Context(), func(*sql.Tx) error {
			cancel(why)
			return db.Update(ctx, func(*sql.Tx) error { return errors.New("two writers at once") })
		})
		if !errors.Is(err, why) {
			t.Errorf("got %v, want %v", err, why)
		}
	})
	t.Run("what an update reads stays true", func(t *testing.T) { testCounter(t, open) })
	t.Run("a view sees one moment and hinders nobody", func(t *testing.T) { testView(t, open) })
	t.Run("values come back as they went in", func(t *testing.T) { testValues(t, open(t)) })
	t.Run("text that is compared is compared byte by byte", func(t *testing.T) { testOrder(t, open(t)) })
	t.Run("the audit trail takes no change", func(t *testing.T) { testAppendOnly(t, open(t)) })
	t.Run("triggers that are gone are missed", func(t *testing.T) {
		db := open(t)
		if lost, err := db.LostTriggers(t.Context()); err != nil || len(lost) > 0 {
			t.Errorf("a new store has lost %v, %v", lost, err)
		}
	})
	t.Run("many open a new store together", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				if err := open(t).Update(t.Context(), func(tx *sql.Tx) error { return insert(t.Context(), tx, fmt.Sprint(i)) }); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := count(t, open(t)); n != 6 {
			t.Errorf("%d rows, want 6", n)
		}
	})
}

func insert(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO runs (id, started_at, client, profile, outcome, exit_code, driver, image, owner, plan, record, brief) VALUES (?, 1, 'cli', 'p', 'ok', 0, 'd', 'i', 'o', '', '{}', '')`, id)
	return err
}

func count(t *testing.T, db *store.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM runs").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// testCounter has writers of two servers read a number and write the next one.
func testCounter(t *testing.T, open func(t *testing.T) *store.DB) {
	const writers, each = 4, 15
	servers := []*store.DB{open(t), open(t)}
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for range each {
				err := servers[i%len(servers)].Update(t.Context(), func(tx *sql.Tx) error {
					var n int
					if err := tx.QueryRow("SELECT bytes FROM audit_size").Scan(&n); err != nil {
						return err
					}
					_, err := tx.Exec("UPDATE audit_size SET bytes = ?", n+1)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var n int
	if err := servers[0].QueryRow("SELECT bytes FROM audit_size").Scan(&n); err != nil || n != writers*each {
		t.Errorf("counted to %d, %v; want %d", n, err, writers*each)
	}
}

func testView(t *testing.T, open func(t *testing.T) *store.DB) {
	db, other, boom := open(t), open(t), errors.New("boom")
	err := db.View(t.Context(), func(tx *sql.Tx) error {
		rows := func() (n int) {
			if err := tx.QueryRow("SELECT count(*) FROM runs").Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		}
		if n := rows(); n != 0 {
			t.Errorf("%d rows", n)
		}
		for i, db := range []*store.DB{db, other} {
			if err := db.Update(t.Context(), func(tx *sql.Tx) error { return insert(t.Context(), tx, fmt.Sprint(i)) }); err != nil {
				t.Errorf("a write meanwhile: %v", err)
			}
		}
		if n := rows(); n != 0 {
			t.Errorf("%d rows, which came later", n)
		}
		return boom
	})
	if !errors.Is(err, boom) || err.Error() != "boom" {
		t.Errorf("got %v", err)
	}
	if n := count(t, db); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	if err := db.Sync(); err != nil {
		t.Error(err)
	}
}

func testValues(t *testing.T, db *store.DB) {
	type word string
	code := 7
	data := []byte{0, 1, 255, '?', '\''}
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO runs (id, started_at, client, profile, outcome, exit_code, driver, image, owner, plan, record)
			VALUES (?, ?, ?, '?''?', ?, ?, 'd', 'i', 'o', '', '{}') -- ?`, "a", int64(1)<<62, word("héllo ⟨"), "", &code)
		if err == nil {
			_, err = tx.Exec("INSERT INTO outputs (run, channel, data) VALUES (?, ?, ?)", "a", "stdout", data)
		}
		if err == nil {
			_, err = tx.Exec(`INSERT INTO requests (run, token, session, idempotency_key, hash, request, state, cancel, worker, cpus, accepted_at, queued_at)
				VALUES ('a', 't', '', ?, '', ?, 'queued', 1, '', ?, 1, ?)`, sql.NullString{}, `{"a":"\u0000"}`, 0.1, sql.NullInt64{Int64: 5, Valid: true})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var at int64
	var client word
	var profile string
	var exit sql.NullInt64
	var out, request []byte
	var key sql.NullString
	var cpus float64
	var canceled bool
	err = db.QueryRow(`SELECT runs.started_at, client, profile, exit_code, data, request, idempotency_key, cpus, cancel FROM runs JOIN outputs o ON o.run = runs.id
		JOIN requests r ON r.run = runs.id WHERE runs.id = ?`, "a").Scan(&at, &client, &profile, &exit, &out, &request, &key, &cpus, &canceled)
	if err != nil || at != 1<<62 || client != "héllo ⟨" || profile != "?'?" || exit.Int64 != 7 || !slices.Equal(out, data) || key.Valid || cpus != 0.1 || !canceled ||
		string(request) != `{"a":"\u0000"}` {
		t.Errorf("got %d %q %q %v %v %q %v %v %t, %v", at, client, profile, exit, out, request, key, cpus, canceled, err)
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM runs WHERE profile = ?", "\xff\x00").Scan(&n); err != nil || n != 0 {
		t.Errorf("looking for what cannot be there: %d, %v", n, err)
	}
}

func testOrder(t *testing.T, db *store.DB) {
	want := []string{"0", "A", "B", "_", "a", "b", "ä"}
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		for _, id := range []string{"b", "A", "ä", "a", "_", "0", "B"} {
			if err := insert(t.Context(), tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query("SELECT id FROM runs WHERE id >= ? ORDER BY id", "0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	if err := rows.Err(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func testAppendOnly(t *testing.T, db *store.DB) {
	add := func(seq int) error {
		return db.Update(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT INTO audit_events (id, timestamp, intent_id, event, data, created_at, seq, prev_hash, hash) VALUES (?, 1, '', '', '{}', 1, ?, '', '')", fmt.Sprint(seq), seq)
			return err
		})
	}
	for _, seq := range []int{1, 2} {
		if err := add(seq); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(4); err == nil {
		t.Error("an event that follows none was taken")
	}
	for _, change := range []string{
		"UPDATE audit_events SET data = '{}'", "DELETE FROM audit_events", "DELETE FROM audit_events WHERE seq = 2",
		"INSERT INTO audit_segments (last_seq, first_seq, last_hash, newest, sealed_at, state) VALUES (2, 1, '', 1, 1, 'sealed')",
	} {
		err := db.Update(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(change)
			return err
		})
		if err == nil {
			t.Errorf("%s was done", change)
		}
	}
}

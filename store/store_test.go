package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(t.Context(), path)
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

func insert(ctx context.Context, id string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO runs (id, started_at, client, profile, outcome, exit_code, driver, image, owner, plan, record, brief) VALUES (?, 1, 'cli', 'p', 'ok', 0, 'd', 'i', 'o', '', '{}', '')`, id)
		return err
	}
}

func count(t *testing.T, db *DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM runs").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFilesBelongToTheirOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	db := open(t, path)
	if err := db.Update(t.Context(), insert(t.Context(), "a")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, got)
		}
	}
}

func TestUpdateRollsBackOnError(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), FileName))
	boom := errors.New("boom")
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		if err := insert(t.Context(), "a")(tx); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("Update returned %v, want %v", err, boom)
	}
	if n := count(t, db); n != 0 {
		t.Errorf("%d rows are left of a failed update", n)
	}
}

func TestUpdateStopsWaitingWhenCanceled(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), FileName))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	err := db.Update(t.Context(), func(*sql.Tx) error {
		cancel(why)
		return db.Update(ctx, func(*sql.Tx) error { return errors.New("two writers at once") })
	})
	if !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

func TestLeaveClosesOnlyALongLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(t.Context(), insert(t.Context(), "a")); err != nil {
		t.Fatal(err)
	}
	if err := db.Leave(); err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(); err != nil {
		t.Errorf("it is closed though the log is short: %v", err)
	}
	if err := os.Truncate(path+"-wal", leaveBytes); err != nil { // zeros at the end are no frames
		t.Fatal(err)
	}
	if err := db.Leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is still there: %v", err)
	}
	if n := count(t, open(t, path)); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// TestTwoProcesses opens one new file from several processes at once; each makes or meets the schema and writes.
func TestTwoProcesses(t *testing.T) {
	if path := os.Getenv("SILK_STORE_TEST_FILE"); path != "" {
		db := open(t, path)
		for i := range 50 {
			if err := db.Update(t.Context(), insert(t.Context(), fmt.Sprint(os.Getpid(), ".", i))); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	path := filepath.Join(t.TempDir(), FileName)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTwoProcesses$")
			cmd.Env = append(os.Environ(), "SILK_STORE_TEST_FILE="+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if n := count(t, open(t, path)); n != 200 {
		t.Errorf("%d rows, want 200", n)
	}
}

func TestFaultsSayWhatToDo(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", FileName)
	garbage := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(garbage, []byte(strings.Repeat("not a database at all ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(t.TempDir(), FileName)
	db := open(t, newer)
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, path, want string }{
		{"no such directory", missing, "the state directory does not exist"},
		{"not a database", garbage, "move it away"},
		{"schema of a newer silk", newer, "newer silk"},
		{"a directory", t.TempDir(), "is a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db, err := Open(t.Context(), test.path)
			if err == nil {
				db.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Count(err.Error(), test.path) != 1 || strings.Count(err.Error(), "state database") != 1 {
				t.Errorf("error is %q, want %q, and the path and what it is once", err, test.want)
			}
		})
	}
}

// View sees one moment, and does not keep others from writing.
func TestView(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), FileName))
	rows := func(tx *sql.Tx) (n int) {
		t.Helper()
		if err := tx.QueryRow("SELECT count(*) FROM runs").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	boom := errors.New("boom")
	err := db.View(t.Context(), func(tx *sql.Tx) error {
		if n := rows(tx); n != 0 {
			t.Errorf("%d rows", n)
		}
		if err := db.Update(t.Context(), insert(t.Context(), "a")); err != nil {
			t.Errorf("a write meanwhile: %v", err)
		}
		if n := rows(tx); n != 0 {
			t.Errorf("%d rows, which came later", n)
		}
		return boom
	})
	if !errors.Is(err, boom) || err.Error() != "boom" {
		t.Errorf("got %v", err)
	}
	if n := count(t, db); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	if err := db.Sync(); err != nil {
		t.Error(err)
	}
}

// TestDamageShows destroys pages of a store that has content.
func TestDamageShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := db.Update(t.Context(), insert(t.Context(), fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("x", int(fi.Size())-4096)), 4096); err != nil {
		t.Fatal(err)
	}
	db, err = Open(t.Context(), path)
	if err == nil {
		defer db.Close()
		err = db.Update(t.Context(), insert(t.Context(), "new"))
	}
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged file gives %v", err)
	}
}

func TestFullDisk(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), FileName))
	db.SetMaxOpenConns(1) // max_page_count belongs to a connection
	if _, err := db.Exec("PRAGMA max_page_count = 20"); err != nil {
		t.Fatal(err)
	}
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO runs (id, started_at, client, profile, outcome, exit_code, driver, image, owner, plan, record, brief) VALUES ('big', 1, 'cli', 'p', 'ok', 0, 'd', 'i', 'o', '', ?, '')`, strings.Repeat("x", 1<<20))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "free disk space") {
		t.Errorf("a full disk gives %v", err)
	}
	if err := db.Update(t.Context(), insert(t.Context(), "small")); err != nil {
		t.Errorf("after a refused write: %v", err)
	}
}

func BenchmarkOpenAndInsert(b *testing.B) {
	path := filepath.Join(b.TempDir(), FileName)
	open(b, path) // held open, as by another silk; the log stays
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		db, err := Open(b.Context(), path)
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Update(b.Context(), insert(b.Context(), fmt.Sprint(start.UnixNano(), i))); err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

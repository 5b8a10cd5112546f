//go:build unix

package audit

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/store"
)

// orphaned is a state directory with four files of old events, whose database is gone, and what the files hold.
func orphaned(t *testing.T) (home string, old map[string]string) {
	t.Helper()
	from := long(t, 50)
	rotate(t, from, small)
	home = t.TempDir()
	if err := os.Rename(Dir(from), filepath.Join(home, DirName)); err != nil {
		t.Fatal(err)
	}
	return home, contents(t, filepath.Join(home, DirName))
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(data)
	}
	return all
}

func stillThere(t *testing.T, dir string, old map[string]string) {
	t.Helper()
	now := contents(t, dir)
	for name, data := range old {
		if now[name] != data {
			t.Errorf("%s was removed or replaced", name)
		}
	}
}

// A new database beside the files of another one begins no second chain.
func TestNoTrailBeginsBesideAnother(t *testing.T) {
	home, old := orphaned(t)
	var broken *BrokenError
	if err := WithoutDatabase(home); !errors.As(err, &broken) || !strings.Contains(broken.Why, "there is no database") {
		t.Errorf("without a database: %v", err)
	}
	if err := WithoutDatabase(t.TempDir()); err != nil {
		t.Errorf("where nothing was run: %v", err)
	}
	db := openFile(t, filepath.Join(home, store.FileName))
	e, err := New("r1", SandboxStarted, time.Now(), map[string]any{"intentId": "r1"})
	if err != nil {
		t.Fatal(err)
	}
	var stray *StrayError
	err = db.Update(t.Context(), func(tx *sql.Tx) error { return Append(t.Context(), tx, &e) })
	if !errors.As(err, &stray) || len(stray.Files) != 4 || inTable(t, db) > 0 {
		t.Errorf("got %v, %d events", err, inTable(t, db))
	}
	if err := Strays(t.Context(), db); !errors.As(err, &stray) || len(stray.Files) != 4 {
		t.Errorf("strays: %v", err)
	}
	if _, err := Verify(t.Context(), db); !errors.As(err, &broken) || broken.Seq != 1 {
		t.Errorf("verify: %v", err)
	}
	if _, _, err := Export(t.Context(), db, io.Discard, Selection{}); !errors.As(err, &broken) {
		t.Errorf("export: %v", err)
	}
	stillThere(t, Dir(db), old)
}

// A database that goes on beside files that it does not know removes and replaces none, whatever their names are.
func TestRotateLeavesForeignFiles(t *testing.T) {
	for _, test := range []struct {
		name   string
		events int // of the other database, at first
		seq    int64
	}{
		{"shorter than the files", 25, 31},
		{"longer than the files", 50, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, old := orphaned(t)
			db := long(t, test.events)
			if err := makeDir(Dir(db)); err != nil {
				t.Fatal(err)
			}
			for name, data := range old {
				if err := os.WriteFile(filepath.Join(Dir(db), name), []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var stray *StrayError
			for range 3 {
				did, err := Rotate(t.Context(), db, small)
				if !errors.As(err, &stray) || len(stray.Files) != 4 || len(did.Segments) > 0 {
					t.Errorf("moved %+v, %v", did, err)
				}
				grow(t, db, 2)
			}
			stillThere(t, Dir(db), old)
			var broken *BrokenError
			if _, err := Verify(t.Context(), db); !errors.As(err, &broken) || broken.Seq > test.seq+6 {
				t.Errorf("verify: %v", err)
			}
			if n := inTable(t, db); n != test.events+6 {
				t.Errorf("%d events are in the table", n)
			}
		})
	}
}

// A file that comes between the look and the new file is not replaced either.
func TestNewFileReplacesNone(t *testing.T) {
	db := long(t, 50)
	defer func(old func(string)) { atStep = old }(atStep)
	name := filepath.Join(Dir(db), segmentName(1, 10))
	atStep = func(step string) {
		if step == "file is written" {
			if err := os.WriteFile(name, []byte("of somebody else"), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Rotate(t.Context(), db, small); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
	if data, err := os.ReadFile(name); err != nil || string(data) != "of somebody else" || inTable(t, db) != 50 {
		t.Errorf("it was replaced: %q, %v", data, err)
	}
}

// Files that others put into the directory stay, also such that begin with a dot.
func TestRotateRemovesOnlyItsOwn(t *testing.T) {
	db := long(t, 50)
	if err := makeDir(Dir(db)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".my-notes", "notes", ".new-segment", "..new-segment-123"} {
		if err := os.WriteFile(filepath.Join(Dir(db), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate(t, db, small)
	if names := files(t, db); len(names) != 6 || !slices.Contains(names, ".my-notes") || !slices.Contains(names, "notes") {
		t.Errorf("there are %v", names)
	}
}

// What is in the place of a file, and is none, is found, and holds nobody.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a fifo":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link":      func(path string) error { return os.Symlink("elsewhere", path) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			db := long(t, 50)
			rotate(t, db, small)
			path := forger{t, db}.file(1)
			if err := os.Rename(path, filepath.Join(Dir(db), "elsewhere")); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			var broken *BrokenError
			if _, err := Verify(t.Context(), db); !errors.As(err, &broken) || broken.Seq != 11 || !strings.Contains(broken.Why, "not a regular file") {
				t.Errorf("verify: %v", err)
			}
			if err := os.Rename(path, filepath.Join(Dir(db), segmentName(11, 19))); err != nil {
				t.Fatal(err)
			}
			var stray *StrayError
			if err := Strays(t.Context(), db); !errors.As(err, &stray) || len(stray.Files) != 1 {
				t.Errorf("under another name: %v", err)
			}
		})
	}
}

func TestVerifyFindsLostTriggers(t *testing.T) {
	db := long(t, 20)
	if _, err := db.Exec("DROP TRIGGER audit_events_no_delete"); err != nil {
		t.Fatal(err)
	}
	var unguarded *UnguardedError
	report, err := Verify(t.Context(), db)
	if !errors.As(err, &unguarded) || !slices.Equal(unguarded.Triggers, []string{"audit_events_no_delete"}) || report.Seq != 20 {
		t.Errorf("got %+v, %v", report, err)
	}
	var out bytes.Buffer
	if n, _, err := Export(t.Context(), db, &out, Selection{}); err != nil || n != 20 {
		t.Errorf("a whole trail can be exported: %d, %v", n, err)
	}
}

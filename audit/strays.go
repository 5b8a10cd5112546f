package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/silk-sandbox/silk/store"
)

// StrayError says that files hold events which the database does not know: it is new, or older than they are, or another
// one. They are the rest of a trail, so nothing removes or replaces them.
type StrayError struct {
	Dir   string
	Files []string // names in Dir, at least one
}

func (e *StrayError) Error() string {
	return fmt.Sprintf("%s has events that the database does not know (%s): put back the database that belongs to it, or move that directory away and keep it", e.Dir, e.names())
}

// names are the first of the files, and how many more there are.
func (e *StrayError) names() string {
	if more := len(e.Files) - 1; more > 0 {
		return fmt.Sprintf("%s and %d more", e.Files[0], more)
	}
	return e.Files[0]
}

// WithoutDatabase is [Verify] of a state directory that has no database: a [*BrokenError] if it has files of events.
func WithoutDatabase(home string) error {
	dir := filepath.Join(home, DirName)
	names, err := segmentFiles(dir)
	if err != nil || len(names) == 0 {
		return err
	}
	return brokenf(1, "there is no database, but %s has files of events (%s)", dir, (&StrayError{dir, names}).names())
}

// Strays looks for files of events that db does not know: a [*StrayError] if there are any. It reads only those that no
// rotation of db has finished.
func Strays(ctx context.Context, db *store.DB) error {
	names, err := segmentFiles(Dir(db)) // before the database is looked at: it may go on meanwhile
	if err != nil || len(names) == 0 {
		return err
	}
	return db.View(ctx, func(tx *sql.Tx) error {
		all, err := segments(ctx, tx)
		if err != nil {
			return err
		}
		_, foreign, err := unlisted(ctx, tx, Dir(db), names, all)
		if err == nil && len(foreign) > 0 {
			err = &StrayError{Dir(db), foreign}
		}
		return err
	})
}

// unlisted tells the files that are not in the list of segments apart: leftovers are of a rotation of this database that
// ended before they were listed, so the table has their events; foreign are all others. Files that are gone are neither.
func unlisted(ctx context.Context, tx *sql.Tx, dir string, names []string, all []segment) (leftovers, foreign []string, err error) {
	for _, name := range names {
		first, last, ok := parseSegmentName(name)
		if !ok || slices.ContainsFunc(all, func(s segment) bool { return s.First == first && s.Last == last }) {
			continue
		}
		own, err := inTheTable(ctx, tx, filepath.Join(dir, name), end(all), Head{Seq: last})
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, nil, err
		case own:
			leftovers = append(leftovers, name)
		default:
			foreign = append(foreign, name)
		}
	}
	return leftovers, foreign, nil
}

// inTheTable says whether a file is a whole segment that follows after and whose events, up to last, the table has.
func inTheTable(ctx context.Context, tx *sql.Tx, path string, after, last Head) (bool, error) {
	if _, err := os.Lstat(path); err != nil {
		return false, err
	}
	err := tx.QueryRowContext(ctx, "SELECT hash FROM audit_events WHERE seq = ?", last.Seq).Scan(&last.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read audit trail: %w", err)
	}
	f, err := openSegment(path)
	if errors.Is(err, errSegment) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // nothing was written
	head, err := readSegment(f, after, func(Event) error { return ctx.Err() })
	if err != nil && ctx.Err() != nil {
		return false, ctx.Err()
	}
	return err == nil && head == last, nil // what is no whole segment is not ours: we give a file its name when it is
}

// openSegment opens a regular file for reading. What is none is no segment.
func openSegment(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		if info, other := os.Lstat(path); other == nil && !info.Mode().IsRegular() {
			return nil, segmentf("it is not a regular file")
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = segmentf("it is not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// mayBegin refuses the first event of a trail beside files of another one: two chains in one place are none.
func mayBegin(ctx context.Context, tx *sql.Tx) error {
	var file string
	if err := tx.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file); err != nil {
		return fmt.Errorf("read where the audit trail is: %w", err)
	}
	if file == "" { // a database server
		return nil
	}
	dir := filepath.Join(filepath.Dir(file), DirName)
	names, err := segmentFiles(dir)
	if err == nil && len(names) > 0 {
		err = &StrayError{dir, names}
	}
	if err != nil {
		return fmt.Errorf("begin audit trail: %w", err)
	}
	return nil
}

package audit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/store"
)

// Policy says when events move into files, and when files go. Its zero value is the default.
type Policy struct {
	// MaxBytes is the size of the table's events at which old ones move, and of the events in one file before
	// compression; an event counts as its data and 256 bytes. 0: 4 MiB, about 5,000 runs: moving them takes less than
	// a second, which the one-shot silk that meets them adds to its end.
	MaxBytes int64

	// MaxAge is the age of the oldest event at which old ones move. 0: 30 days, a file a month on a quiet host.
	MaxAge time.Duration

	// Keep is how many of the newest events stay in the table at least, where SQL finds them; the others move when there
	// is a quarter as many of them. 0: 1,000, the last 500 runs.
	Keep int64

	// Retention is the age of its newest event at which a file is removed; an event in the trail says what is gone.
	// 0: everything is kept. Evidence that was removed is gone, so it is the owner who says so.
	Retention time.Duration
}

func (p Policy) withDefaults() Policy {
	p.MaxBytes = cmp.Or(p.MaxBytes, 4<<20)
	p.MaxAge = cmp.Or(p.MaxAge, 30*24*time.Hour)
	p.Keep = cmp.Or(p.Keep, 1000)
	return p
}

// Rotated says what a rotation did.
type Rotated struct {
	Segments []string `json:"segments"` // names of new files in Dir
	Removed  []string `json:"removed"`  // names of files that retention removed
	More     bool     `json:"-"`        // that is not all there is to do: call again
}

const (
	lockName  = "lock"
	newName   = ".new-segment" // of a file until it is whole
	filesMax  = 4              // that one call makes: what a run waits for at most, when a long trail meets its first rotation
	deleteMax = 2000           // rows that one transaction deletes: some 50 ms, for which others wait
)

// atStep is called after each step of a rotation that a crash could be the end of, and of a verification. Tests set it.
var atStep = func(string) {}

// Rotate moves old events into files and removes old files, as p says. Mostly there is nothing to do, which costs two
// queries; one call makes a few files at most. At most one rotation of a state directory works at a time; while another does, Rotate does nothing. Events
// may be appended meanwhile.
//
// Events in a database server stay in its table, and Rotate does nothing: a file would be on the host that made it, and the
// other servers would find the trail broken. Keeping a table of that size is what such a database is for; a Policy.Retention
// cannot be kept there, and whoever opens the store must refuse it.
//
// A crash, a full disk or a cancelled ctx at any moment loses nothing: events leave the table only when the file that
// holds them is on disk, was read back, and is listed; the next rotation finishes or repeats the rest. Beside files of
// another trail nothing is moved, and the error is a [*StrayError].
func Rotate(ctx context.Context, db *store.DB, p Policy) (did Rotated, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("rotate audit trail: %w", err)
		}
	}()
	if db.Shared() {
		return did, nil
	}
	p = p.withDefaults()
	if due, err := p.due(ctx, db); err != nil || !due {
		return did, err
	}
	dir := Dir(db)
	if err := makeDir(dir); err != nil {
		return did, err
	}
	lock, err := lockfile.Take(filepath.Join(dir, lockName))
	if errors.Is(err, lockfile.ErrHeld) {
		return did, nil
	}
	if err != nil {
		return did, err
	}
	defer func() { err = errors.Join(err, lock.Leave()) }()

	r := rotation{db: db, dir: dir, policy: p}
	if err := r.tidy(ctx); err != nil {
		return did, err
	}
	for !did.More {
		name, err := r.seal(ctx)
		if err != nil {
			return did, err
		}
		if name == "" {
			break
		}
		did.Segments = append(did.Segments, name)
		did.More = len(did.Segments) == filesMax
	}
	did.Removed, err = r.retain(ctx)
	return did, err
}

// makeDir makes the directory of segments, which only its owner may look into. What somebody opened to others is closed.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return atomicfile.SyncDir(filepath.Dir(dir))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// state is what the table holds, in numbers.
type state struct {
	first, last int64 // seq; 0: no events
	oldest      int64 // created_at of first
	bytes       int64
	sealed      int64 // the last seq that a segment holds
}

func (p Policy) look(ctx context.Context, tx *sql.Tx) (s state, err error) {
	err = tx.QueryRowContext(ctx, `SELECT coalesce((SELECT min(seq) FROM audit_events), 0), coalesce((SELECT max(seq) FROM audit_events), 0),
		coalesce((SELECT created_at FROM audit_events ORDER BY seq LIMIT 1), 0), (SELECT bytes FROM audit_size),
		coalesce((SELECT max(last_seq) FROM audit_segments), 0)`).Scan(&s.first, &s.last, &s.oldest, &s.bytes, &s.sealed)
	return s, err
}

// full says whether events should move now. A quarter of Keep must be there to move: else each new event could make a file
// of its own, where the ones to keep are large or old themselves.
func (p Policy) full(s state) bool {
	movable := s.last - p.Keep - s.first + 1
	return movable > 0 && 4*movable >= p.Keep && (s.bytes >= p.MaxBytes || s.oldest <= time.Now().Add(-p.MaxAge).UnixMilli())
}

// due says whether there is anything to do.
func (p Policy) due(ctx context.Context, db *store.DB) (due bool, err error) {
	err = db.View(ctx, func(tx *sql.Tx) error {
		s, err := p.look(ctx, tx)
		if err != nil {
			return err
		}
		if due = s.last > 0 && (s.first <= s.sealed || p.full(s)); due || s.sealed == 0 {
			return nil
		}
		all, err := segments(ctx, tx)
		if err != nil {
			return err
		}
		old, err := p.expired(ctx, tx, all)
		due = slices.ContainsFunc(all, func(s segment) bool { return s.State == removing }) || len(old) > 0
		return err
	})
	return due, err
}

// rotation is one that holds the lock.
type rotation struct {
	db     *store.DB
	dir    string
	policy Policy
}

// tidy finishes what an earlier rotation began, or clears it away.
func (r *rotation) tidy(ctx context.Context) error {
	names, err := segmentFiles(r.dir)
	if err != nil {
		return err
	}
	var all []segment
	var s state
	var leftovers, foreign []string
	err = r.db.View(ctx, func(tx *sql.Tx) (err error) {
		if all, err = segments(ctx, tx); err == nil {
			s, err = r.policy.look(ctx, tx)
		}
		if err == nil {
			leftovers, foreign, err = unlisted(ctx, tx, r.dir, names, all)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		return &StrayError{r.dir, foreign}
	}
	unfinished, err := r.unfinished()
	if err != nil {
		return err
	}
	for _, name := range leftovers {
		unfinished = append(unfinished, filepath.Join(r.dir, name))
	}
	for _, file := range unfinished {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if err := r.removeFiles(ctx, all); err != nil {
		return err
	}
	return r.deleteRows(ctx, s.first, s.sealed)
}

// unfinished are the files that an earlier rotation was still writing.
func (r *rotation) unfinished() (files []string, err error) {
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		if e.Name() == newName || atomicfile.IsTemporary(e.Name()) && strings.HasPrefix(e.Name(), "."+newName) {
			files = append(files, filepath.Join(r.dir, e.Name()))
		}
	}
	return files, err
}

// seal moves the oldest events into a new file, whose name it returns, if there are enough.
func (r *rotation) seal(ctx context.Context) (name string, err error) {
	var s state
	var after Head
	err = r.db.View(ctx, func(tx *sql.Tx) error {
		all, err := segments(ctx, tx)
		if err == nil {
			after = end(all)
			s, err = r.policy.look(ctx, tx)
		}
		return err
	})
	if err != nil || s.last == 0 || !r.policy.full(s) {
		return "", err
	}
	seg, moved, err := r.write(ctx, after, s.last-r.policy.Keep)
	if err != nil {
		return "", err
	}
	atStep("file is durable")
	err = r.db.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO audit_segments (first_seq, last_seq, last_hash, newest, sealed_at, state) VALUES (?, ?, ?, ?, ?, ?)`,
			seg.First, seg.Last, seg.LastHash, seg.Newest, time.Now().UnixMilli(), sealed)
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE audit_size SET bytes = max(0, bytes - ?)", moved)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list segment: %w", err) // the file is cleared away next time
	}
	atStep("file is listed")
	return segmentName(seg.First, seg.Last), r.deleteRows(ctx, seg.First, seg.Last)
}

// write makes the file of the events that follow after, up to last or until there are MaxBytes of them, and reads it
// again. moved is their size.
func (r *rotation) write(ctx context.Context, after Head, last int64) (seg segment, moved int64, err error) {
	if err := r.db.Sync(); err != nil { // a file must never hold events that a power loss takes from the database
		return seg, 0, err
	}
	temp := filepath.Join(r.dir, newName)
	err = atomicfile.WriteFunc(temp, segmentPerm, func(f io.Writer) error {
		w, err := newWriter(f, after)
		if err != nil {
			return err
		}
		full := errors.New("full")
		err = r.db.View(ctx, func(tx *sql.Tx) error {
			return rows(ctx, tx, "WHERE seq > ? AND seq <= ? ORDER BY seq", []any{after.Seq, last}, func(e Event) error {
				if moved >= r.policy.MaxBytes {
					return full
				}
				seg.Newest = e.CreatedAt
				moved += e.size()
				return w.add(e)
			})
		})
		if err != nil && !errors.Is(err, full) {
			return err
		}
		atStep("events are written")
		if err := w.close(); err != nil {
			return err
		}
		if w.events == 0 {
			return errors.New("the events to move are not there")
		}
		seg.First, seg.Last, seg.LastHash = after.Seq+1, w.head.Seq, w.head.Hash
		return nil
	})
	if err != nil {
		return seg, 0, fmt.Errorf("write segment: %w", err)
	}
	atStep("file is written")
	if err := r.publish(ctx, temp, after, seg); err != nil {
		return seg, 0, errors.Join(fmt.Errorf("write segment: %w", err), os.Remove(temp))
	}
	return seg, moved, atomicfile.SyncDir(r.dir)
}

// publish gives a new file its name, if it holds what it should: until then the events are in the table.
func (r *rotation) publish(ctx context.Context, temp string, after Head, seg segment) error {
	f, err := openSegment(temp)
	if err != nil {
		return err
	}
	defer f.Close() // nothing was written
	head, err := readSegment(f, after, func(Event) error { return ctx.Err() })
	if err == nil && head != (Head{seg.Last, seg.LastHash}) {
		err = fmt.Errorf("it ends with event %d instead of %d", head.Seq, seg.Last)
	}
	if err != nil {
		return fmt.Errorf("read it again: %w", err)
	}
	// A link, because a rename would replace what somebody else has put there.
	if err := os.Link(temp, filepath.Join(r.dir, segmentName(seg.First, seg.Last))); err != nil {
		return err
	}
	return os.Remove(temp)
}

// deleteRows deletes the events first to last from the table, some at a time.
func (r *rotation) deleteRows(ctx context.Context, first, last int64) error {
	for first > 0 && first <= last {
		to := min(first+deleteMax-1, last)
		err := r.db.Update(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM audit_events WHERE seq BETWEEN ? AND ?", first, to)
			return err
		})
		if err != nil {
			return fmt.Errorf("delete what segment holds: %w", err)
		}
		atStep("rows are deleted")
		first = to + 1
	}
	return nil
}

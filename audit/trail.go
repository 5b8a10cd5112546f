package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/store"
)

// DirName is the directory of the segments, beside the database.
const DirName = "audit"

// Dir is the directory of the segments of db, which the first rotation makes. It is empty if db is in a database server, where
// there are none: see [Rotate].
func Dir(db *store.DB) string {
	if db.Shared() {
		return ""
	}
	return filepath.Join(filepath.Dir(db.Path()), DirName)
}

// Filter chooses events. Its zero value chooses the newest 100.
type Filter struct {
	Run    string // of this run only
	Prefix string // event names that begin so: "sandbox_"
	Before int64  // seq below this one: pass the last Seq of a page to get the next
	Limit  int    // at most; 0: 100
}

func (f Filter) matches(e Event) bool {
	return (f.Run == "" || f.Run == e.Run) && strings.HasPrefix(string(e.Name), f.Prefix) && (f.Before <= 0 || e.Seq < f.Before)
}

// List returns events, the newest first. It reads files of old events only when the table has too few.
func List(ctx context.Context, db *store.DB, f Filter) (events []Event, err error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	err = db.View(ctx, func(tx *sql.Tx) error {
		all, err := segments(ctx, tx)
		if err != nil {
			return err
		}
		where, args := []string{"seq > ?"}, []any{end(all).Seq}
		add := func(cond string, arg ...any) { where, args = append(where, cond), append(args, arg...) }
		if f.Run != "" {
			add("intent_id = ?", f.Run)
		}
		if f.Prefix != "" {
			add("substr(event, 1, length(?)) = ?", f.Prefix, f.Prefix)
		}
		if f.Before > 0 {
			add("seq < ?", f.Before)
		}
		args = append(args, f.Limit)
		err = rows(ctx, tx, "WHERE "+strings.Join(where, " AND ")+" ORDER BY seq DESC LIMIT ?", args, func(e Event) error {
			events = append(events, e)
			return nil
		})
		for i := len(all) - 1; err == nil && i >= 0 && len(events) < f.Limit && all[i].State == sealed; i-- {
			if f.Before > 0 && all[i].First >= f.Before {
				continue
			}
			var older []Event // the newest that still fit, oldest first
			err = readFile(Dir(db), all, i, func(e Event) error {
				if f.matches(e) {
					older = append(older, e)
					older = older[max(0, len(older)-(f.Limit-len(events))):]
				}
				return ctx.Err()
			})
			slices.Reverse(older)
			events = append(events, older...)
		}
		return err
	})
	return events, err
}

// After returns up to limit events that follow seq, the oldest first: what is new since a look before.
func After(ctx context.Context, db *store.DB, seq int64, limit int) (events []Event, err error) {
	enough := errors.New("enough")
	err = db.View(ctx, func(tx *sql.Tx) error {
		all, err := segments(ctx, tx)
		if err != nil {
			return err
		}
		take := func(e Event) error {
			if e.Seq > seq {
				events = append(events, e)
			}
			if len(events) >= limit {
				return enough
			}
			return ctx.Err()
		}
		for i, s := range all {
			if s.State != sealed || s.Last <= seq {
				continue
			}
			if err := readFile(Dir(db), all, i, take); err != nil {
				return err
			}
		}
		return rows(ctx, tx, "WHERE seq > ? ORDER BY seq LIMIT ?", []any{max(seq, end(all).Seq), limit - len(events)}, take)
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return events, err
}

// segments lists all segments, the oldest first, those that are gone included.
func segments(ctx context.Context, tx *sql.Tx) (all []segment, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT first_seq, last_seq, last_hash, newest, state FROM audit_segments ORDER BY last_seq")
	if err != nil {
		return nil, fmt.Errorf("list audit segments: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var s segment
		if err := rows.Scan(&s.First, &s.Last, &s.LastHash, &s.Newest, &s.State); err != nil {
			return nil, fmt.Errorf("list audit segments: %w", err)
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list audit segments: %w", err)
	}
	return all, nil
}

// end is the head at the end of segments.
func end(all []segment) Head {
	if len(all) == 0 {
		return start()
	}
	last := all[len(all)-1]
	return Head{Seq: last.Last, Hash: last.LastHash}
}

// readFile reads segment i, see readSegment, and that it ends as it is listed. What is wrong with it is a [*BrokenError].
func readFile(dir string, all []segment, i int, visit func(Event) error) error {
	name := segmentName(all[i].First, all[i].Last)
	f, err := openSegment(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return &missingError{all[i]}
	}
	if errors.Is(err, errSegment) {
		return brokenf(all[i].First, "segment %s is %v", name, err)
	}
	if err != nil {
		return fmt.Errorf("read audit segment: %w", err)
	}
	defer f.Close() // nothing was written
	after := end(all[:i])
	head, err := readSegment(f, after, visit)
	switch {
	case errors.Is(err, errSegment):
		return brokenf(head.Seq+1, "segment %s is %v", name, err)
	case err != nil:
		return err
	case head != end(all[:i+1]):
		return brokenf(all[i].First, "segment %s ends with event %d, hash %s, not as it was sealed", name, head.Seq, head.Hash)
	}
	return nil
}

// missingError says that the file of a segment is gone.
type missingError struct{ segment }

func (e *missingError) Error() string { return e.Unwrap().Error() }

func (e *missingError) Unwrap() error {
	return brokenf(e.First, "events %d to %d are missing with segment %s", e.First, e.Last, segmentName(e.First, e.Last))
}

// rows calls visit with every event of the table that the rest of a query finds.
func rows(ctx context.Context, tx *sql.Tx, rest string, args []any, visit func(Event) error) error {
	rows, err := tx.QueryContext(ctx, "SELECT id, timestamp, intent_id, event, data, created_at, seq, prev_hash, hash FROM audit_events "+rest, args...)
	if err != nil {
		return fmt.Errorf("read audit trail: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e Event
		var data string
		if err := rows.Scan(&e.ID, &e.Timestamp, &e.Run, &e.Name, &data, &e.CreatedAt, &e.Seq, &e.PrevHash, &e.Hash); err != nil {
			return fmt.Errorf("read audit trail: %w", err)
		}
		e.Data = []byte(data)
		if err := visit(e); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read audit trail: %w", err)
	}
	return nil
}

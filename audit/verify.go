package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/store"
)

// Report is what [Verify] found.
type Report struct {
	Head          // the end of the part that is whole
	Segments int  // files that were read
	Gap      *Gap // what retention removed; nil: nothing
}

// GoneError says that a head that was kept cannot be compared any more. The trail itself is whole.
type GoneError struct {
	Seq int64 // of the head
	Gap Gap
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("event %d cannot be compared with the head that was kept: retention removed events 1 to %d, the last of them on %s",
		e.Seq, e.Gap.LastSeq, time.UnixMilli(e.Gap.AtMs).UTC().Format(time.DateOnly))
}

// UnguardedError says that the trail is whole, but that the database no longer forbids changes of it: somebody took that
// away, which silk never does.
type UnguardedError struct{ Triggers []string }

func (e *UnguardedError) Error() string {
	return "the database no longer refuses changes of the audit trail, or of what is held: the triggers " + strings.Join(e.Triggers, ", ") + " were removed or changed"
}

// Verify reads the whole trail, table and files. If an event was changed, removed, inserted or moved, the error is a
// [*BrokenError], and the head is the end of the part that is whole. What retention removed does not break the trail,
// because an event in the rest says so.
//
// known are heads of this trail that were printed earlier: each must still be in it. That finds a trail whose newest
// events were cut off, or which was built anew, which nothing inside it can show. A head of which retention left nothing to
// compare is a [*GoneError]. A database without its triggers is an [*UnguardedError].
func Verify(ctx context.Context, db *store.DB, known ...Head) (Report, error) {
	for attempt := 0; ; attempt++ {
		report, err := verify(ctx, db, known, func(Event) error { return nil })
		// Retention may have removed a file between the look at the list and the one at the file.
		var gone *missingError
		if errors.As(err, &gone) && attempt < 3 && !stillListed(ctx, db, gone.segment) {
			continue
		}
		if err == nil {
			err = Guarded(ctx, db)
		}
		return report, err
	}
}

// Guarded looks whether the database forbids to change the trail: an [*UnguardedError] if not.
func Guarded(ctx context.Context, db *store.DB) error {
	lost, err := db.LostTriggers(ctx)
	if err == nil && len(lost) > 0 {
		err = &UnguardedError{lost}
	}
	return err
}

func stillListed(ctx context.Context, db *store.DB, s segment) bool {
	var state string
	err := db.QueryRowContext(ctx, "SELECT state FROM audit_segments WHERE last_seq = ?", s.Last).Scan(&state)
	return err != nil || state == sealed
}

// verify is Verify that calls visit with each event after it was checked.
func verify(ctx context.Context, db *store.DB, known []Head, visit func(Event) error) (report Report, err error) {
	report.Head = start()
	files, err := segmentFiles(Dir(db)) // before the database is looked at: it may go on meanwhile
	if err != nil {
		return report, err
	}
	err = db.View(ctx, func(tx *sql.Tx) error {
		all, err := segments(ctx, tx)
		if err != nil {
			return err
		}
		gone := 0
		for gone < len(all) && all[gone].State != sealed {
			gone++
		}
		v := verifier{known: known, gap: end(all[:gone]), visit: visit, report: &report}
		report.Head = v.gap
		for i := gone; i < len(all); i++ {
			err := readFile(Dir(db), all, i, func(e Event) error {
				report.Head = Head{e.Seq, e.Hash}
				if err := v.event(e); err != nil {
					return err
				}
				return ctx.Err()
			})
			if err != nil {
				return err
			}
			report.Segments++
			atStep("file is verified")
		}
		if err := v.table(ctx, tx); err != nil {
			return err
		}
		if err := v.strangers(ctx, tx, Dir(db), files, all); err != nil {
			return err
		}
		return v.finish()
	})
	return report, err
}

// verifier is one reading of a trail.
type verifier struct {
	known  []Head
	gap    Head // the end of what retention is said to have removed
	visit  func(Event) error
	report *Report
}

// event looks at an event that continues the chain.
func (v *verifier) event(e Event) error {
	for _, k := range v.known {
		if k.Seq == e.Seq && k.Hash != e.Hash {
			return brokenf(e.Seq, "it has hash %s, but the head that was kept is %s: that is another one, or the trail was built anew", e.Hash, k.Hash)
		}
	}
	if head, ok := removal(e); ok && head == v.gap && head.Seq > 0 {
		v.report.Gap = &Gap{LastSeq: head.Seq, AtMs: e.Timestamp}
	}
	return v.visit(e)
}

// table reads the rest of the trail from the table. Rows that are in a segment already, because a rotation ended before
// they were deleted, must lead to its end.
func (v *verifier) table(ctx context.Context, tx *sql.Tx) error {
	sealed, head, first := v.report.Head, start(), true
	err := rows(ctx, tx, "ORDER BY seq", nil, func(e Event) error {
		if first && e.Seq <= sealed.Seq {
			head = Head{e.Seq - 1, e.PrevHash}
		} else if first {
			head = sealed
		}
		first = false
		if err := head.follow(e); err != nil {
			return err
		}
		if e.Seq == sealed.Seq && e.Hash != sealed.Hash {
			return brokenf(e.Seq, "it is not the event that its segment ends with")
		}
		if e.Seq <= sealed.Seq {
			return nil
		}
		v.report.Head = head
		return v.event(e)
	})
	if err != nil {
		return err
	}
	if sealed.Seq > 0 && v.report.Seq == sealed.Seq {
		return brokenf(sealed.Seq+1, "it is missing: the newest event is always in the table")
	}
	return nil
}

// segmentFiles lists the names of files that are named as segments. Without a directory there are none.
func segmentFiles(dir string) (names []string, err error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list audit segments: %w", err)
	}
	for _, e := range entries {
		if _, _, ok := parseSegmentName(e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// strangers looks for files with events that the database does not have: it lost them, or is not the one they are from.
func (v *verifier) strangers(ctx context.Context, tx *sql.Tx, dir string, names []string, all []segment) error {
	_, foreign, err := unlisted(ctx, tx, dir, names, all)
	if err != nil {
		return err
	}
	for _, name := range foreign {
		if _, last, _ := parseSegmentName(name); last > v.report.Seq {
			return brokenf(v.report.Seq+1, "it is missing: segment %s holds later events than the database knows", name)
		}
	}
	for _, name := range foreign {
		first, _, _ := parseSegmentName(name)
		return brokenf(first, "the database does not know the events that segment %s holds", name)
	}
	return nil
}

// finish checks what only the whole trail can show.
func (v *verifier) finish() error {
	if v.gap.Seq > 0 && v.report.Gap == nil {
		v.report.Head = start()
		return brokenf(1, "events 1 to %d are missing, and no event says that retention removed them", v.gap.Seq)
	}
	for _, k := range v.known {
		switch {
		case k.Seq > v.report.Seq:
			return brokenf(v.report.Seq+1, "it is missing: the head that was kept is event %d, the trail ends with %d", k.Seq, v.report.Seq)
		case k.Seq == v.gap.Seq && k.Hash != v.gap.Hash:
			return brokenf(k.Seq, "it had hash %s, but the head that was kept is %s", v.gap.Hash, k.Hash)
		case k.Seq < v.gap.Seq:
			return &GoneError{k.Seq, *v.report.Gap}
		}
	}
	return nil
}

package retention

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/store"
)

// Hold says that a run stays, with all that its record names.
type Hold struct {
	Run    string `json:"run"`
	Reason string `json:"reason"`
	AtMs   int64  `json:"at_ms"`

	// FirstSeq is the run's first audit event: this one and all later ones stay.
	FirstSeq int64 `json:"first_seq"`

	// OutputGone and ArtifactsGone say that these had been removed before, when; 0: they were not.
	OutputGoneMs    int64 `json:"output_gone_ms,omitempty"`
	ArtifactsGoneMs int64 `json:"artifacts_gone_ms,omitempty"`
}

// MaxReason bounds the text of a reason, in bytes.
const MaxReason = 4096

// ErrNotHeld is returned by [Lift].
var ErrNotHeld = errors.New("the run is not held")

// allEvents as the first event of a hold keeps the whole trail.
const allEvents = 1

// Place puts a run with a full id under hold, and writes that into the audit trail; by is who asks. One that is held stays so, with the
// new reason. The run must have a record (record.ErrNotFound): what waits has none yet. The image is not this function's: [Keeper.Place]
// keeps it too.
func Place(ctx context.Context, db *store.DB, run, reason, by string) (h Hold, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("hold run %s: %w", run, err)
		}
	}()
	if len(reason) > MaxReason {
		return h, fmt.Errorf("the reason has %d bytes, more than %d", len(reason), MaxReason)
	}
	now := time.Now()
	e, err := audit.New(run, audit.RecordHeld, now, map[string]any{"intentId": run, "reason": reason, "by": by})
	if err != nil {
		return h, err
	}
	err = db.Update(ctx, func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM runs WHERE id = ?", run).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			return record.ErrNotFound
		}
		// Until the first event is found, which takes reading, the hold keeps them all.
		_, err := tx.ExecContext(ctx, `INSERT INTO holds (run, reason, held_at, first_seq) VALUES (?, ?, ?, ?)
			ON CONFLICT (run) DO UPDATE SET reason = excluded.reason`, run, reason, now.UnixMilli(), allEvents)
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, &e)
	})
	if err == nil {
		err = narrow(ctx, db, run)
	}
	if err != nil {
		return h, err
	}
	all, err := list(ctx, db, "WHERE h.run = ?", run)
	if err == nil && len(all) == 0 {
		err = ErrNotHeld // it was lifted meanwhile
	}
	if err != nil {
		return h, err
	}
	return all[0], nil
}

// narrow finds the first event of a held run, which is the first one that its hold keeps from then on.
func narrow(ctx context.Context, db *store.DB, run string) error {
	seq, err := audit.First(ctx, db, run)
	if err != nil {
		return err
	}
	return db.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE holds SET first_seq = ? WHERE run = ?", seq, run)
		return err
	})
}

// Lift ends the hold of a run. Error: [ErrNotHeld].
func Lift(ctx context.Context, db *store.DB, run, by string) error {
	e, err := audit.New(run, audit.RecordReleased, time.Now(), map[string]any{"intentId": run, "by": by})
	if err == nil {
		err = db.Update(ctx, func(tx *sql.Tx) error {
			done, err := tx.ExecContext(ctx, "DELETE FROM holds WHERE run = ?", run)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil || n == 0 {
				return errors.Join(err, ErrNotHeld)
			}
			return audit.Append(ctx, tx, &e)
		})
	}
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	return nil
}

// Holds lists what is held, the oldest run first.
func Holds(ctx context.Context, db record.Querier) ([]Hold, error) { return list(ctx, db, "") }

func list(ctx context.Context, db record.Querier, where string, args ...any) ([]Hold, error) {
	rows, err := db.QueryContext(ctx, `SELECT h.run, h.reason, h.held_at, h.first_seq, coalesce(r.output_gone, 0), coalesce(r.artifacts_gone, 0)
		FROM holds h JOIN runs r ON r.id = h.run `+where+" ORDER BY h.run", args...)
	if err != nil {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	defer rows.Close()
	all := []Hold{}
	for rows.Next() {
		var h Hold
		if err := rows.Scan(&h.Run, &h.Reason, &h.AtMs, &h.FirstSeq, &h.OutputGoneMs, &h.ArtifactsGoneMs); err != nil {
			return nil, fmt.Errorf("list holds: %w", err)
		}
		all = append(all, h)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	return all, nil
}

// Named are the SHA-256 of the artifacts that the records of held runs name, for those who look after copies of them elsewhere.
func Named(ctx context.Context, db *store.DB) (map[string]bool, error) {
	holds, err := Holds(ctx, db)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, h := range holds {
		e, err := record.Get(ctx, db, h.Run)
		if err != nil {
			return nil, err
		}
		for _, a := range e.Record.Artifacts {
			if a.SHA256 != "" {
				named[a.SHA256] = true
			}
		}
	}
	return named, nil
}

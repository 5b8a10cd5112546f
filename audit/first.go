package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/silk-sandbox/silk/store"
)

// First is the number of a run's first event, or, if it has none, that of the next event of whatever run. It reads the files from the
// oldest one on.
func First(ctx context.Context, db *store.DB, run string) (seq int64, err error) {
	found := errors.New("found")
	err = db.View(ctx, func(tx *sql.Tx) error {
		all, err := segments(ctx, tx)
		if err != nil {
			return err
		}
		for i, s := range all {
			if s.State != sealed {
				continue
			}
			err := readFile(Dir(db), all, i, func(e Event) error {
				if e.Run == run {
					seq = e.Seq
					return found
				}
				return ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, `SELECT coalesce(min(seq), (SELECT coalesce(max(seq), 0) + 1 FROM audit_events)) FROM audit_events
			WHERE intent_id = ? AND seq > ?`, run, end(all).Seq).Scan(&seq)
	})
	if err != nil && !errors.Is(err, found) {
		return 0, fmt.Errorf("look for the first audit event of run %s: %w", run, err)
	}
	return seq, nil
}

// heldFrom is the first event that a hold keeps, with all later ones (table holds: package retention); 0: there is no hold.
func heldFrom(ctx context.Context, tx *sql.Tx) (seq int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT coalesce(min(first_seq), 0) FROM holds").Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("look for holds: %w", err)
	}
	return seq, nil
}

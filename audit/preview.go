package audit

import (
	"context"
	"database/sql"

	"github.com/silk-sandbox/silk/store"
)

// Preview says what [Rotate] would do: whether old events would move into files, and which files that are there now
// retention would remove.
func Preview(ctx context.Context, db *store.DB, p Policy) (move bool, remove []string, err error) {
	if db.Shared() {
		return false, nil, nil
	}
	p = p.withDefaults()
	err = db.View(ctx, func(tx *sql.Tx) error {
		s, err := p.look(ctx, tx)
		if err != nil {
			return err
		}
		all, err := segments(ctx, tx)
		if err != nil {
			return err
		}
		move = s.last > 0 && p.full(s)
		old, err := p.expired(ctx, tx, all)
		for _, seg := range old {
			remove = append(remove, segmentName(seg.First, seg.Last))
		}
		return err
	})
	return move, remove, err
}

package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// expired are the oldest segments that neither retention keeps nor a hold.
func (p Policy) expired(ctx context.Context, tx *sql.Tx, all []segment) (old []segment, err error) {
	if p.Retention <= 0 {
		return nil, nil
	}
	held, err := heldFrom(ctx, tx)
	if err != nil {
		return nil, err
	}
	limit := time.Now().Add(-p.Retention).UnixMilli()
	for _, s := range all {
		switch {
		case s.State != sealed:
		case s.Newest > limit, held > 0 && s.Last >= held:
			return old, nil
		default:
			old = append(old, s)
		}
	}
	return old, nil
}

// retain removes the segments that are older than the policy keeps. An event that says so comes first: files that are
// gone without one are evidence.
func (r *rotation) retain(ctx context.Context) (names []string, err error) {
	var all, old []segment
	err = r.db.View(ctx, func(tx *sql.Tx) (err error) {
		if all, err = segments(ctx, tx); err == nil {
			old, err = r.policy.expired(ctx, tx, all)
		}
		return err
	})
	if err != nil || len(old) == 0 {
		return nil, err
	}
	last := old[len(old)-1]
	e, err := New("system", Removed, time.Now(), map[string]any{
		"intentId": "system", "firstSeq": old[0].First, "lastSeq": last.Last, "lastHash": last.LastHash, "retentionMs": r.policy.Retention.Milliseconds(),
	})
	if err != nil {
		return nil, err
	}
	err = r.db.Update(ctx, func(tx *sql.Tx) error {
		held, err := heldFrom(ctx, tx)
		if err != nil {
			return err
		}
		if held > 0 && held <= last.Last { // since the look above; the next rotation knows
			old = nil
			return nil
		}
		if err := Append(ctx, tx, &e); err != nil {
			return err
		}
		for _, s := range old {
			if err := setState(ctx, tx, s, removing); err != nil {
				return err
			}
		}
		all, err = segments(ctx, tx)
		return err
	})
	if err == nil && len(old) > 0 {
		err = r.db.Sync() // before the first file goes
	}
	if err != nil {
		return nil, fmt.Errorf("record what retention removes: %w", err)
	}
	atStep("removal is recorded")
	for _, s := range old {
		names = append(names, segmentName(s.First, s.Last))
	}
	return names, r.removeFiles(ctx, all)
}

// removeFiles removes the files of segments that are said to be gone.
func (r *rotation) removeFiles(ctx context.Context, all []segment) error {
	for _, s := range all {
		if s.State != removing {
			continue
		}
		err := os.Remove(filepath.Join(r.dir, segmentName(s.First, s.Last)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := atomicfile.SyncDir(r.dir); err != nil {
			return err
		}
		atStep("file is removed")
		if err := r.db.Update(ctx, func(tx *sql.Tx) error { return setState(ctx, tx, s, removed) }); err != nil {
			return err
		}
	}
	return nil
}

func setState(ctx context.Context, tx *sql.Tx, s segment, state string) error {
	_, err := tx.ExecContext(ctx, "UPDATE audit_segments SET state = ? WHERE last_seq = ?", state, s.Last)
	return err
}

// Gap is the part of a trail that retention removed.
type Gap struct {
	LastSeq int64 `json:"last_seq"` // events 1 to LastSeq are gone
	AtMs    int64 `json:"at_ms"`    // when the last of them were removed
}

// removal reads a Removed event: the head of what is gone.
func removal(e Event) (Head, bool) {
	var data struct {
		LastSeq  int64  `json:"lastSeq"`
		LastHash string `json:"lastHash"`
	}
	if e.Name != Removed || json.Unmarshal(e.Data, &data) != nil {
		return Head{}, false
	}
	return Head{data.LastSeq, data.LastHash}, true
}

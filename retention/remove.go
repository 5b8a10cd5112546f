package retention

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/record"
)

// atOnce is how many runs one transaction removes: some 10 ms, for which others wait. Their ids are in one audit event.
const atOnce = 200

// atStep is called after each step of a removal that a crash could be the end of. Tests set it.
var atStep = func(string) {}

// remove carries out what Decide says of runs, and returns what it did. What has been put under hold meanwhile stays.
func (k Keeper) remove(ctx context.Context, removals []Removal) (done []Removal, err error) {
	// One kind for one reason is one event.
	byReason := map[Removal][]Removal{}
	for _, r := range removals {
		if r.Kind != Image {
			about := Removal{Kind: r.Kind, Why: r.Why}
			byReason[about] = append(byReason[about], r)
		}
	}
	var faults []error
	for _, kind := range []Kind{Artifacts, Output, Record} { // what a record names goes before it
		for about, list := range byReason {
			if about.Kind != kind {
				continue
			}
			for some := range slices.Chunk(list, atOnce) {
				did, err := k.removeSome(ctx, about, some)
				done = append(done, did...)
				if err != nil {
					faults = append(faults, fmt.Errorf("remove %s: %w", kind, err))
				}
			}
		}
	}
	return done, errors.Join(faults...)
}

// removeSome removes one kind of what runs have left: in the database and the audit trail, then, when that is on the disk, its files.
func (k Keeper) removeSome(ctx context.Context, about Removal, some []Removal) (done []Removal, err error) {
	err = k.DB.Update(ctx, func(tx *sql.Tx) error {
		done = nil
		var runs []string
		var bytes int64
		for _, r := range some {
			ok, err := mayGo(ctx, tx, r.ID)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := forget(ctx, tx, r, k.now()); err != nil {
				return fmt.Errorf("of run %s: %w", r.ID, err)
			}
			done, runs, bytes = append(done, r), append(runs, r.ID), bytes+r.Bytes
		}
		if len(runs) == 0 {
			return nil
		}
		e, err := audit.New("system", audit.RunsRemoved, k.now(), map[string]any{
			"intentId": "system", "what": string(about.Kind), "runs": runs, "bytes": bytes, "reason": about.Why,
		})
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, &e)
	})
	if err != nil || len(done) == 0 {
		return nil, err
	}
	if err := k.DB.Sync(); err != nil { // before the first file goes
		return nil, err
	}
	atStep("removal is recorded")
	for _, r := range done {
		for _, kind := range []Kind{Artifacts, Output} {
			if r.Kind != kind && r.Kind != Record {
				continue
			}
			if err := os.RemoveAll(k.dir(kind, r.ID)); err != nil {
				return done, err
			}
			atStep("files are removed")
		}
	}
	return done, nil
}

// dir is where the files of a run are.
func (k Keeper) dir(kind Kind, run string) string {
	return filepath.Join(k.Home, map[Kind]string{Artifacts: ArtifactsDir, Output: record.RunsDir}[kind], run)
}

// mayGo asks again, where nobody can place a hold meanwhile, whether something of a run may go.
func mayGo(ctx context.Context, tx *sql.Tx, run string) (bool, error) {
	var fixed int
	err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM runs WHERE id = ? AND outcome = '') + (SELECT count(*) FROM holds WHERE run = ?)
		+ (SELECT count(*) FROM requests WHERE run = ? AND state <> 'ended')`, run, run, run).Scan(&fixed)
	return fixed == 0, err
}

// forget changes the rows of a run as a removal says. An approval that still covers other runs stays, with its request.
func forget(ctx context.Context, tx *sql.Tx, r Removal, now time.Time) error {
	type statement struct {
		text string
		args []any
	}
	at := now.UnixMilli()
	statements := map[Kind][]statement{
		Artifacts: {{"UPDATE runs SET artifacts_gone = coalesce(artifacts_gone, ?) WHERE id = ?", []any{at, r.ID}}},
		Output: {
			{"DELETE FROM outputs WHERE run = ?", []any{r.ID}},
			{"UPDATE runs SET output_gone = coalesce(output_gone, ?) WHERE id = ?", []any{at, r.ID}},
		},
		Record: {
			{"DELETE FROM approvals WHERE run = ? AND coalesce(valid_until, 0) <= ?", []any{r.ID, at}},
			{"DELETE FROM requests WHERE run = ? AND NOT EXISTS (SELECT 1 FROM approvals WHERE run = ?)", []any{r.ID, r.ID}},
			{"DELETE FROM runs WHERE id = ?", []any{r.ID}}, // its output goes with it
		},
	}
	for _, s := range statements[r.Kind] {
		if _, err := tx.ExecContext(ctx, s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}

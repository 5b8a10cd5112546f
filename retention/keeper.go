package retention

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/store"
)

// Keeper looks after a state directory. Safe for concurrent use, also by several processes: one at a time removes.
type Keeper struct {
	Home   string    // the state directory: artifacts/ and runs/ are in it
	DB     *store.DB // nil: nothing has been run yet
	Images *image.Store
	Policy Policy

	// Waiting returns the digests of images that runs need which wait. nil: none does.
	Waiting func(context.Context) ([]string, error)

	// Now is the clock. nil: time.Now.
	Now func() time.Time
}

func (k Keeper) now() time.Time {
	if k.Now == nil {
		return time.Now()
	}
	return k.Now()
}

// Report says what a Keeper removed, or would remove.
type Report struct {
	Decision

	Leftovers int  // files of writers of images that died
	Busy      bool // another process is at it, so nothing was done
}

// lockName is the file in the state directory that one who removes has locked.
const lockName = "retention.lock"

// Keep removes what Decide says; with dry it only says what that is. On error the report has what was done.
func (k Keeper) Keep(ctx context.Context, dry bool) (report Report, err error) {
	if !dry {
		lock, err := lockfile.Take(filepath.Join(k.Home, lockName))
		if errors.Is(err, lockfile.ErrHeld) {
			return Report{Busy: true}, nil
		}
		if err != nil {
			return report, fmt.Errorf("keep house: %w", err)
		}
		defer func() { err = errors.Join(err, lock.Leave()) }()
	}
	if k.DB != nil {
		if report, err = k.keepRuns(ctx, dry); err != nil {
			return report, err
		}
	}
	images, err := k.KeepImages(ctx, dry)
	report.Removals, report.Bytes, report.Leftovers = append(report.Removals, images.Removals...), report.Bytes+images.Bytes, images.Leftovers
	return report, err
}

func (k Keeper) keepRuns(ctx context.Context, dry bool) (Report, error) {
	runs, err := k.runs(ctx)
	if err != nil {
		return Report{}, err
	}
	d := Decide(Inventory{Runs: runs}, k.Policy, k.now())
	if dry {
		return Report{Decision: d}, nil
	}
	atStep("decided")
	d.Removals, err = k.remove(ctx, d.Removals)
	d.Bytes = 0
	for _, r := range d.Removals {
		d.Bytes += r.Bytes
	}
	return Report{Decision: d}, err
}

// KeepImages is the part of [Keeper.Keep] that is about images. What it decides on is looked at while none can be stored, held or removed.
func (k Keeper) KeepImages(ctx context.Context, dry bool) (Report, error) {
	var report Report
	why := map[string]Removal{}
	choose := func(images []image.Image) (remove []image.Digest, err error) {
		in, err := k.imagesInventory(ctx, images)
		if err != nil {
			return nil, err
		}
		for _, r := range Decide(in, k.Policy, k.now()).Removals {
			why[r.ID] = r
		}
		for _, img := range images {
			if _, ok := why[img.Digest.String()]; ok {
				remove = append(remove, img.Digest)
			}
		}
		return remove, nil
	}
	result, err := k.Images.GC(dry, choose)
	report.Leftovers, report.Bytes = result.Leftovers, result.Bytes
	for _, img := range result.Images {
		report.Removals = append(report.Removals, why[img.Digest.String()])
	}
	return report, err
}

// imagesInventory is an inventory without what runs have left, in which runs only need their images.
func (k Keeper) imagesInventory(ctx context.Context, images []image.Image) (in Inventory, err error) {
	used := map[string]int64{}
	if k.DB != nil {
		rows, err := k.DB.QueryContext(ctx, `SELECT r.image, max(r.started_at), max(CASE WHEN r.outcome = '' OR h.run IS NOT NULL THEN 1 ELSE 0 END)
			FROM runs r LEFT JOIN holds h ON h.run = r.id WHERE r.image <> '' GROUP BY r.image`)
		if err != nil {
			return in, fmt.Errorf("look at what uses images: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var digest string
			var at, fixed int64
			if err := rows.Scan(&digest, &at, &fixed); err != nil {
				return in, fmt.Errorf("look at what uses images: %w", err)
			}
			used[digest] = at
			in.Runs = append(in.Runs, Run{Image: digest, Held: fixed != 0})
		}
		if err := rows.Err(); err != nil {
			return in, fmt.Errorf("look at what uses images: %w", err)
		}
	}
	for _, img := range images {
		last := time.UnixMilli(max(img.Stored.UnixMilli(), used[img.Digest.String()]))
		in.Images = append(in.Images, ImageEntry{img.Digest.String(), img.Tags, img.SizeBytes, last})
	}
	if k.Waiting != nil {
		in.Wanted, err = k.Waiting(ctx)
	}
	return in, err
}

// Place is the function [Place], which keeps the image too; missing says that it is not there any more.
func (k Keeper) Place(ctx context.Context, run, reason, by string) (h Hold, missing bool, err error) {
	if h, err = Place(ctx, k.DB, run, reason, by); err != nil {
		return h, false, err
	}
	var text string
	if err := k.DB.QueryRowContext(ctx, "SELECT image FROM runs WHERE id = ?", run).Scan(&text); err != nil || text == "" {
		return h, false, err
	}
	d, err := image.ParseDigest(text)
	if err == nil {
		err = k.Images.Hold(ctx, d, run)
	}
	if errors.Is(err, image.ErrNotFound) {
		return h, true, nil
	}
	return h, false, err
}

// Lift is the function [Lift], which lets go of the image too, and of what a Place or Lift left that was killed.
func (k Keeper) Lift(ctx context.Context, run, by string) error {
	err := Lift(ctx, k.DB, run, by)
	if err != nil && !errors.Is(err, ErrNotHeld) {
		return err
	}
	return errors.Join(err, k.Images.Release(run))
}

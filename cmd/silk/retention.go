package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/retention"
	"github.com/silk-sandbox/silk/store"
)

// keeper is what looks after the state directory. db may be nil.
func (h *host) keeper(db *store.DB) retention.Keeper {
	k := retention.Keeper{Home: h.home, DB: db, Images: h.images.Store, Policy: h.config.retention}
	if db != nil {
		k.Waiting = func(ctx context.Context) ([]string, error) { return h.waitingImages(ctx, db) }
	}
	return k
}

// existingStore opens the database of the state directory, or returns nil if nothing has been run yet.
func existingStore(ctx context.Context, home string) (*store.DB, error) {
	path := filepath.Join(home, store.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a Keeper's DB may be nil
	}
	return store.Open(ctx, path)
}

// keep calls do with the keeper of the state directory.
func (h *host) keep(ctx context.Context, do func(retention.Keeper) error) (err error) {
	db, err := existingStore(ctx, h.home)
	if err != nil {
		return err
	}
	if db != nil {
		defer func() { err = errors.Join(err, db.Close()) }()
	}
	return do(h.keeper(db))
}

// waitingImages are the images that runs need which wait in a server, and those that registered skills are pinned to.
func (h *host) waitingImages(ctx context.Context, db *store.DB) (digests []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT request, '' FROM requests WHERE state IN ('pending', 'queued')
		UNION ALL SELECT '', image FROM registered_skills WHERE status = 'active' AND image <> ''`)
	if err != nil {
		return nil, fmt.Errorf("look for images that are waited for: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var request, pinned string
		if err := rows.Scan(&request, &pinned); err != nil {
			return nil, fmt.Errorf("look for images that are waited for: %w", err)
		}
		if pinned != "" {
			digests = append(digests, pinned)
			continue
		}
		name, _ := asked(request)
		prof, err := h.config.profiles.Lookup(name)
		if err != nil {
			continue // it will be refused
		}
		img, err := h.images.Store.Resolve(prof.Image)
		if errors.Is(err, image.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		digests = append(digests, img.Digest.String())
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look for images that are waited for: %w", err)
	}
	slices.Sort(digests)
	return slices.Compact(digests), nil
}

// retentionText says what of a report people read.
func retentionText(r retention.Report, dryRun bool) (lines []string) {
	removed := "removed"
	if dryRun {
		removed = "would remove"
	}
	for _, gone := range r.Removals {
		if gone.Kind == retention.Image {
			lines = append(lines, fmt.Sprintf("%s image %s, %s: %s", removed, gone.ID, sizeText(gone.Bytes), gone.Why))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s the %s of run %s, %s: %s", removed, gone.Kind, gone.ID, sizeText(gone.Bytes), gone.Why))
	}
	if r.Busy {
		lines = append(lines, "another silk is removing what is old")
	}
	if r.OverBytes > 0 {
		lines = append(lines, fmt.Sprintf("what stays of runs is %s, %s beyond the budget: records, what is held (%s), and what runs have left that have not ended", sizeText(r.LeftBytes), sizeText(r.OverBytes), sizeText(r.HeldBytes)))
	}
	return lines
}

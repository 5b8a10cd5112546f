package retention

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

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/record"
)

// ArtifactsDir is the directory of the copies of artifacts, by run, inside a state directory.
const ArtifactsDir = "artifacts"

// runs is what runs have left. Directories come before the rows: a run has a row before it has a directory.
func (k Keeper) runs(ctx context.Context) ([]Run, error) {
	dirs := map[Kind]map[string]int64{}
	for kind, name := range map[Kind]string{Artifacts: ArtifactsDir, Output: record.RunsDir} {
		var err error
		if dirs[kind], err = sizes(filepath.Join(k.Home, name)); err != nil {
			return nil, fmt.Errorf("look at what runs have left: %w", err)
		}
	}
	rows, err := k.DB.QueryContext(ctx, `SELECT r.id, r.started_at, r.outcome, r.image, octet_length(r.record) + octet_length(r.brief) + octet_length(r.plan), `+record.BriefColumn+`,
			(SELECT sum(octet_length(o.data)) FROM outputs o WHERE o.run = r.id), r.output_gone IS NOT NULL, r.artifacts_gone IS NOT NULL, h.run IS NOT NULL
		FROM runs r LEFT JOIN holds h ON h.run = r.id ORDER BY r.id`)
	if err != nil {
		return nil, fmt.Errorf("look at what runs have left: %w", err)
	}
	defer rows.Close()
	var all []Run
	for rows.Next() {
		var r Run
		var started, recorded int64
		var inline sql.NullInt64
		var outcome, brief string
		var gone struct{ output, artifacts bool }
		if err := rows.Scan(&r.ID, &started, &outcome, &r.Image, &recorded, &brief, &inline, &gone.output, &gone.artifacts, &r.Held); err != nil {
			return nil, fmt.Errorf("look at what runs have left: %w", err)
		}
		r.At, r.Open = time.UnixMilli(ended(brief, started)), outcome == ""
		r.Bytes = map[Kind]int64{Record: recorded}
		r.Gone = map[Kind]bool{Output: gone.output, Artifacts: gone.artifacts}
		file, isFile := dirs[Output][r.ID]
		if isFile || inline.Valid {
			r.Bytes[Output] = file + inline.Int64
		}
		if n, ok := dirs[Artifacts][r.ID]; ok {
			r.Bytes[Artifacts] = n
		}
		delete(dirs[Artifacts], r.ID)
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look at what runs have left: %w", err)
	}
	// Artifacts of runs that have no record here grow old as others do; output without one is run.Recover's.
	for id, n := range dirs[Artifacts] {
		all = append(all, Run{ID: id, At: began(id), Bytes: map[Kind]int64{Artifacts: n}})
	}
	return all, nil
}

// ended is when a run ended by the brief part of its record, or when it started.
func ended(brief string, started int64) int64 {
	var b struct {
		EndedAtMs int64 `json:"ended_at_ms"`
	}
	if json.Unmarshal([]byte(brief), &b) == nil && b.EndedAtMs > started {
		return b.EndedAtMs
	}
	return started
}

// began is the time in the id of a run.
func began(id string) time.Time { return ulid.Time(ulid.MustParse(id).Time()) }

// sizes are the directories of runs in dir, with the bytes of the files in each. What has another name is not ours.
func sizes(dir string) (map[string]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := map[string]int64{}
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err != nil {
			continue
		}
		if all[e.Name()], err = size(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// size is that of the files below dir. Links are not followed, and what goes away meanwhile does not count.
func size(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return bytes, err
}

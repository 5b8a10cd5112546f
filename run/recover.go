package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/store"
)

// Leftovers is what engines left in a state directory that were killed, or could not write.
type Leftovers struct {
	Runs  []string // ids of runs whose record had no end
	Files []string // lock files of engines, and directories of output that no record has
}

// Recover ends the records of runs in the state directory home whose engine is gone, and removes what only they needed;
// with dry it only looks. Living engines and their runs are not touched. On error the leftovers are those dealt with. salvage,
// handoffs and signer are as in [Config].
func Recover(ctx context.Context, home string, dry bool, salvage Salvage, handoffs Handoffs, signer record.Signer) (left Leftovers, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("recover what runs left: %w", err)
		}
	}()
	path := filepath.Join(home, store.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return left, nil // nothing has been run yet
	}
	db, err := store.Open(ctx, path)
	if err != nil {
		return left, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return recoverIn(ctx, db, rescue{home, salvage, handoffs, signer}, dry, func(owner string) bool { return lockHeld(home, owner) })
}

// Recover is [Recover] in the state of the engine, for a service that starts.
func (e *Engine) Recover(ctx context.Context) (left Leftovers, err error) {
	db, err := e.state(ctx)
	if err == nil {
		left, err = recoverIn(ctx, db, e.rescue(), false, e.alive)
	}
	if err != nil {
		err = fmt.Errorf("recover what runs left: %w", err)
	}
	return left, err
}

// lockHeld says whether an engine in home may be alive.
func lockHeld(home, id string) bool {
	held, err := lockfile.Held(filepath.Join(home, enginesDir, id))
	return held || err != nil
}

func recoverIn(ctx context.Context, db *store.DB, with rescue, dry bool, alive func(owner string) bool) (left Leftovers, err error) {
	engines, err := deadEngines(with.home)
	if err != nil {
		return left, err
	}
	if dry {
		lost, err := record.Lost(ctx, db, alive)
		if err != nil {
			return left, err
		}
		left.Runs = ids(lost)
	} else if left.Runs, err = endLost(ctx, db, with, alive); err != nil {
		return left, err
	}
	unclaimed, err := unclaimedOutput(ctx, db, with.home)
	if err != nil {
		return left, err
	}
	var errs []error
	for _, file := range append(engines, unclaimed...) {
		if !dry {
			if err := os.RemoveAll(file); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		left.Files = append(left.Files, file)
	}
	return left, errors.Join(errs...)
}

// recover is the part of [Recover] that each engine begins with: it costs nothing where no engine has died.
func (e *Engine) recover(ctx context.Context, db *store.DB) error {
	engines, err := deadEngines(e.cfg.Home)
	if err != nil || len(engines) == 0 {
		return err
	}
	_, err = endLost(ctx, db, e.rescue(), func(owner string) bool {
		server, id := names(owner)
		return server != e.cfg.Server || !slices.Contains(engines, filepath.Join(e.cfg.Home, enginesDir, id))
	})
	if err != nil {
		return err // the files stay for the next attempt
	}
	var errs []error
	for _, file := range engines {
		errs = append(errs, os.RemoveAll(file)) // another engine may have been faster
	}
	return errors.Join(errs...)
}

// lockingTakes is how long the lock file of an engine may have the name it is made under.
const lockingTakes = time.Hour

// deadEngines returns the lock files of engines that are gone.
func deadEngines(home string) ([]string, error) {
	dir := filepath.Join(home, enginesDir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var dead []string
	for _, entry := range entries {
		file := filepath.Join(dir, entry.Name())
		if strings.HasSuffix(file, lockfile.Making) {
			if info, err := entry.Info(); err != nil || time.Since(info.ModTime()) < lockingTakes {
				continue
			}
		}
		if held, err := lockfile.Held(file); err == nil && !held {
			dead = append(dead, file)
		}
	}
	return dead, nil
}

// endLost completes the records of runs whose engine is not alive. What the engine had written of their output is removed: how
// much there was is not known, and what was still in memory is gone. What was salvaged takes its place.
func endLost(ctx context.Context, db *store.DB, with rescue, alive func(owner string) bool) ([]string, error) {
	var lost []record.Entry
	err := db.Update(ctx, func(tx *sql.Tx) (err error) {
		if lost, err = record.Lost(ctx, tx, alive); err != nil {
			return err
		}
		for _, entry := range lost {
			if err := finishLost(ctx, tx, with, entry, lostEnd); err != nil {
				return err
			}
		}
		return nil
	})
	return ids(lost), err
}

func ids(entries []record.Entry) []string {
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Record.Run
	}
	return list
}

// unclaimedOutput returns the directories of kept output and input of runs that have no record, or one with an end that says that
// nothing was kept in files.
func unclaimedOutput(ctx context.Context, db *store.DB, home string) ([]string, error) {
	dir := filepath.Join(home, record.RunsDir)
	entries, err := os.ReadDir(dir) // before the records: a run has one before it has a directory
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var unclaimed []string
	for _, entry := range entries {
		if _, err := ulid.ParseStrict(entry.Name()); err != nil {
			continue // not ours
		}
		e, err := record.Get(ctx, db, entry.Name())
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return nil, err
		}
		r := e.Record
		if err != nil || r.Outcome.Kind != "" && r.Replay == nil && max(r.Stdout.Kept, r.Stderr.Kept) <= record.InlineBytes {
			unclaimed = append(unclaimed, filepath.Join(dir, entry.Name()))
		}
	}
	return unclaimed, nil
}

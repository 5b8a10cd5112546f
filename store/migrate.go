package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate applies the migrations that the file has not seen. They are counted in PRAGMA user_version and applied in one
// transaction that holds the write lock, so two processes that meet an old file cannot both apply one, and a crash
// half-way leaves the old schema. An up-to-date file costs one read of its first page.
//
// This is done by hand because the usual library keeps its version in a table that it makes outside of the
// transaction: on a new file, processes that raced for it waited a whole second (see docs/adr/0003).
func (db *DB) migrate(ctx context.Context) error {
	names, err := fs.Glob(migrations, "migrations/*.sql") // sorted by name
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, db)
	if err != nil || have == len(names) {
		return err
	}
	return db.Update(ctx, func(tx *sql.Tx) error {
		have, err := schemaVersion(ctx, tx) // another process may have been faster
		if err != nil {
			return err
		}
		if have > len(names) {
			return fmt.Errorf("schema version %d is from a newer silk (this one knows %d); use that one, or another state directory", have, len(names))
		}
		for _, name := range names[have:] {
			text, err := migrations.ReadFile(name)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return fmt.Errorf("apply %s: %w", name, err)
			}
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(names)))
		return err
	})
}

func schemaVersion(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
},
) (version int, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}

package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/silk-sandbox/silk/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ready refuses a server that does not keep what it confirms, and applies the migrations that the database has not seen. They
// are counted in silk_schema, and applied in one transaction, so of servers that start together one does it.
func ready(ctx context.Context, db *store.DB, place string) (err error) {
	var have int
	var made bool
	var fsync, commit, encoding, schema string
	err = db.QueryRowContext(ctx, `SELECT to_regclass('silk_schema') IS NOT NULL, current_setting('fsync'), current_setting('synchronous_commit'),
		current_setting('server_encoding'), coalesce(current_schema(), '')`).Scan(&made, &fsync, &commit, &encoding, &schema)
	switch {
	case err != nil:
		return err
	case fsync == "off" || commit == "off":
		return fmt.Errorf("state database %s: its server does not bring commits to the disk (fsync is %s, synchronous_commit %s), so a power loss could take what silk has accepted; switch both on", place, fsync, commit)
	case encoding != "UTF8":
		return fmt.Errorf("state database %s: it is in %s; make one in UTF-8 (createdb -E UTF8 -T template0)", place, encoding)
	case schema == "":
		return fmt.Errorf("state database %s: it has no schema of that name; make it (CREATE SCHEMA)", place)
	}
	names, err := fs.Glob(migrations, "migrations/*.sql") // sorted by name
	if err != nil {
		return err
	}
	if made {
		if have, err = version(ctx, db); err != nil || have == len(names) {
			return err
		}
	}
	return db.Update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS silk_schema (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL)"); err != nil {
			return fmt.Errorf("make tables: %w", err)
		}
		have, err := version(ctx, tx) // another server may have been faster
		if err != nil {
			return err
		}
		if have > len(names) {
			return fmt.Errorf("state database %s: schema version %d is from a newer silk (this one knows %d); use that one, or another database", place, have, len(names))
		}
		for _, name := range names[have:] {
			text, err := migrations.ReadFile(name)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return fmt.Errorf("apply %s: %w", strings.TrimPrefix(name, "migrations/"), err)
			}
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO silk_schema VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET version = excluded.version", len(names))
		return err
	})
}

func version(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (version int, err error) {
	err = q.QueryRowContext(ctx, "SELECT version FROM silk_schema").Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, err
}

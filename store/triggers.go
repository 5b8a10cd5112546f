package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// LostTriggers names the triggers that the store should have and does not, or has with another text: what forbids changes
// and deletions has been taken away, which silk never does.
func (db *DB) LostTriggers(ctx context.Context) (names []string, err error) {
	if db.Shared() {
		return db.engine.LostTriggers(ctx, db.DB)
	}
	// What they should be is what the migrations make of an empty database.
	pool, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer pool.Close()      // it is in memory
	pool.SetMaxOpenConns(1) // each connection would have a database of its own
	fresh := &DB{DB: pool, path: ":memory:", write: make(chan struct{}, 1)}
	if err := fresh.migrate(ctx); err != nil {
		return nil, err
	}
	want, err := triggers(ctx, fresh)
	if err != nil {
		return nil, err
	}
	have, err := triggers(ctx, db)
	if err != nil {
		return nil, explain(db.path, err)
	}
	for name, text := range want {
		if have[name] != text {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func triggers(ctx context.Context, db *DB) (texts map[string]string, err error) {
	rows, err := db.QueryContext(ctx, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
	if err != nil {
		return nil, fmt.Errorf("list triggers: %w", err)
	}
	defer rows.Close()
	texts = map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, fmt.Errorf("list triggers: %w", err)
		}
		texts[name] = text
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list triggers: %w", err)
	}
	return texts, nil
}

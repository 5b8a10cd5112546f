package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// guard is a trigger, as the migrations make it and as the database has it.
type guard struct {
	table, on string // BEFORE INSERT, ...
	body      string // of its function
	works     bool   // it is enabled, has no condition, and is called for each row or statement as it should
}

var (
	functionText = regexp.MustCompile(`(?s)CREATE (?:OR REPLACE )?FUNCTION (\w+)\(\) RETURNS trigger LANGUAGE plpgsql AS \$\$(.*?)\$\$`)
	triggerText  = regexp.MustCompile(`CREATE TRIGGER (\w+) BEFORE (\w+) ON (\w+) FOR EACH (\w+) EXECUTE FUNCTION (\w+)\(\)`)
)

// guards reads the triggers out of the migrations. Later ones replace earlier ones of the same name.
func guards() (map[string]guard, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	bodies, all := map[string]string{}, map[string]guard{}
	for _, name := range names {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, m := range functionText.FindAllStringSubmatch(string(text), -1) {
			bodies[m[1]] = m[2]
		}
		for _, m := range triggerText.FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = guard{table: m[3], on: m[2] + " " + m[4], body: m[5], works: true}
		}
	}
	for name, g := range all {
		g.body = bodies[g.body]
		all[name] = g
	}
	return all, nil
}

// Bits of pg_trigger.tgtype: src/include/catalog/pg_trigger.h
const (
	typeRow    = 1 << 0
	typeBefore = 1 << 1
)

var typeEvents = map[int]string{1 << 2: "INSERT", 1 << 3: "DELETE", 1 << 4: "UPDATE", 1 << 5: "TRUNCATE"}

// lostTriggers is store.DB.LostTriggers.
func lostTriggers(ctx context.Context, db *sql.DB) (lost []string, err error) {
	want, err := guards()
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, `SELECT t.tgname::text, c.relname::text, t.tgtype::int, t.tgenabled IN ('O', 'A') AND t.tgqual IS NULL AND t.tgattr::text = '', p.prosrc
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
		WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal`)
	if err != nil {
		return nil, fmt.Errorf("list triggers: %w", err)
	}
	defer rows.Close()
	have := map[string]guard{}
	for rows.Next() {
		var name string
		var kind int
		var g guard
		if err := rows.Scan(&name, &g.table, &kind, &g.works, &g.body); err != nil {
			return nil, fmt.Errorf("list triggers: %w", err)
		}
		each := "STATEMENT"
		if kind&typeRow != 0 {
			each = "ROW"
		}
		g.on = strings.TrimSpace(typeEvents[kind&^(typeRow|typeBefore)] + " " + each)
		g.works = g.works && kind&typeBefore != 0
		have[name] = g
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list triggers: %w", err)
	}
	for name, g := range want {
		if have[name] != g {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	return lost, nil
}

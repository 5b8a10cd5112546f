package postgres_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

func TestPostgres(t *testing.T) {
	t.Setenv(testenv.EnvStore, storetest.Database(t))
	storetest.Test(t, storetest.Open)
}

// TestSameTables compares what the migrations of both databases make: names of tables, and of their columns in order.
func TestSameTables(t *testing.T) {
	list := func(db *store.DB, query string) (all []string) {
		t.Helper()
		rows, err := db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var table, column string
			if err := rows.Scan(&table, &column); err != nil {
				t.Fatal(err)
			}
			all = append(all, table+"."+column)
		}
		if err := rows.Err(); err != nil || len(all) == 0 {
			t.Fatalf("%d columns, %v", len(all), err)
		}
		return all
	}
	file, err := store.Open(t.Context(), filepath.Join(t.TempDir(), store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want := list(file, "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY m.name, c.cid")
	got := list(open(t, storetest.Database(t)), `SELECT table_name::text, column_name::text FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name NOT IN ('silk_schema', 'pragma_database_list') ORDER BY table_name::text COLLATE "C", ordinal_position`)
	if !slices.Equal(got, want) {
		t.Errorf("PostgreSQL has\n%v\nSQLite has\n%v", got, want)
	}
	var migrations [2][]string
	for i, pattern := range []string{"migrations/*.sql", "../migrations/*.sql"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			migrations[i] = append(migrations[i], filepath.Base(name))
		}
	}
	if !slices.Equal(migrations[0], migrations[1]) {
		t.Errorf("PostgreSQL has the migrations %v, SQLite %v", migrations[0], migrations[1])
	}
}

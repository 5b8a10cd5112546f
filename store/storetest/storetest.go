// Package storetest is for tests of what uses a store: the same tests run against SQLite and against PostgreSQL.
//
// A package that has its stores from [Open] and a test that calls [OnPostgres] is tested with both by one `go test`. To run
// one test of it with PostgreSQL alone, name a database: SILK_TEST_STORE=postgres://... go test -run TestX ./queue.
//
// [Test] is what every engine of package store must pass.
package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/postgres"
)

// Open opens the store of the file at path, as store.Open does; or, where the tests run with PostgreSQL, the one in the schema
// that stands for that path, which is made if it is not there. The caller closes it.
func Open(ctx context.Context, path string) (*store.DB, error) {
	address := testenv.StoreAddress()
	if address == "" {
		return store.Open(ctx, path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(path))
	in, err := schema(ctx, address, "t"+hex.EncodeToString(sum[:8]))
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, secret.New(in))
}

// schema makes a schema in a database if it is not there, and returns its address.
func schema(ctx context.Context, address, name string) (string, error) {
	if err := exec1(ctx, address, "CREATE SCHEMA IF NOT EXISTS "+name); err != nil {
		return "", err
	}
	return with(address, func(u *url.URL) {
		q := u.Query()
		q.Set("search_path", name)
		u.RawQuery = q.Encode()
	})
}

// with is address after a change.
func with(address string, change func(u *url.URL)) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	change(u)
	return u.String(), nil
}

// exec1 executes one statement in a database.
func exec1(ctx context.Context, address, statement string) error {
	db, err := Admin(address)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	if err != nil && strings.Contains(err.Error(), "pg_namespace_nspname_index") { // somebody else made it at the same time
		return nil
	}
	return err
}

// Copy makes the store of path what the one of from is at this moment, if they are not files, which the caller copies itself.
func Copy(ctx context.Context, from, path string) error {
	if testenv.StoreAddress() == "" {
		return nil
	}
	source, err := Open(ctx, from)
	if err != nil {
		return err
	}
	defer source.Close()
	to, err := Open(ctx, path)
	if err != nil {
		return err
	}
	defer to.Close()
	var schema string
	if err := source.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return err
	}
	return to.Update(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"runs", "outputs", "tokens", "sessions", "requests", "approvals", "handoffs", "handoff_deliveries", "registered_skills", "holds"} {
			if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" SELECT * FROM "+schema+"."+table); err != nil {
				return err
			}
		}
		return nil
	})
}

// Admin is a database without what silk puts around it: for tests that play its administrator.
func Admin(address string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*config), nil
}

// Database makes an empty database for t, on the server that testenv.Postgres stands for, and returns its address. It is
// dropped when t has ended.
func Database(t testing.TB) string {
	t.Helper()
	testenv.Require(t, testenv.Postgres)
	server, name := testenv.PostgresAddress(), "silk_"+strings.ToLower(rand.Text())
	// In a language whose order of words is not that of bytes, as many are.
	if err := exec1(t.Context(), server, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := exec1(ctx, server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	address, err := with(server, func(u *url.URL) { u.Path = "/" + name })
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// OnPostgres runs all tests of this binary once more, with their stores in a PostgreSQL database. t must be TestOnPostgres. It
// needs testenv.Postgres.
func OnPostgres(t *testing.T) {
	t.Helper()
	if testenv.StoreAddress() != "" {
		return // this is the second time
	}
	t.Setenv(testenv.EnvStore, Database(t))
	args := []string{"-test.skip=^TestOnPostgres$", fmt.Sprintf("-test.v=%t", testing.Verbose()), fmt.Sprintf("-test.short=%t", testing.Short())}
	if deadline, ok := t.Deadline(); ok {
		args = append(args, fmt.Sprintf("-test.timeout=%s", time.Until(deadline)-5*time.Second))
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil || testing.Verbose() {
		t.Logf("with PostgreSQL:\n%s", out.String())
	}
	if err != nil {
		t.Errorf("the tests fail with PostgreSQL: %v", err)
	}
}

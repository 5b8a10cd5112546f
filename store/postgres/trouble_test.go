package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/postgres"
	"github.com/silk-sandbox/silk/store/storetest"
)

// password is in no error.
const password = "hunter2%40hunter2"

func change(t *testing.T, address string, f func(u *url.URL, q url.Values)) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	f(u, q)
	u.RawQuery = q.Encode()
	return u.String()
}

func open(t *testing.T, address string) *store.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), secret.New(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func insert(db *store.DB, ctx context.Context, id string) error {
	return db.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO sessions (id, token, name, created_at) VALUES (?, '', ?, 1)", id, strings.Repeat("x", 1000))
		return err
	})
}

func count(t *testing.T, db *store.DB, id string) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM sessions WHERE id = ?", id).Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// admin does what an administrator does.
func admin(t *testing.T, address string, statements ...string) {
	t.Helper()
	db, err := storetest.Admin(address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// role makes a role, and returns the address of the database for it.
func role(t *testing.T, address, name, options string) string {
	t.Helper()
	admin(t, address, "DROP ROLE IF EXISTS "+name, "CREATE ROLE "+name+" LOGIN "+options, "GRANT ALL ON SCHEMA public TO "+name)
	t.Cleanup(func() { admin(t, address, "DROP OWNED BY "+name, "DROP ROLE "+name) })
	return change(t, address, func(u *url.URL, _ url.Values) { u.User = url.UserPassword(name, password) })
}

// Each trouble says what it is and what to do, names the database once, and never its password.
func TestTroubleIsExplained(t *testing.T) {
	address := storetest.Database(t)
	open(t, address)
	admin(t, address, "CREATE SCHEMA newer", "CREATE TABLE newer.silk_schema (one INTEGER, version INTEGER)", "INSERT INTO newer.silk_schema VALUES (1, 99)")
	as := func(f func(u *url.URL, q url.Values)) string { return change(t, address, f) }
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, test := range []struct {
		name, address, want string
		kind                error
	}{
		{"no server", fmt.Sprintf("postgres://silk:%s@%s/silk", password, closed.Addr()), "does its server run", store.ErrAway},
		{"no such socket", fmt.Sprintf("postgres://silk:%s@/silk?host=/nowhere", password), "does its server run", store.ErrAway},
		{"a wrong password", role(t, address, "silk_password", "PASSWORD 'another'"), "does not take this user and password", nil},
		{"no such database", as(func(u *url.URL, _ url.Values) { u.Path = "/nowhere" }), "createdb", nil},
		{"no connection left", role(t, address, "silk_none", "CONNECTION LIMIT 0"), "no connection left", store.ErrBusy},
		{"no schema", as(func(_ *url.URL, q url.Values) { q.Set("search_path", "nowhere") }), "CREATE SCHEMA", nil},
		{"schema of a newer silk", as(func(_ *url.URL, q url.Values) { q.Set("search_path", "newer") }), "newer silk", nil},
		{"no rights", role(t, address, "silk_poor", ""), "must own the tables", nil},
		{"commits that are not synced", as(func(_ *url.URL, q url.Values) { q.Set("synchronous_commit", "off") }), "switch both on", nil},
		{"another host without TLS", fmt.Sprintf("postgres://silk:%s@db.example.org/silk?sslmode=prefer", password), "sslmode=verify-full", nil},
		{"one of several hosts without TLS", fmt.Sprintf("postgres://silk:%s@localhost,db.example.org/silk?sslmode=allow", password), "sslmode=verify-full", nil},
		{"no address", "host=localhost password=" + password, "is not one", nil},
		{"an address that is broken", "postgres://silk:" + password + "%@host/silk", "is not one", nil},
		{"a parameter that is none", "postgres://silk:" + password + "@localhost/silk?sslmode=maybe", "sslmode is invalid", nil},
		{"a password as a parameter", "postgres://silk@localhost/silk?sslmode=maybe&password=" + password, "sslmode is invalid", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			db, err := postgres.Open(t.Context(), secret.New(test.address))
			if err == nil {
				db.Close()
				t.Fatal("no error")
			}
			text := err.Error()
			if !strings.Contains(text, test.want) || strings.Contains(text, "hunter2") || strings.Count(text, "postgres://") > 1 {
				t.Errorf("error is %q, want %q, the place once and no password", text, test.want)
			}
			for _, kind := range []error{store.ErrAway, store.ErrBusy, store.ErrFull} {
				if errors.Is(err, kind) != errors.Is(test.kind, kind) {
					t.Errorf("%q is %v: %t", text, kind, errors.Is(err, kind))
				}
			}
		})
	}
}

func TestReadOnly(t *testing.T) {
	address := storetest.Database(t)
	open(t, address)
	db := open(t, change(t, address, func(_ *url.URL, q url.Values) { q.Set("default_transaction_read_only", "on") }))
	if err := insert(db, t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "is it a standby?") {
		t.Errorf("got %v", err)
	}
}

// Another server holds the lock for longer than anybody waits.
func TestBusy(t *testing.T) {
	t.Parallel() // it waits
	address := storetest.Database(t)
	db, other := open(t, address), open(t, address)
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := insert(db, t.Context(), "a"); !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), "another server holds it") {
		t.Errorf("got %v, want %v", err, store.ErrBusy)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	if err := insert(db, t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// The server ends every connection, as when it is restarted: who is in a transaction is told, everybody else notices nothing.
func TestRestart(t *testing.T) {
	address := storetest.Database(t)
	db := open(t, address)
	end := func() {
		admin(t, address, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	}
	for i := range 5 {
		if err := insert(db, t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		end()
		if n := count(t, db, fmt.Sprint(i)); n != 1 {
			t.Errorf("%d rows", n)
		}
		end()
	}
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		end()
		_, err := tx.Exec("DELETE FROM sessions")
		return err
	})
	if !errors.Is(err, store.ErrAway) {
		t.Errorf("got %v, want %v", err, store.ErrAway)
	}
	if n := count(t, db, "0"); n != 1 {
		t.Errorf("%d rows are left", n)
	}
}

// cutter stands between silk and the database, and can cut the connection when a message goes by.
type cutter struct {
	net.Listener

	server string
	mu     sync.Mutex
	when   func(message []byte) (cut, pass bool) // nil: never
	all    sync.WaitGroup
}

func newCutter(t *testing.T, address string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, server: u.Query().Get("host") + "/.s.PGSQL.5432"}
	c.all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c.all.Go(func() { c.pass(t, client) })
		}
	})
	t.Cleanup(func() { l.Close(); c.all.Wait() })
	return c, change(t, address, func(u *url.URL, q url.Values) {
		u.Host = l.Addr().String()
		q.Del("host")
		q.Set("sslmode", "disable")
	})
}

func (c *cutter) cutAt(when func(message []byte) (cut, pass bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.when = when
}

func (c *cutter) pass(t *testing.T, client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", c.server)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	c.all.Go(func() {
		io.Copy(client, server)
		client.Close()
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		when := c.when
		c.mu.Unlock()
		if when != nil {
			if cut, pass := when(buf[:n]); cut {
				client.Close()
				if pass {
					_, _ = server.Write(buf[:n])
				}
				return
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// The connection breaks at the commit, before or after it came to the server: Update says what is true.
func TestCommitThatBreaks(t *testing.T) {
	address := storetest.Database(t)
	c, through := newCutter(t, address)
	db := open(t, through)
	for _, test := range []struct {
		name string
		pass bool
	}{{"before", false}, {"after", true}} {
		t.Run(test.name, func(t *testing.T) {
			var once sync.Once
			c.cutAt(func(message []byte) (cut, pass bool) {
				if strings.Contains(string(message), "commit\x00") {
					once.Do(func() { cut = true })
				}
				return cut, test.pass
			})
			err := insert(db, t.Context(), test.name)
			if (err == nil) != test.pass {
				t.Errorf("got %v", err)
			}
			if err != nil && !errors.Is(err, store.ErrAway) {
				t.Errorf("got %v, want %v", err, store.ErrAway)
			}
			if n := count(t, db, test.name); (n == 1) != test.pass {
				t.Errorf("%d rows", n)
			}
		})
	}
	t.Run("and nobody answers", func(t *testing.T) {
		t.Parallel() // it waits
		c.cutAt(func(message []byte) (cut, pass bool) {
			if strings.Contains(string(message), "commit\x00") {
				c.Close() // takes no more
				cut = true
			}
			return cut, true
		})
		if err := insert(db, t.Context(), "x"); !errors.Is(err, store.ErrAway) || !strings.Contains(err.Error(), "is not known") {
			t.Errorf("got %v", err)
		}
	})
}

func TestTriggersThatAreGone(t *testing.T) {
	for _, test := range []struct{ change, want string }{
		{"DROP TRIGGER audit_events_no_update ON audit_events", "audit_events_no_update"},
		{"ALTER TABLE audit_events DISABLE TRIGGER audit_events_no_truncate", "audit_events_no_truncate"},
		{"ALTER TABLE audit_segments ENABLE REPLICA TRIGGER audit_segments_no_insert", "audit_segments_no_insert"},
		{"CREATE OR REPLACE FUNCTION audit_events_at_end() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'", "audit_events_at_end"},
		{"DROP TRIGGER audit_events_no_delete ON audit_events; CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events FOR EACH ROW WHEN (OLD.seq < 0) EXECUTE FUNCTION audit_events_append_only()", "audit_events_no_delete"},
		{"DROP TRIGGER audit_events_no_update ON audit_events; CREATE TRIGGER audit_events_no_update BEFORE UPDATE OF hash ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_events_append_only()", "audit_events_no_update"},
		{"DROP TRIGGER audit_events_no_update ON audit_events; CREATE TRIGGER audit_events_no_update AFTER UPDATE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_events_append_only()", "audit_events_no_update"},
		{"DROP TRIGGER audit_events_no_update ON audit_events; CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events FOR EACH STATEMENT EXECUTE FUNCTION audit_events_at_end()", "audit_events_no_update"},
	} {
		t.Run(test.change, func(t *testing.T) {
			address := storetest.Database(t)
			db := open(t, address)
			if err := db.Update(t.Context(), func(tx *sql.Tx) error { _, err := tx.Exec("TRUNCATE audit_events"); return err }); err == nil {
				t.Error("the trail was truncated")
			}
			admin(t, address, test.change)
			if lost, err := db.LostTriggers(t.Context()); err != nil || len(lost) != 1 || lost[0] != test.want {
				t.Errorf("lost %v, %v, want %s", lost, err, test.want)
			}
		})
	}
}

// No connection lasts: after some tries Update says so in words.
func TestNoConnectionLasts(t *testing.T) {
	c, through := newCutter(t, storetest.Database(t))
	db := open(t, through)
	c.cutAt(func(message []byte) (cut, pass bool) {
		return strings.Contains(string(message), "begin isolation"), false
	})
	if err := insert(db, t.Context(), "a"); !errors.Is(err, store.ErrAway) || !strings.Contains(err.Error(), "postgres://") {
		t.Errorf("got %v, want %v, and of which database", err, store.ErrAway)
	}
	c.cutAt(nil)
	if err := insert(db, t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

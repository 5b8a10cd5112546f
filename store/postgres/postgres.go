// Package postgres opens a store in a PostgreSQL database, which several servers may share; package store itself has SQLite.
//
// [Open] returns the same *store.DB, and whoever reads and writes it sees no difference: statements keep their question
// marks, which the driver here turns into PostgreSQL's $1, $2, ...; a transaction begins with the lock that makes it the only
// one that writes; and errors say what is wrong and what to do, with store.ErrBusy, store.ErrFull or store.ErrAway where it
// may pass. The schema is migrations/, file by file the one of package store.
//
// # One writer at a time
//
// Every transaction that may write takes an advisory lock of the database first, and the isolation is READ COMMITTED: what it
// reads afterwards includes all that others have committed, and stays true until its own commit, since nobody else can write
// meanwhile. That is the promise of store.DB.Update, kept as SQLite keeps it. SERIALIZABLE would keep it too, but by failing
// transactions that have to be repeated, and every caller's function would have to bear that; and as each of our
// transactions continues the one audit chain, nearly all that run side by side would fail.
//
// The lock belongs to the database and schema, so silks with schemas of their own do not wait for each other. Who holds it
// and does nothing for half a minute loses it with its transaction: a server that was cut off must not stop the others.
//
// # What a commit is
//
// A commit is on the disk of the database server when Update returns, and on the standbys that the server waits for, as its
// synchronous_commit says; store.DB.Sync has nothing left to do. Open refuses a server that does not sync (fsync or
// synchronous_commit off): "accepted means stored" would be a word. Leaving commits to a later sync, as with SQLite, would
// be faster, but a restart of the database server would lose some that silk has acted on, and silk would not notice.
//
// When the connection breaks while a transaction commits, the driver asks on a new one what became of it, so that Update
// tells the truth. Only if nobody can be asked for some seconds the error says that it is not known.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/store"
)

// Schemes of addresses.
var schemes = []string{"postgres", "postgresql"}

// maxConns is how many connections one server has at most: one writer, and readers. A database has 100 as it is installed.
const maxConns = 10

// Open opens the store at an address, postgres://USER@HOST:PORT/DATABASE with the parameters of libpq, and brings its schema up
// to date. What the address leaves out comes from libpq's environment and files (PGPASSFILE, PGSSLROOTCERT, ...). The
// database must exist and be in UTF-8; a parameter search_path=NAME puts everything into an existing schema of it.
//
// Neither errors nor logs have the password. A host that is not this one must be reached over TLS.
func Open(ctx context.Context, address secret.Secret) (_ *store.DB, err error) {
	config, place, err := parse(address)
	if err != nil {
		return nil, err
	}
	c := &connector{config: config, place: place}
	pool := sql.OpenDB(c)
	pool.SetMaxOpenConns(maxConns)
	pool.SetMaxIdleConns(maxConns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	db := store.New(pool, store.Engine{Name: place, LostTriggers: lostTriggers})
	if err := ready(ctx, db, place); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return db, nil
}

// parse reads an address. place names it in errors.
func parse(address secret.Secret) (config *pgx.ConnConfig, place string, err error) {
	u, err := url.Parse(address.Reveal())
	if err != nil || u.Scheme != schemes[0] && u.Scheme != schemes[1] {
		return nil, "", errors.New("the address of the database is not one: it is postgres://USER@HOST:PORT/DATABASE, with what is special in names and passwords as %XX") // not the text, which has a password
	}
	place = placeOf(u)
	if _, err := pgx.ParseConfig(withoutPassword(u)); err != nil { // whose error has no password in it
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the address, which place is already
		}
		return nil, "", fmt.Errorf("read the address of the database %s: %w", place, err)
	}
	if config, err = pgx.ParseConfig(address.Reveal()); err != nil {
		return nil, "", fmt.Errorf("read the address of the database %s: its password is not one", place)
	}
	if plain(config) {
		return nil, "", fmt.Errorf("the database %s is not on this host, and others could read what is in it on the way: add sslmode=verify-full, and sslrootcert=FILE for a certificate that this host does not know", place)
	}
	config.ConnectTimeout = connectTimeout
	config.DialFunc = dialer.DialContext
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "silk"
	}
	return config, place, nil
}

// withoutPassword is u without any.
func withoutPassword(u *url.URL) string {
	v := *u
	if u.User != nil {
		v.User = url.User(u.User.Username())
	}
	q := v.Query()
	for name := range q {
		if strings.Contains(name, "password") {
			q.Del(name)
		}
	}
	v.RawQuery = q.Encode()
	return v.String()
}

// placeOf names a database for people: no password, no parameters but a schema.
func placeOf(u *url.URL) string {
	v := url.URL{Scheme: "postgres", Host: u.Host, Path: u.Path}
	if u.User != nil && u.User.Username() != "" {
		v.User = url.User(u.User.Username())
	}
	q := url.Values{}
	for _, name := range []string{"host", "search_path"} {
		if value := u.Query().Get(name); value != "" {
			q.Set(name, value)
		}
	}
	v.RawQuery = strings.ReplaceAll(q.Encode(), "%2F", "/")
	return v.String()
}

// plain says whether a connection may go to another host without TLS.
func plain(c *pgx.ConnConfig) bool {
	open := func(host string, encrypted bool) bool { return !encrypted && !here(host) }
	if open(c.Host, c.TLSConfig != nil) {
		return true
	}
	for _, f := range c.Fallbacks {
		if open(f.Host, f.TLSConfig != nil) {
			return true
		}
	}
	return false
}

// here says whether host is this one: a unix socket, or a loopback address.
func here(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" || ip != nil && ip.IsLoopback()
}

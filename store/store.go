// Package store keeps what outlives a run: one SQLite file with the run records and the audit trail, its schema and its
// migrations. Package store/postgres has the same in a PostgreSQL database, for servers that share one; what is said here of
// files is about SQLite.
//
// It knows the tables but not what they mean: packages record and audit read and write them. Open it with [Open], write
// through [DB.Update]; reads use the embedded [sql.DB], or [DB.View] where several must fit together. Several processes may have the same file open.
//
// Statements are in the words that both databases know, with a question mark for each argument. Two things only PostgreSQL
// minds: in a transaction, the rows of a query are read to their end before the next statement; and after an error nothing
// more can be done in it.
//
// Durability of the file: WAL with synchronous=NORMAL. A commit reaches the operating system, not the disk, so it costs no fsync. A
// crash of silk loses nothing. A power loss may lose the last commits, but always a suffix of them: the file stays
// consistent and the audit chain stays whole, only shorter (https://www.sqlite.org/pragma.html#pragma_synchronous).
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite" // also registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// FileName is the name of the database inside a state directory.
const FileName = "silk.db"

// busyMs is how long a statement waits for another process's write. Our transactions take about a millisecond; five
// seconds mean that something holds the lock for good.
const busyMs = 5000

// checkpointPages bounds the write-ahead log to about 1 MiB of 4 KiB pages, so that the next process, which reads it
// whole if the last one ended without Close, starts fast.
const checkpointPages = 256

// cacheBytes is what a connection may keep of the file in memory, as it reads it. With SQLite's own 2 MB a list of some
// thousand runs is read from the operating system each time, a seventh of what it costs.
const cacheBytes = 8 << 20

// DB is an open store. Safe for concurrent use. Write through Update only.
type DB struct {
	*sql.DB
	path   string        // of the file; "" with another engine
	engine *Engine       // nil: SQLite
	write  chan struct{} // one writer of this process at a time: waiting here is cheaper than SQLite's polling, or a connection
}

// Engine is what a database other than SQLite brings along.
type Engine struct {
	Name         string // of the database, for people: without a password
	LostTriggers func(ctx context.Context, db *sql.DB) ([]string, error)
}

// New is a store in a database that package store/postgres has opened, with its schema up to date. A transaction of pool
// that is not read-only must lock out all others that are not, as long as it lasts; a read-only one must see one moment; a
// commit must be on the disk; and the database's errors must be worded already.
func New(pool *sql.DB, e Engine) *DB {
	return &DB{DB: pool, engine: &e, write: make(chan struct{}, 1)}
}

// Open opens the store in the file at path, makes it (readable and writable by its owner alone) if it is not there, and
// brings its schema up to date. The directory must exist. Errors say what is wrong with the file and what to do.
func Open(ctx context.Context, path string) (_ *DB, err error) {
	defer func() { err = explain(path, err) }()
	if err := create(path); err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyMs), // first: the next ones may have to wait
		"journal_mode(wal)",
		"synchronous(normal)",
		"foreign_keys(on)",
		fmt.Sprintf("cache_size(-%d)", cacheBytes>>10), // negative: in KiB
		"recursive_triggers(on)",                       // INSERT OR REPLACE must not get around a trigger that forbids DELETE
		fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages),
	}}
	uri := url.URL{Scheme: "file", Path: abs, RawQuery: query.Encode()}
	pool, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(4) // one writer and some readers
	pool.SetMaxIdleConns(4)
	db := &DB{DB: pool, path: path, write: make(chan struct{}, 1)}
	if err := db.ready(ctx); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return db, nil
}

// create makes the file if it is not there: SQLite would make it with the umask's permissions; its -wal and -shm take over
// the permissions of the file. One that is there is not opened, since closing it would drop the locks of every connection
// that this process has to it (fcntl(2), "Record locking"), and another process would take the store for its own.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory", path)
	}
	return err
}

// ready migrates, and tries again while another process holds a lock: the first change of a new file to WAL needs it
// exclusively, and SQLite gives up at once, whatever the busy timeout, where two that wait for it could wait for each
// other (https://www.sqlite.org/c3ref/busy_handler.html).
func (db *DB) ready(ctx context.Context) error {
	for began := time.Now(); ; {
		err := db.migrate(ctx)
		var e *sqlite.Error
		if !errors.As(err, &e) || e.Code()&0xff != sqlite3.SQLITE_BUSY || time.Since(began) > busyMs*time.Millisecond {
			return err
		}
		select {
		case <-time.After(2 * time.Millisecond): // the others are a few transactions of a millisecond away
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// leaveBytes is the size of the log beyond which [DB.Leave] closes.
const leaveBytes = 4 << 20

// Leave is Close for a process that ends right after it: it closes only if the write-ahead log has become long.
//
// When the last process that has a file open closes it, SQLite moves the log into the database and removes it, and the
// next process makes it anew, with four fsyncs in all. Left alone, the log is moved once in many runs; but processes
// that commit only once each never get to reuse it, hence the bound.
func (db *DB) Leave() error {
	if db.Shared() {
		return db.Close()
	}
	fi, err := os.Stat(db.path + "-wal")
	if err == nil && fi.Size() < leaveBytes {
		return nil
	}
	return db.Close() // also when there is no log: then it costs nothing
}

// Path is the file that the store lives in; empty if it is in a database server.
func (db *DB) Path() string { return db.path }

// Shared says whether the store is in a database server, where those of other hosts use it too.
func (db *DB) Shared() bool { return db.engine != nil }

// Update calls change in a transaction that holds the write lock from its beginning (BEGIN IMMEDIATE), so what change
// reads stays true until the commit, also against other processes and servers. It commits if change returns nil.
func (db *DB) Update(ctx context.Context, change func(tx *sql.Tx) error) (err error) {
	defer func() {
		if errors.As(err, new(*sqlite.Error)) { // what else change says is about what it changed
			err = explain(db.path, err)
		}
	}()
	select {
	case db.write <- struct{}{}:
		defer func() { <-db.write }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit a no-op; before, its error adds nothing to the one that led here
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// View calls read in a transaction that sees the store as it was at the beginning, whatever others write meanwhile. It
// does not keep them from writing.
func (db *DB) View(ctx context.Context, read func(tx *sql.Tx) error) (err error) {
	defer func() {
		if errors.As(err, new(*sqlite.Error)) { // what else read says is about what it read
			err = explain(db.path, err)
		}
	}()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing was written
	return read(tx)
}

// Sync brings every commit until now to the disk, for what must not happen before they are there. In a database server they
// are there already.
func (db *DB) Sync() (err error) {
	if db.Shared() {
		return nil
	}
	defer func() { err = explain(db.path, err) }()
	// What is not in the log has been moved into the database, and synced, by a checkpoint. The database file itself must
	// not be opened here, see create.
	f, err := os.OpenFile(db.path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), atomicfile.SyncDir(filepath.Dir(db.path)))
}

// What is wrong with a store for the moment: whoever waits may try again.
var (
	ErrBusy = errors.New("another process holds the state database")
	ErrFull = errors.New("the disk of the state database is full")
	ErrAway = errors.New("the server of the state database does not answer")
)

// explainedError is one that explain has worded.
type explainedError struct {
	error
	kind error // ErrBusy, ErrFull or nil
}

func (e *explainedError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.error}
	}
	return []error{e.error, e.kind}
}

// explain adds the file and what to do about it to SQLite's terse errors, once.
func explain(path string, err error) error {
	if err == nil || errors.As(err, new(*explainedError)) {
		return err
	}
	var advice string
	var kind error
	var e *sqlite.Error
	switch {
	case errors.As(err, &e):
		switch e.Code() & 0xff { // extended codes keep the primary one in the low byte: https://www.sqlite.org/rescode.html
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			advice = "; make the file and its directory writable, or set SILK_HOME to another directory"
		case sqlite3.SQLITE_FULL:
			advice, kind = "; free disk space", ErrFull
		case sqlite3.SQLITE_IOERR:
			advice = "; is the disk full or failing?"
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			advice = "; the file is damaged: move it away, and the directory audit beside it too, and keep both; silk makes new ones"
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			advice, kind = "; another process holds it", ErrBusy
		}
	case errors.Is(err, os.ErrPermission):
		advice = "; make it writable, or set SILK_HOME to another directory"
	case errors.Is(err, os.ErrNotExist):
		advice = "; the state directory does not exist"
	}
	if strings.Contains(err.Error(), path) {
		return &explainedError{fmt.Errorf("state database: %w%s", err, advice), kind}
	}
	return &explainedError{fmt.Errorf("state database %s: %w%s", path, err, advice), kind}
}

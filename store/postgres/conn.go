package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Limits of time.
const (
	connectTimeout = 10 * time.Second
	// endTimeout bounds a commit and a rollback, and then the questions what became of the former.
	endTimeout = 10 * time.Second
	// askAgain is how soon these are repeated.
	askAgain = 100 * time.Millisecond
)

// lockKey is "silk" in ASCII: the first half of the key of our advisory lock. The second one is of the schema.
const lockKey = 0x73696c6b

// beginWrite begins a transaction that nobody else writes beside: in one round trip, as four statements. Waiting for others is
// given up after five seconds, as with SQLite. The lock is the last but one: the next statement sees what its last holder did.
var beginWrite = fmt.Sprintf("begin isolation level read committed; set local lock_timeout = '5s'; set local idle_in_transaction_session_timeout = '30s'; "+
	"select pg_advisory_xact_lock(%d, hashtext(current_schema())); select pg_current_xact_id()", lockKey)

const beginRead = "begin isolation level repeatable read read only"

// connector makes connections for database/sql.
type connector struct {
	config *pgx.ConnConfig
	place  string
}

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := stdlib.GetConnector(*c.config).Connect(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	pgx, ok := inner.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("pgx made a %T", inner)
	}
	return &conn{Conn: pgx, connector: c}, nil
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// conn is a connection that takes the statements of the packages that use the store. One goroutine at a time has it.
type conn struct {
	*stdlib.Conn

	connector *connector
	inTx      bool
	reused    bool
}

// ResetSession implements driver.SessionResetter: database/sql calls it before it uses a connection again.
func (c *conn) ResetSession(ctx context.Context) error {
	c.reused = true
	return c.Conn.ResetSession(ctx)
}

// again lets database/sql take another connection, since nothing was done with this one. One that was just made is its last try:
// then people see what is wrong.
func (c *conn) again(err error) error {
	if c.reused {
		return driver.ErrBadConn
	}
	return c.connector.explain(err)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.PrepareContext(ctx, numbered(query))
	return s, c.failed(err)
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.Conn.ExecContext(ctx, numbered(query), args)
	return r, c.failed(err)
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := c.Conn.QueryContext(ctx, numbered(query), args)
	if err != nil {
		return nil, c.failed(err)
	}
	inner, ok := r.(*stdlib.Rows)
	if !ok {
		return r, nil
	}
	return &rows{inner, c}, nil
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(v *driver.NamedValue) (err error) {
	if v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value); err != nil {
		return err
	}
	if s, ok := v.Value.(string); ok {
		v.Value = storable(s)
	}
	return nil
}

// BeginTx implements driver.ConnBeginTx. A transaction that is not read-only waits until no other one writes.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.Conn.Conn().IsClosed() {
		return nil, c.again(driver.ErrBadConn)
	}
	begin := beginWrite
	if opts.ReadOnly {
		begin = beginRead
	}
	results, err := c.Conn.Conn().PgConn().Exec(ctx, begin).ReadAll()
	if err != nil {
		// What it has begun of the transaction goes with the connection, and nothing was done yet: another one may try.
		away := c.Conn.Conn().IsClosed() || gone(err)
		err = errors.Join(err, c.Conn.Close())
		if away && ctx.Err() == nil {
			return nil, c.again(err)
		}
		return nil, c.connector.explain(err)
	}
	c.inTx = true
	t := &tx{conn: c}
	if !opts.ReadOnly {
		last := results[len(results)-1]
		if len(last.Rows) != 1 || len(last.Rows[0]) != 1 {
			return nil, errors.Join(errors.New("the database does not say which transaction it has begun"), c.Conn.Close())
		}
		t.id = string(last.Rows[0][0])
	}
	return t, nil
}

// failed makes the error of a statement what database/sql and people need to see.
func (c *conn) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case !c.inTx && (errors.Is(err, driver.ErrBadConn) || c.Conn.Conn().IsClosed() && gone(err)):
		return c.again(err) // outside of transactions there are only queries
	}
	return c.connector.explain(err)
}

// rows are the rest of a query's answer.
type rows struct {
	*stdlib.Rows

	conn *conn
}

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error { return r.conn.connector.explain(r.Rows.Next(dest)) }

// tx is a transaction.
type tx struct {
	conn *conn
	id   string // of a transaction that writes: pg_current_xact_id()
}

// Rollback implements driver.Tx.
func (t *tx) Rollback() error {
	t.conn.inTx = false
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	_, err := t.conn.Conn.Conn().PgConn().Exec(ctx, "rollback").ReadAll()
	if err != nil { // nothing is left of it once its connection is gone
		return errors.Join(t.conn.connector.explain(err), t.conn.Conn.Close())
	}
	return nil
}

// Commit implements driver.Tx.
func (t *tx) Commit() error {
	t.conn.inTx = false
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	results, err := t.conn.Conn.Conn().PgConn().Exec(ctx, "commit").ReadAll()
	cancel()
	switch {
	case err == nil && len(results) == 1 && results[0].CommandTag.String() == "COMMIT":
		return nil
	case err == nil: // an earlier error had ended it
		return pgx.ErrTxCommitRollback
	case t.id != "" && (t.conn.Conn.Conn().IsClosed() || gone(err)):
		err = errors.Join(err, t.conn.Conn.Close())
		return t.conn.connector.outcome(t.id, err)
	}
	return errors.Join(t.conn.connector.explain(err), t.conn.Conn.Close())
}

// outcome asks what became of a transaction whose connection broke at its commit: nil if it is committed.
func (c *connector) outcome(id string, broke error) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		switch status, err := c.status(ctx, id); {
		case err == nil && status == "committed":
			return nil
		case err == nil && status != "in progress": // "aborted"; or too long ago to be known, which it is not
			return c.explain(broke)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (whether the change was committed is not known)", c.explain(broke))
		}
	}
}

// status is what pg_xact_status says.
func (c *connector) status(ctx context.Context, id string) (status string, err error) {
	conn, err := pgx.ConnectConfig(ctx, c.config.Copy())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "select coalesce(pg_xact_status($1::text::xid8), '')", id).Scan(&status)
	return status, err
}

var _ interface {
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
} = (*conn)(nil)

// gone says whether err means that the connection is of no use any more, or none could be made: the server does not answer,
// ends, or begins.
func gone(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return awayCodes[e.Code]
	}
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

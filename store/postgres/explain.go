package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/silk-sandbox/silk/store"
)

// Error codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	codeDiskFull       = "53100"
	codeTooMany        = "53300"
	codeReadOnly       = "25006"
	codeLockWait       = "55P03" // lock_timeout
	codeIdle           = "25P03" // idle_in_transaction_session_timeout
	codePassword       = "28P01"
	codeAuthorization  = "28000"
	codeNoDatabase     = "3D000"
	codeNoPrivilege    = "42501"
	codeIO             = "58030"
	codeCorrupted      = "XX001"
	codeIndexCorrupted = "XX002"
)

// awayCodes are of a server that ends, has crashed, or begins: it may soon answer again.
var awayCodes = map[string]bool{"57P01": true, "57P02": true, "57P03": true, codeIdle: true, "08000": true, "08003": true, "08006": true}

// explained is an error that was worded here.
type explained struct {
	error
	kind error // of package store, or nil
}

func (e *explained) Unwrap() []error {
	if e.kind == nil {
		return []error{e.error}
	}
	return []error{e.error, e.kind}
}

// explain adds which database it is and what to do about it to an error of PostgreSQL or of the way there, once.
func (c *connector) explain(err error) error {
	if err == nil || err == io.EOF || errors.As(err, new(*explained)) { //nolint:errorlint // driver.Rows says the end with it as it is
		return err
	}
	advice, kind := "", error(nil)
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e):
		switch e.Code {
		case codeDiskFull:
			advice, kind = "; free disk space on its server", store.ErrFull
		case codeTooMany:
			advice, kind = "; its server has no connection left: raise max_connections, or the limit of the role or database", store.ErrBusy
		case codeReadOnly:
			advice = "; it takes no changes: is it a standby? name the primary, or several hosts and target_session_attrs=read-write"
		case codeLockWait:
			advice, kind = "; another server holds it", store.ErrBusy
		case codeIdle:
			advice, kind = "; this server was too slow and lost its transaction", store.ErrBusy
		case codePassword, codeAuthorization:
			advice = "; it does not take this user and password"
		case codeNoDatabase:
			advice = "; make it (createdb)"
		case codeNoPrivilege:
			advice = "; the role must own the tables, or, the first time, be allowed to make some"
		case codeIO:
			advice = "; is the disk of its server failing?"
		case codeCorrupted, codeIndexCorrupted:
			advice = "; its data are damaged: keep a copy, and restore a backup"
		default:
			if awayCodes[e.Code] {
				advice, kind = "; is its server being restarted?", store.ErrAway
			}
		}
		if e.Detail != "" {
			err = fmt.Errorf("%w (%s)", err, e.Detail)
		}
	case errors.Is(err, driver.ErrBadConn):
		err = errors.New("the connection is lost")
		advice, kind = "; is its server being restarted?", store.ErrAway
	case errors.Is(err, context.Canceled): // whoever asked does not wait any more
		return err
	case errors.Is(err, context.DeadlineExceeded), gone(err):
		advice, kind = "; does its server run, and can this host reach it?", store.ErrAway
	}
	return &explained{fmt.Errorf("state database %s: %w%s", c.place, err, advice), kind}
}

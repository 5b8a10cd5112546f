package approval

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/store"
)

// Decision is the owner's answer.
type Decision struct {
	Run    string
	Hash   string // of the request, as the owner was shown it. Needed for a grant; a denial may leave it out
	By     auth.Identity
	Grant  bool          // false: it is denied
	For    time.Duration // of a grant: so long the same request by the same token needs no other; 0: this run only; at most [MaxFor]
	Reason string        // the owner's words, for the trail
	At     time.Time     // zero: now

	// OwnLocal lets whoever is on the unix socket decide about what was asked for over the unix socket. Both have the
	// owner's account, but behind one may be the owner and behind the other a program of the owner's: an agent, an
	// editor's plugin. With OwnLocal such a program can approve its own requests, and the approval protects from mistakes
	// only. It is for hosts where nothing but people connects to the socket, and off by default: then a request that
	// comes over the socket is decided with an owner's token, which the program does not have.
	OwnLocal bool
}

// Decide answers a request that waits, once, and adds approval_granted or approval_denied to the audit trail. It returns
// auth.ErrForbidden, [ErrNotFound], [ErrHash], [ErrOwnRequest], [ErrDecided] or [ErrExpired], and then nothing has changed.
func Decide(ctx context.Context, db *store.DB, d Decision) (a Approval, err error) {
	err = db.Update(ctx, func(tx *sql.Tx) error {
		a, err = DecideTx(ctx, tx, d)
		return err
	})
	if err != nil {
		return Approval{}, err
	}
	return a, nil
}

// DecideTx is Decide inside a transaction of the caller's (of store.DB.Update), in which the run that waited can move on.
func DecideTx(ctx context.Context, tx *sql.Tx, d Decision) (Approval, error) {
	if d.At.IsZero() {
		d.At = time.Now()
	}
	d.At = wholeMs(d.At)
	a, err := decide(ctx, tx, d)
	if err != nil {
		return Approval{}, fmt.Errorf("decide about run %q: %w", d.Run, err)
	}
	return a, nil
}

func decide(ctx context.Context, tx *sql.Tx, d Decision) (Approval, error) {
	if !d.By.Can(auth.ActDecide) {
		return Approval{}, auth.ErrForbidden
	}
	if d.For < 0 || d.For > MaxFor || d.For > 0 && !d.Grant {
		return Approval{}, fmt.Errorf("a grant lasts from 0 to %s, and a denial not at all, not %s", MaxFor, d.For)
	}
	a, err := Get(ctx, tx, d.Run)
	if err != nil {
		return Approval{}, err
	}
	local := d.OwnLocal && d.By.Token == auth.LocalToken
	switch {
	case a.Hash != d.Hash && (d.Grant || d.Hash != ""):
		return Approval{}, ErrHash
	case a.Token == d.By.Token && !local:
		return Approval{}, ErrOwnRequest
	case a.State == Expired:
		return Approval{}, ErrExpired
	case a.State != Pending:
		return Approval{}, fmt.Errorf("%w: %s", ErrDecided, a.State)
	case !d.At.Before(a.Expires):
		return Approval{}, ErrExpired
	}
	a.State, a.Decided, a.DecidedBy, a.Reason = Denied, d.At, d.By.Token, short(d.Reason)
	data := map[string]any{"requestHash": a.Hash, "by": a.DecidedBy, "reason": a.Reason}
	name := audit.ApprovalDenied
	if d.Grant {
		a.State, name = Granted, audit.ApprovalGranted
		data["codeSha256"] = a.CodeSHA256
		if d.For > 0 {
			a.ValidUntil = wholeMs(d.At.Add(d.For))
			data["validUntilMs"] = a.ValidUntil.UnixMilli()
		}
	} else {
		data["cause"] = "owner"
	}
	if err := end(ctx, tx, a); err != nil {
		return Approval{}, err
	}
	return a, event(ctx, tx, a.Run, name, d.At, data)
}

// end stores the answer of a, if it still waits: of two that read it as pending one fails here, also where transactions of a
// database run side by side.
func end(ctx context.Context, tx *sql.Tx, a Approval) error {
	res, err := tx.ExecContext(ctx, `UPDATE approvals SET state = ?, decided_at = ?, decided_by = ?, reason = ?, valid_until = ?
		WHERE run = ? AND state = 'pending'`, string(a.State), a.Decided.UnixMilli(), a.DecidedBy, a.Reason, nullMs(a.ValidUntil), a.Run)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return ErrDecided
}

// expireAtOnce bounds one transaction of [Expire].
const expireAtOnce = 100

// Expire denies all that waited until now without a decision, adds approval_denied with cause timeout for each to the audit
// trail, and returns them without code and plan, the oldest first.
func Expire(ctx context.Context, db *store.DB, now time.Time) (ended []Approval, err error) {
	for {
		var due bool // most of the time there is nothing to do: no reason to wait for the write lock
		err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM approvals WHERE state = 'pending' AND expires_at <= ?)", now.UnixMilli()).Scan(&due)
		if err != nil {
			return ended, fmt.Errorf("look for approvals that are over: %w", err)
		}
		if !due {
			return ended, nil
		}
		var some []Approval
		err = db.Update(ctx, func(tx *sql.Tx) (err error) {
			some, err = ExpireTx(ctx, tx, now)
			return err
		})
		if err != nil || len(some) == 0 { // none: somebody else was faster
			return ended, err
		}
		ended = append(ended, some...)
	}
}

// ExpireTx is Expire inside a transaction of the caller's (of store.DB.Update), in which the runs that waited can end. It
// takes at most 100 at once: fewer than that mean that there are no more.
func ExpireTx(ctx context.Context, tx *sql.Tx, now time.Time) ([]Approval, error) {
	now = wholeMs(now)
	due, err := list(ctx, tx, "WHERE state = 'pending' AND expires_at <= ? ORDER BY run LIMIT ?", now.UnixMilli(), expireAtOnce)
	if err != nil {
		return nil, fmt.Errorf("look for approvals that are over: %w", err)
	}
	for i := range due {
		a := &due[i]
		a.State, a.Decided = Expired, now
		if err := end(ctx, tx, *a); err != nil {
			return nil, fmt.Errorf("deny run %s, whose time is over: %w", a.Run, err)
		}
		err := event(ctx, tx, a.Run, audit.ApprovalDenied, now, map[string]any{"requestHash": a.Hash, "by": "", "cause": "timeout", "reason": ""})
		if err != nil {
			return nil, fmt.Errorf("deny run %s, whose time is over: %w", a.Run, err)
		}
	}
	return due, nil
}

// Withdraw takes the question for a run back, in the transaction that cancels the run, and adds approval_denied with cause
// canceled to the audit trail. It says whether there was one that waited. by is the token of who cancels; at is now if zero.
func Withdraw(ctx context.Context, tx *sql.Tx, run, by string, at time.Time) (bool, error) {
	if at.IsZero() {
		at = time.Now()
	}
	at = wholeMs(at)
	a, err := Get(ctx, tx, run)
	if errors.Is(err, ErrNotFound) || err == nil && a.State != Pending {
		return false, nil
	}
	if err == nil {
		a.State, a.Decided, a.DecidedBy = Withdrawn, at, by
		err = end(ctx, tx, a)
	}
	if err == nil {
		err = event(ctx, tx, run, audit.ApprovalDenied, at, map[string]any{"requestHash": a.Hash, "by": by, "cause": "canceled", "reason": ""})
	}
	if err != nil {
		return false, fmt.Errorf("withdraw approval of run %q: %w", run, err)
	}
	return true, nil
}

// Use is a run that an earlier grant may cover.
type Use struct {
	Run   string
	Token string // who asks
	Hash  string // of the request
	At    time.Time
}

// Covered looks for a grant that makes another question unneeded: for the same request by the same token, made before
// and not over, by a decider whose token is not revoked. If there is one it returns it, without code and plan, and adds
// approval_granted for the run to the audit trail, with the run whose grant it is as "under". tx is the transaction that
// accepts the run.
func Covered(ctx context.Context, tx *sql.Tx, u Use) (Approval, bool, error) {
	a, ok, err := Covering(ctx, tx, u)
	if err != nil || !ok {
		return Approval{}, false, err
	}
	err = event(ctx, tx, u.Run, audit.ApprovalGranted, u.at(), map[string]any{
		"requestHash": a.Hash, "codeSha256": a.CodeSHA256, "by": a.DecidedBy, "reason": a.Reason, "validUntilMs": a.ValidUntil.UnixMilli(), "under": a.Run,
	})
	if err != nil {
		return Approval{}, false, fmt.Errorf("use the grant of run %s for run %q: %w", a.Run, u.Run, err)
	}
	return a, true, nil
}

// Covering is Covered without a word to the audit trail: for looking again at a run that was accepted under a grant. u.At is
// when it was accepted then.
func Covering(ctx context.Context, tx *sql.Tx, u Use) (Approval, bool, error) {
	at := u.at().UnixMilli()
	// Decided before now: a clock that was set back must not make grants last longer than they were given for.
	grants, err := list(ctx, tx, `WHERE hash = ? AND state = 'granted' AND token = ? AND decided_at <= ? AND valid_until > ?
		ORDER BY valid_until DESC`, u.Hash, u.Token, at, at)
	if err != nil {
		return Approval{}, false, fmt.Errorf("look for a grant for run %q: %w", u.Run, err)
	}
	for _, a := range grants {
		revoked, err := auth.Revoked(ctx, tx, a.DecidedBy)
		if err != nil {
			return Approval{}, false, fmt.Errorf("look for a grant for run %q: %w", u.Run, err)
		}
		if !revoked {
			return a, true, nil
		}
	}
	return Approval{}, false, nil
}

func (u Use) at() time.Time {
	if u.At.IsZero() {
		u.At = time.Now()
	}
	return wholeMs(u.At)
}

// Revoke ends what a grant covers beyond its own run, and adds approval_revoked to the audit trail. It ends no run. It returns
// auth.ErrForbidden, [ErrNotFound] or [ErrNoGrant]. at is now if zero.
func Revoke(ctx context.Context, db *store.DB, by auth.Identity, run string, at time.Time) (a Approval, err error) {
	if at.IsZero() {
		at = time.Now()
	}
	at = wholeMs(at)
	err = db.Update(ctx, func(tx *sql.Tx) error {
		if !by.Can(auth.ActDecide) {
			return auth.ErrForbidden
		}
		if a, err = Get(ctx, tx, run); err != nil {
			return err
		}
		if a.State != Granted || !a.ValidUntil.After(at) {
			return ErrNoGrant
		}
		a.ValidUntil = at
		if _, err := tx.ExecContext(ctx, "UPDATE approvals SET valid_until = ? WHERE run = ? AND state = 'granted'", at.UnixMilli(), run); err != nil {
			return err
		}
		return event(ctx, tx, run, audit.ApprovalRevoked, at, map[string]any{"requestHash": a.Hash, "by": by.Token})
	})
	if err != nil {
		return Approval{}, fmt.Errorf("revoke the grant of run %q: %w", run, err)
	}
	return a, nil
}

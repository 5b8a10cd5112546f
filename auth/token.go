package auth

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/store"
)

// MaxNameBytes bounds the name of a token.
const MaxNameBytes = 64

// MaxQuota bounds the quotas of a token: more is a mistake in typing.
const MaxQuota = 1_000_000

var (
	// ErrName is returned by [Create]: the name of the token is not one, or is taken.
	ErrName = errors.New("name of a token")
	// ErrNotFound is returned by [Revoke]: there is no such token.
	ErrNotFound = errors.New("no such token")
	// ErrRevoked is returned by [Revoke]: it is revoked already.
	ErrRevoked = errors.New("the token is revoked already")
)

// New is a token to be made.
type New struct {
	By         Identity  // who makes it; must be allowed [ActTokens]
	Name       string    // 1 to 64 of A-Z a-z 0-9 . _ -, the first one a letter or digit; no other valid token has it
	Role       Role      // one of [Roles]
	MaxRunning int       // runs at once; 0: what the server allows each token
	MaxQueued  int       // runs that wait; 0: what the server allows each token
	Expires    time.Time // zero: never
	At         time.Time // zero: now
}

// Token is what is known of a token; its secret is not.
type Token struct {
	ID         string
	Name       string
	Role       Role
	MaxRunning int
	MaxQueued  int
	Created    time.Time
	Expires    time.Time // zero: never
	Revoked    time.Time // zero: it is not
}

// State is "valid", "expired" or "revoked" at the given moment.
func (t Token) State(now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked"
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return "expired"
	}
	return "valid"
}

func (t Token) identity() Identity {
	return Identity{Token: t.ID, Name: t.Name, Role: t.Role, MaxRunning: t.MaxRunning, MaxQueued: t.MaxQueued}
}

// nameForm is a name that is safe to print and needs no quotes in a shell.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (n New) check() error {
	switch _, err := ulid.ParseStrict(n.Name); {
	case !n.By.Can(ActTokens):
		return ErrForbidden
	case !nameForm.MatchString(n.Name) || len(n.Name) > MaxNameBytes:
		return fmt.Errorf("%w: %q is not 1 to %d of A-Z a-z 0-9 . _ - that begin with a letter or digit", ErrName, n.Name, MaxNameBytes)
	case n.Name == LocalToken:
		return fmt.Errorf("%w: %s is the name of the unix socket", ErrName, LocalToken)
	case err == nil:
		return fmt.Errorf("%w: %s looks like the id of one", ErrName, n.Name)
	case !n.Role.Valid():
		return fmt.Errorf("role %q is not one of owner, runner, viewer", n.Role)
	case n.MaxRunning < 0 || n.MaxQueued < 0 || n.MaxRunning > MaxQuota || n.MaxQueued > MaxQuota:
		return fmt.Errorf("quotas %d and %d are not from 0 to %d", n.MaxRunning, n.MaxQueued, MaxQuota)
	case !n.Expires.IsZero() && !n.Expires.After(n.At):
		return fmt.Errorf("the token would expire on %s, which is not in the future", n.Expires.Format(time.RFC3339))
	}
	return nil
}

// Create makes a token and returns it with its secret, which is kept nowhere: whoever loses it makes another token. It
// returns [ErrForbidden] if n.By may not, and [ErrName] if the name is no good or taken.
func Create(ctx context.Context, db *store.DB, n New) (Token, secret.Secret, error) {
	if n.At.IsZero() {
		n.At = time.Now()
	}
	n.At, n.Expires = wholeMs(n.At), wholeMs(n.Expires)
	if err := n.check(); err != nil {
		return Token{}, secret.Secret{}, fmt.Errorf("create token: %w", err)
	}
	t := Token{
		ID: ulid.MustNew(ulid.Timestamp(n.At), rand.Reader).String(), Name: n.Name, Role: n.Role,
		MaxRunning: n.MaxRunning, MaxQueued: n.MaxQueued, Created: n.At, Expires: n.Expires,
	}
	data := map[string]any{
		"intentId": "system", "token": t.ID, "name": t.Name, "role": t.Role, "by": n.By.Token,
		"maxRunning": t.MaxRunning, "maxQueued": t.MaxQueued,
	}
	if !t.Expires.IsZero() {
		data["expiresAtMs"] = t.Expires.UnixMilli()
	}
	s := newSecret()
	err := db.Update(ctx, func(tx *sql.Tx) error {
		var taken string
		err := tx.QueryRowContext(ctx, "SELECT id FROM tokens WHERE name = ? AND revoked_at IS NULL", t.Name).Scan(&taken)
		switch {
		case err == nil:
			return fmt.Errorf("%w: %s is that of token %s; revoke it first, or choose another", ErrName, t.Name, taken)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO tokens (id, name, role, hash, max_running, max_queued, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, t.ID, t.Name, string(t.Role), hashOf(s), t.MaxRunning, t.MaxQueued, t.Created.UnixMilli(), nullMs(t.Expires))
		if err != nil {
			return err
		}
		return event(ctx, tx, audit.TokenCreated, n.At, data)
	})
	if err != nil {
		return Token{}, secret.Secret{}, fmt.Errorf("create token: %w", err)
	}
	return t, s, nil
}

// Revoke ends a token, named by its id or its name. Nothing is authorized by it any more, within [MaxCacheAge] in every
// process; [Verifier.Revoke] is at once in its own. Of the tokens that had a name it is the one that is not revoked. at is
// now if zero. It returns [ErrForbidden], [ErrNotFound] or [ErrRevoked].
func Revoke(ctx context.Context, db *store.DB, by Identity, nameOrID string, at time.Time) (Token, error) {
	if at.IsZero() {
		at = time.Now()
	}
	at = wholeMs(at)
	var t Token
	err := db.Update(ctx, func(tx *sql.Tx) (err error) {
		if !by.Can(ActTokens) {
			return ErrForbidden
		}
		t, err = scanToken(tx.QueryRowContext(ctx, "SELECT "+columns+" FROM tokens WHERE id = ? OR name = ? ORDER BY revoked_at IS NULL DESC, revoked_at DESC LIMIT 1", nameOrID, nameOrID))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return ErrNotFound
		case err != nil:
			return err
		case !t.Revoked.IsZero():
			return ErrRevoked
		}
		t.Revoked = at
		if _, err := tx.ExecContext(ctx, "UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", at.UnixMilli(), t.ID); err != nil {
			return err
		}
		return event(ctx, tx, audit.TokenRevoked, at, map[string]any{"intentId": "system", "token": t.ID, "name": t.Name, "by": by.Token})
	})
	if err != nil {
		return Token{}, fmt.Errorf("revoke token %q: %w", nameOrID, err)
	}
	return t, nil
}

// List returns all tokens, revoked and expired ones too, the newest first.
func List(ctx context.Context, db *store.DB) (tokens []Token, err error) {
	rows, err := db.QueryContext(ctx, "SELECT "+columns+" FROM tokens ORDER BY id DESC")
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		t, err := scanToken(rows)
		if err != nil {
			return nil, fmt.Errorf("list tokens: %w", err)
		}
		tokens = append(tokens, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return tokens, nil
}

// Revoked says whether the token with this id is revoked, or is not there at all. [LocalToken] never is.
func Revoked(ctx context.Context, tx *sql.Tx, id string) (bool, error) {
	if id == LocalToken {
		return false, nil
	}
	var revoked bool
	err := tx.QueryRowContext(ctx, "SELECT revoked_at IS NOT NULL FROM tokens WHERE id = ?", id).Scan(&revoked)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("look up token %s: %w", id, err)
	}
	return revoked, nil
}

// columns are those that scanToken reads.
const columns = "id, name, role, max_running, max_queued, created_at, expires_at, revoked_at"

func scanToken(row interface{ Scan(...any) error }, more ...any) (t Token, err error) {
	var created int64
	var expires, revoked sql.NullInt64
	err = row.Scan(append([]any{&t.ID, &t.Name, &t.Role, &t.MaxRunning, &t.MaxQueued, &created, &expires, &revoked}, more...)...)
	t.Created, t.Expires, t.Revoked = time.UnixMilli(created), timeOf(expires), timeOf(revoked)
	return t, err
}

func event(ctx context.Context, tx *sql.Tx, name audit.Name, at time.Time, data map[string]any) error {
	e, err := audit.New("system", name, at, data)
	if err != nil {
		return err
	}
	return audit.Append(ctx, tx, &e)
}

// wholeMs is t as it comes back from the database.
func wholeMs(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli())
}

func nullMs(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

func timeOf(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64)
}

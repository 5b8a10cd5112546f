package auth

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/store"
)

// MaxCacheAge is how long a [Verifier] may believe what it has read: a token that another process revoked works for no
// longer than that.
const MaxCacheAge = time.Second

// VerifierConfig is what a [Verifier] can do without. Its zero value works.
type VerifierConfig struct {
	CacheAge   time.Duration // how long an answer is believed; 0 or more than [MaxCacheAge]: MaxCacheAge; below 0: not at all
	MaxEntries int           // answers kept at most; 0: 1024
	Clock      func() time.Time
	Log        *slog.Logger // why a secret was refused; nil: nowhere
}

// Verifier turns secrets into identities. Safe for concurrent use.
type Verifier struct {
	db  *store.DB
	cfg VerifierConfig

	mu         sync.Mutex
	cache      map[string]answer // by "secret" and its hash, or "token" and its id
	generation uint64            // counts revocations: what was read before one is not kept after it
}

// answer is a token that was valid, but for its expiry, when it was read.
type answer struct {
	token Token
	read  time.Time
}

// NewVerifier makes a verifier that reads the tokens of db.
func NewVerifier(db *store.DB, cfg VerifierConfig) *Verifier {
	if cfg.CacheAge == 0 || cfg.CacheAge > MaxCacheAge {
		cfg.CacheAge = MaxCacheAge
	}
	if cfg.MaxEntries <= 0 {
		cfg.MaxEntries = 1024
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Verifier{db: db, cfg: cfg, cache: map[string]answer{}}
}

// Verify returns whose secret s is. It returns [ErrUnauthorized] if it is nobody's, or of a token that is expired or revoked,
// and another error if the database cannot be asked; then nobody knows, and nothing may be done.
//
// How long it takes says nothing about which secrets exist: they are looked up by their SHA-256, so that whoever measures
// learns about the hash of a guess, which leads to no better guess, and what was found is compared in constant time.
func (v *Verifier) Verify(ctx context.Context, s secret.Secret) (Identity, error) {
	if err := CheckSecret(s); err != nil {
		v.cfg.Log.InfoContext(ctx, "token refused", "why", err.Error())
		return Identity{}, ErrUnauthorized
	}
	hash := hashOf(s)
	return v.look(ctx, "secret "+hash, func() (Token, error) {
		var have string
		t, err := scanToken(v.db.QueryRowContext(ctx, "SELECT "+columns+", hash FROM tokens WHERE hash = ?", hash), &have)
		if err == nil && subtle.ConstantTimeCompare([]byte(have), []byte(hash)) != 1 {
			err = sql.ErrNoRows
		}
		return t, err
	})
}

// Still returns nil if the identity that was verified before is still good, else as [Verifier.Verify] does. Streams that
// live long ask it now and then: a revoked token must not go on watching.
func (v *Verifier) Still(ctx context.Context, id Identity) error {
	if id.Token == LocalToken {
		return nil
	}
	_, err := v.look(ctx, "token "+id.Token, func() (Token, error) {
		return scanToken(v.db.QueryRowContext(ctx, "SELECT "+columns+" FROM tokens WHERE id = ?", id.Token))
	})
	return err
}

// Revoke is [Revoke], and v refuses the token from then on.
func (v *Verifier) Revoke(ctx context.Context, by Identity, nameOrID string) (Token, error) {
	t, err := Revoke(ctx, v.db, by, nameOrID, v.cfg.Clock())
	if err != nil {
		return t, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.generation++
	clear(v.cache)
	return t, nil
}

// look returns the identity of the token that key stands for, from the cache if it was read lately, else by read.
func (v *Verifier) look(ctx context.Context, key string, read func() (Token, error)) (Identity, error) {
	now := v.cfg.Clock()
	v.mu.Lock()
	a, hit := v.cache[key]
	generation := v.generation
	v.mu.Unlock()

	// A clock that was set back makes answers from the future; they are not believed.
	if age := now.Sub(a.read); !hit || age >= v.cfg.CacheAge || age < 0 {
		t, err := read()
		switch {
		case errors.Is(err, sql.ErrNoRows):
			v.cfg.Log.InfoContext(ctx, "token refused", "why", "unknown")
			return Identity{}, ErrUnauthorized
		case err != nil:
			return Identity{}, fmt.Errorf("verify token: %w", err)
		}
		a = answer{token: t, read: now}
		v.keep(key, a, generation)
	}
	if state := a.token.State(now); state != "valid" {
		v.cfg.Log.InfoContext(ctx, "token refused", "why", state, "token", a.token.ID, "name", a.token.Name)
		return Identity{}, ErrUnauthorized
	}
	return a.token.identity(), nil
}

// keep remembers a, unless a token was revoked since it was read. Only what was found is kept, so guesses fill nothing.
func (v *Verifier) keep(key string, a answer, generation uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cfg.CacheAge < 0 || generation != v.generation {
		return
	}
	if len(v.cache) >= v.cfg.MaxEntries {
		clear(v.cache) // each entry lives for a second at most: to choose one is not worth it
	}
	v.cache[key] = a
}

package auth

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/secret"
)

func TestVerify(t *testing.T) {
	db, c := open(t), newClock()
	var log bytes.Buffer
	v := NewVerifier(db, VerifierConfig{Clock: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	tok, s := create(t, db, New{Name: "obsidian", Role: Viewer, MaxRunning: 1, MaxQueued: 2, At: c.Now()})
	want := Identity{Token: tok.ID, Name: "obsidian", Role: Viewer, MaxRunning: 1, MaxQueued: 2}
	for range 2 {
		if got, err := v.Verify(t.Context(), s); err != nil || got != want {
			t.Errorf("%v, %v", got, err)
		}
	}
	revoked, rs := create(t, db, New{Name: "gone", At: c.Now()})
	if _, err := Revoke(t.Context(), db, LocalOwner, revoked.ID, c.Now()); err != nil {
		t.Fatal(err)
	}
	_, es := create(t, db, New{Name: "short", Expires: c.Now().Add(time.Minute), At: c.Now()})
	c.move(time.Minute)
	text := s.Reveal()
	for _, test := range []struct {
		name string
		s    secret.Secret
		why  string
	}{
		{"nothing", secret.Secret{}, "does not begin"},
		{"one that was never made", newSecret(), "unknown"},
		{"a typo", secret.New(text[:20] + string(letters[(strings.IndexByte(letters, text[20])+1)%32]) + text[21:]), "checksum"},
		{"the kept hash", secret.New(hashOf(s)), "does not begin"},
		{"a revoked one", rs, "revoked"},
		{"an expired one", es, "expired"},
	} {
		log.Reset()
		id, err := v.Verify(t.Context(), test.s)
		if err != ErrUnauthorized || id != (Identity{}) { //nolint:errorlint // the very same error for all: it tells nothing
			t.Errorf("%s: %v, %v", test.name, id, err)
		}
		if !strings.Contains(log.String(), test.why) || test.s.Reveal() != "" && strings.Contains(log.String(), test.s.Reveal()[5:20]) {
			t.Errorf("%s: the log says %s, want %s and not the secret", test.name, log.String(), test.why)
		}
	}
}

// An answer is believed for a second, and no longer; its expiry is looked at each time.
func TestCacheAge(t *testing.T) {
	for name, lookup := range map[string]func(*Verifier, secret.Secret, Token) error{
		"Verify": func(v *Verifier, s secret.Secret, _ Token) error {
			_, err := v.Verify(context.Background(), s)
			return err
		},
		"Still": func(v *Verifier, _ secret.Secret, tok Token) error {
			return v.Still(context.Background(), tok.identity())
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, c := open(t), newClock()
			v := NewVerifier(db, VerifierConfig{Clock: c.Now, CacheAge: time.Hour}) // more than MaxCacheAge is not had
			tok, s := create(t, db, New{Name: "a", Expires: c.Now().Add(time.Hour), At: c.Now()})
			if err := lookup(v, s, tok); err != nil {
				t.Fatal(err)
			}
			if _, err := Revoke(t.Context(), db, LocalOwner, "a", c.Now()); err != nil { // as another process does
				t.Fatal(err)
			}
			c.move(MaxCacheAge - 1)
			if err := lookup(v, s, tok); err != nil {
				t.Errorf("the cache is not used: %v", err)
			}
			c.move(1)
			if err := lookup(v, s, tok); !errors.Is(err, ErrUnauthorized) {
				t.Errorf("a second after it was revoked: %v", err)
			}

			tok, s = create(t, db, New{Name: "b", Expires: c.Now().Add(time.Millisecond), At: c.Now()})
			if err := lookup(v, s, tok); err != nil {
				t.Fatal(err)
			}
			c.move(time.Millisecond)
			if err := lookup(v, s, tok); !errors.Is(err, ErrUnauthorized) {
				t.Errorf("the cache has outlived the token: %v", err)
			}
		})
	}
}

func TestCacheWhenTheClockIsSetBack(t *testing.T) {
	db, c := open(t), newClock()
	v := NewVerifier(db, VerifierConfig{Clock: c.Now})
	tok, s := create(t, db, New{Name: "a", At: c.Now()})
	if _, err := v.Verify(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, err := Revoke(t.Context(), db, LocalOwner, tok.ID, c.Now()); err != nil {
		t.Fatal(err)
	}
	c.move(-time.Hour)
	if _, err := v.Verify(t.Context(), s); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("an answer from the future is believed: %v", err)
	}
}

func TestVerifierRevokeIsAtOnce(t *testing.T) {
	db, c := open(t), newClock()
	v := NewVerifier(db, VerifierConfig{Clock: c.Now})
	tok, s := create(t, db, New{Name: "a", At: c.Now()})
	id, err := v.Verify(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Still(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Revoke(t.Context(), LocalOwner, "a"); err != nil || got.ID != tok.ID {
		t.Fatal(got, err)
	}
	if _, err := v.Verify(t.Context(), s); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("Verify: %v", err)
	}
	if err := v.Still(t.Context(), id); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("Still: %v", err)
	}
}

// What was read before a token was revoked is not kept after it, however the two fall together.
func TestRevokeWhileItIsRead(t *testing.T) {
	db, c := open(t), newClock()
	v := NewVerifier(db, VerifierConfig{Clock: c.Now})
	tok, s := create(t, db, New{Name: "a", At: c.Now()})
	key := "secret " + hashOf(s)
	_, err := v.look(t.Context(), key, func() (Token, error) {
		_, err := v.Revoke(t.Context(), LocalOwner, "a")
		return tok, err // read before, arrives after
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), s); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("what was read before is kept: %v", err)
	}
}

func TestStill(t *testing.T) {
	db := open(t)
	v := NewVerifier(db, VerifierConfig{})
	if err := v.Still(t.Context(), LocalOwner); err != nil {
		t.Errorf("the local owner: %v", err)
	}
	for _, id := range []Identity{{}, {Token: "01JF4Z7M6W8V4Y2K3T5R9QXBCD", Role: Owner}} {
		if err := v.Still(t.Context(), id); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%v: %v", id, err)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	db, c := open(t), newClock()
	v := NewVerifier(db, VerifierConfig{Clock: c.Now, MaxEntries: 3})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		_, s := create(t, db, New{Name: name, At: c.Now()})
		if _, err := v.Verify(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if len(v.cache) > 3 {
			t.Errorf("%d answers are kept", len(v.cache))
		}
	}
	before := len(v.cache)
	for range 20 {
		v.Verify(t.Context(), newSecret())
	}
	if len(v.cache) != before {
		t.Error("guesses are kept")
	}
}

// A database that cannot be asked is not a no, and never a yes.
func TestVerifyWithoutDatabase(t *testing.T) {
	db, c := open(t), newClock()
	_, s := create(t, db, New{Name: "a", At: c.Now()})
	v := NewVerifier(db, VerifierConfig{Clock: c.Now, CacheAge: -1})
	if _, err := v.Verify(t.Context(), s); err != nil || len(v.cache) > 0 {
		t.Errorf("without a cache: %v, %d kept", err, len(v.cache))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	id, err := v.Verify(ctx, s)
	if err == nil || errors.Is(err, ErrUnauthorized) || id != (Identity{}) {
		t.Errorf("%v, %v", id, err)
	}
	if err := v.Still(ctx, Identity{Token: "x"}); err == nil || errors.Is(err, ErrUnauthorized) {
		t.Errorf("Still: %v", err)
	}
}

func TestVerifyTogether(t *testing.T) {
	db := open(t)
	v := NewVerifier(db, VerifierConfig{})
	_, s := create(t, db, New{Name: "a"})
	var revoked atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				before := revoked.Load()
				if _, err := v.Verify(t.Context(), s); err == nil && before {
					t.Error("verified after Revoke has returned")
				}
			}
		})
	}
	if _, err := v.Revoke(t.Context(), LocalOwner, "a"); err != nil {
		t.Error(err)
	}
	revoked.Store(true)
	wg.Wait()
	if _, err := v.Verify(t.Context(), s); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("in the end: %v", err)
	}
}

func BenchmarkVerify(b *testing.B) {
	db := open(b)
	_, s := create(b, db, New{Name: "a"})
	for name, age := range map[string]time.Duration{"cached": 0, "read": -1} {
		b.Run(name, func(b *testing.B) {
			v := NewVerifier(db, VerifierConfig{CacheAge: age})
			for b.Loop() {
				if _, err := v.Verify(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

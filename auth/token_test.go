package auth

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

func open(t testing.TB) *store.DB {
	t.Helper()
	db, err := storetest.Open(t.Context(), filepath.Join(t.TempDir(), store.FileName))
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

// trail returns the data of the token events, oldest first.
func trail(t testing.TB, db *store.DB) (lines []string) {
	t.Helper()
	if _, err := audit.Verify(t.Context(), db); err != nil {
		t.Error(err)
	}
	events, err := audit.List(t.Context(), db, audit.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		var data map[string]any
		if err := json.Unmarshal(e.Data, &data); err != nil || data["intentId"] != "system" || e.Run != "system" {
			t.Errorf("%s of %s has data %s, %v", e.Name, e.Run, e.Data, err)
		}
		line := string(e.Name)
		for _, k := range []string{"token", "name", "role", "by", "expiresAtMs", "maxRunning", "maxQueued"} {
			if v, ok := data[k]; ok {
				if f, ok := v.(float64); ok {
					v = int64(f)
				}
				line += fmt.Sprintf(" %s=%v", k, v)
			}
		}
		lines = append([]string{line}, lines...)
	}
	return lines
}

func create(t testing.TB, db *store.DB, n New) (Token, secret.Secret) {
	t.Helper()
	if n.By == (Identity{}) {
		n.By = LocalOwner
	}
	if n.Role == "" {
		n.Role = Runner
	}
	tok, s, err := Create(t.Context(), db, n)
	if err != nil {
		t.Fatal(err)
	}
	return tok, s
}

func TestCreateAndList(t *testing.T) {
	db, c := open(t), newClock()
	first, s := create(t, db, New{Name: "obsidian", Role: Runner, MaxRunning: 2, MaxQueued: 7, Expires: c.Now().Add(time.Hour + 999*time.Microsecond), At: c.Now()})
	second, other := create(t, db, New{Name: "watch.1", Role: Viewer, At: c.Now().Add(time.Minute)})
	if s.Equal(other) || CheckSecret(s) != nil {
		t.Error("the secrets are equal, or are none")
	}
	want := Token{ID: first.ID, Name: "obsidian", Role: Runner, MaxRunning: 2, MaxQueued: 7, Created: c.Now(), Expires: c.Now().Add(time.Hour)}
	if d := cmp.Diff(want, first); d != "" {
		t.Error(d)
	}
	list, err := List(t.Context(), db)
	if d := cmp.Diff([]Token{second, first}, list); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if id, err := ulid.ParseStrict(first.ID); err != nil || ulid.Time(id.Time()).UnixMilli() != c.Now().UnixMilli() {
		t.Errorf("id %s: %v", first.ID, err)
	}
	wantTrail := []string{
		fmt.Sprintf("token_created token=%s name=obsidian role=runner by=local expiresAtMs=%d maxRunning=2 maxQueued=7", first.ID, first.Expires.UnixMilli()),
		fmt.Sprintf("token_created token=%s name=watch.1 role=viewer by=local maxRunning=0 maxQueued=0", second.ID),
	}
	if d := cmp.Diff(wantTrail, trail(t, db)); d != "" {
		t.Error(d)
	}
}

// The secret is nowhere in the files of the database.
func TestTheSecretIsNotKept(t *testing.T) {
	db := open(t)
	_, s := create(t, db, New{Name: "a"})
	rows, err := db.QueryContext(t.Context(), "SELECT hash FROM tokens UNION ALL SELECT data FROM audit_events")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		n++
		if strings.Contains(text, s.Reveal()[10:30]) {
			t.Errorf("the secret is in %s", text)
		}
	}
	if err := rows.Err(); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	db, c := open(t), newClock()
	create(t, db, New{Name: "taken", At: c.Now()})
	for _, test := range []struct {
		name string
		n    New
		want error
	}{
		{"by nobody", New{Name: "a", Role: Runner}, ErrForbidden},
		{"by a runner", New{By: Identity{Token: "t", Role: Runner}, Name: "a", Role: Runner}, ErrForbidden},
		{"by a viewer", New{By: Identity{Token: "t", Role: Viewer}, Name: "a", Role: Viewer}, ErrForbidden},
		{"no name", New{By: LocalOwner, Role: Runner}, ErrName},
		{"a taken name", New{By: LocalOwner, Name: "taken", Role: Runner}, ErrName},
		{"the name of the socket", New{By: LocalOwner, Name: "local", Role: Runner}, ErrName},
		{"a name that looks like an id", New{By: LocalOwner, Name: "01JF4Z7M6W8V4Y2K3T5R9QXBCD", Role: Runner}, ErrName},
		{"a name that looks like a flag", New{By: LocalOwner, Name: "-a", Role: Runner}, ErrName},
		{"a name with a space", New{By: LocalOwner, Name: "a b", Role: Runner}, ErrName},
		{"a name with a line break", New{By: LocalOwner, Name: "a\n", Role: Runner}, ErrName},
		{"a name that steers terminals", New{By: LocalOwner, Name: "a\x1b[2J", Role: Runner}, ErrName},
		{"a name that is not ASCII", New{By: LocalOwner, Name: "ä", Role: Runner}, ErrName},
		{"a long name", New{By: LocalOwner, Name: strings.Repeat("a", MaxNameBytes+1), Role: Runner}, ErrName},
		{"no role", New{By: LocalOwner, Name: "a"}, nil},
		{"another role", New{By: LocalOwner, Name: "a", Role: "root"}, nil},
		{"a quota below zero", New{By: LocalOwner, Name: "a", Role: Runner, MaxRunning: -1}, nil},
		{"another one", New{By: LocalOwner, Name: "a", Role: Runner, MaxQueued: -1}, nil},
		{"a quota that is a mistake", New{By: LocalOwner, Name: "a", Role: Runner, MaxQueued: MaxQuota + 1}, nil},
		{"expired already", New{By: LocalOwner, Name: "a", Role: Runner, Expires: c.Now()}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.n.At = c.Now()
			tok, s, err := Create(t.Context(), db, test.n)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if tok != (Token{}) || !s.Empty() {
				t.Error("it returns a token besides")
			}
		})
	}
	if got := trail(t, db); len(got) != 1 {
		t.Errorf("what was refused is in the trail: %q", got)
	}
	longest := strings.Repeat("a", MaxNameBytes)
	create(t, db, New{Name: longest, Expires: c.Now().Add(time.Millisecond), MaxRunning: MaxQuota, At: c.Now()})
}

func TestRevoke(t *testing.T) {
	db, c := open(t), newClock()
	first, _ := create(t, db, New{Name: "obsidian", At: c.Now()})
	owner, _ := create(t, db, New{Name: "phone", Role: Owner, At: c.Now()})

	for _, by := range []Identity{{}, first.identity(), {Token: "v", Role: Viewer}} {
		if _, err := Revoke(t.Context(), db, by, "phone", c.Now()); !errors.Is(err, ErrForbidden) {
			t.Errorf("by %v: %v", by, err)
		}
	}
	for _, name := range []string{"", "obsidia", "obsidian%", "OBSIDIAN", strings.ToLower(first.ID)} {
		if _, err := Revoke(t.Context(), db, LocalOwner, name, c.Now()); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	got, err := Revoke(t.Context(), db, owner.identity(), "obsidian", c.Now().Add(time.Second))
	want := first
	want.Revoked = c.Now().Add(time.Second)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, again := range []string{"obsidian", first.ID} {
		if _, err := Revoke(t.Context(), db, LocalOwner, again, c.Now()); !errors.Is(err, ErrRevoked) {
			t.Errorf("%s again: %v", again, err)
		}
	}

	// The name is free again, and means the new one from then on; the id means the old one.
	second, _ := create(t, db, New{Name: "obsidian", At: c.Now().Add(time.Minute)})
	if _, err := Revoke(t.Context(), db, LocalOwner, first.ID, c.Now()); !errors.Is(err, ErrRevoked) {
		t.Errorf("the old one by its id: %v", err)
	}
	if got, err := Revoke(t.Context(), db, LocalOwner, "obsidian", c.Now()); err != nil || got.ID != second.ID {
		t.Errorf("by the name: %s, %v; want %s", got.ID, err, second.ID)
	}
	if got, err := Revoke(t.Context(), db, LocalOwner, owner.ID, c.Now()); err != nil || got.ID != owner.ID {
		t.Errorf("by the id: %s, %v", got.ID, err)
	}
	wantTrail := []string{
		fmt.Sprintf("token_revoked token=%s name=obsidian by=%s", first.ID, owner.ID),
		fmt.Sprintf("token_created token=%s name=obsidian role=runner by=local maxRunning=0 maxQueued=0", second.ID),
		fmt.Sprintf("token_revoked token=%s name=obsidian by=local", second.ID),
		fmt.Sprintf("token_revoked token=%s name=phone by=local", owner.ID),
	}
	if d := cmp.Diff(wantTrail, trail(t, db)[2:]); d != "" {
		t.Error(d)
	}
}

func TestState(t *testing.T) {
	now := newClock().Now()
	for name, test := range map[string]struct {
		token Token
		want  string
	}{
		"no end":                            {Token{}, "valid"},
		"before its end":                    {Token{Expires: now.Add(1)}, "valid"},
		"at its end":                        {Token{Expires: now}, "expired"},
		"after its end":                     {Token{Expires: now.Add(-1)}, "expired"},
		"revoked":                           {Token{Revoked: now.Add(-1)}, "revoked"},
		"revoked by a clock that was ahead": {Token{Revoked: now.Add(time.Hour)}, "revoked"},
		"revoked and over":                  {Token{Revoked: now, Expires: now}, "revoked"},
	} {
		if got := test.token.State(now); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRevoked(t *testing.T) {
	db, c := open(t), newClock()
	good, _ := create(t, db, New{Name: "good", At: c.Now()})
	over, _ := create(t, db, New{Name: "over", Expires: c.Now().Add(time.Millisecond), At: c.Now()})
	bad, _ := create(t, db, New{Name: "bad", At: c.Now()})
	if _, err := Revoke(t.Context(), db, LocalOwner, "bad", c.Now()); err != nil {
		t.Fatal(err)
	}
	err := db.View(t.Context(), func(tx *sql.Tx) error {
		for id, want := range map[string]bool{good.ID: false, over.ID: false, bad.ID: true, LocalToken: false, "": true, "nobody": true, "good": true} {
			if got, err := Revoked(t.Context(), tx, id); got != want || err != nil {
				t.Errorf("%s: %t, %v", id, got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

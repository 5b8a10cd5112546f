package approval

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/auth"
)

func TestGrant(t *testing.T) {
	db := open(t)
	owner := token(t, db, "phone", auth.Owner)
	r := request("01A", "tok", "print(1)\n")
	asked := ask(t, db, r)
	at := noon.Add(time.Minute + 999*time.Microsecond)
	got, err := Decide(t.Context(), db, Decision{Run: "01A", Hash: r.Hash, By: owner, Grant: true, For: time.Hour, Reason: "looks\x1b[2J good", At: at})
	if err != nil {
		t.Fatal(err)
	}
	want := asked
	want.State, want.Decided, want.DecidedBy, want.Reason, want.ValidUntil = Granted, noon.Add(time.Minute), owner.Token, "looks⟨U+001B⟩[2J good", noon.Add(time.Minute+time.Hour)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if stored, err := Get(t.Context(), db, "01A"); err != nil || cmp.Diff(want, stored) != "" {
		t.Errorf("stored: %v\n%s", err, cmp.Diff(want, stored))
	}
	wantTrail := fmt.Sprintf("granted 01A requestHash=%s codeSha256=%s by=%s reason=looks⟨U+001B⟩[2J good validUntilMs=%v",
		r.Hash, r.CodeSHA256, owner.Token, float64(want.ValidUntil.UnixMilli()))
	lines := trail(t, db, "requestHash", "codeSha256", "by", "cause", "reason", "validUntilMs", "under")
	if len(lines) != 2 || lines[1] != wantTrail {
		t.Errorf("the trail has %q, want %q at its end", lines, wantTrail)
	}
}

func TestDeny(t *testing.T) {
	db := open(t)
	ask(t, db, request("01A", "tok", "x"))
	got, err := Decide(t.Context(), db, Decision{Run: "01A", By: auth.LocalOwner, Reason: "no", At: noon})
	if err != nil || got.State != Denied || got.DecidedBy != "local" || !got.ValidUntil.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	want := []string{"requested 01A", "denied 01A by=local cause=owner reason=no"}
	if d := cmp.Diff(want, trail(t, db, "by", "cause", "reason", "validUntilMs")); d != "" {
		t.Error(d)
	}
}

func TestDecideRefuses(t *testing.T) {
	db := open(t)
	asker := token(t, db, "agent", auth.Owner) // even an owner
	owner := token(t, db, "phone", auth.Owner)
	runner := token(t, db, "ci", auth.Runner)
	viewer := token(t, db, "wall", auth.Viewer)
	r := request("01A", asker.Token, "print(1)\n")
	ask(t, db, r)
	local := request("01L", auth.LocalToken, "print(2)\n")
	ask(t, db, local)
	good := Decision{Run: "01A", Hash: r.Hash, By: owner, Grant: true, At: noon}

	for _, test := range []struct {
		name  string
		spoil func(*Decision)
		want  error
	}{
		{"by nobody", func(d *Decision) { d.By = auth.Identity{} }, auth.ErrForbidden},
		{"by an owner without a token", func(d *Decision) { d.By.Token = "" }, auth.ErrForbidden},
		{"by a runner", func(d *Decision) { d.By = runner }, auth.ErrForbidden},
		{"by a viewer", func(d *Decision) { d.By = viewer }, auth.ErrForbidden},
		{"a denial by a runner", func(d *Decision) { d.By, d.Grant = runner, false }, auth.ErrForbidden},
		{"by who asked", func(d *Decision) { d.By = asker }, ErrOwnRequest},
		{"by who asked, with what is for the socket", func(d *Decision) { d.By, d.OwnLocal = asker, true }, ErrOwnRequest},
		{"a denial by who asked", func(d *Decision) { d.By, d.Grant = asker, false }, ErrOwnRequest},
		{"by the socket, asked over the socket", func(d *Decision) { d.Run, d.Hash, d.By = "01L", local.Hash, auth.LocalOwner }, ErrOwnRequest},
		{"another run", func(d *Decision) { d.Run = "01B" }, ErrNotFound},
		{"the beginning of a run", func(d *Decision) { d.Run = "01" }, ErrNotFound},
		{"another hash", func(d *Decision) { d.Hash = local.Hash }, ErrHash},
		{"no hash", func(d *Decision) { d.Hash = "" }, ErrHash},
		{"the beginning of the hash", func(d *Decision) { d.Hash = d.Hash[:12] }, ErrHash},
		{"the hash in upper case", func(d *Decision) { d.Hash = strings.ToUpper(d.Hash) }, ErrHash},
		{"a denial with another hash", func(d *Decision) { d.Hash, d.Grant = local.Hash, false }, ErrHash},
		{"the hash of the code", func(d *Decision) { d.Hash = r.CodeSHA256 }, ErrHash},
		{"at the end of its time", func(d *Decision) { d.At = r.Expires }, ErrExpired},
		{"a denial at the end of its time", func(d *Decision) { d.At, d.Grant = r.Expires, false }, ErrExpired},
		{"for less than nothing", func(d *Decision) { d.For = -1 }, nil},
		{"for too long", func(d *Decision) { d.For = MaxFor + 1 }, nil},
		{"a denial for hours", func(d *Decision) { d.For, d.Grant = time.Hour, false }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := good
			test.spoil(&d)
			a, err := Decide(t.Context(), db, d)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if a.Run != "" {
				t.Error("it returns an approval besides")
			}
		})
	}
	for _, run := range []string{"01A", "01L"} {
		if a, err := Get(t.Context(), db, run); err != nil || a.State != Pending || !a.Decided.IsZero() || a.DecidedBy != "" {
			t.Errorf("%s has become %+v, %v", run, a, err)
		}
	}
	if d := cmp.Diff([]string{"requested 01A", "requested 01L"}, trail(t, db)); d != "" {
		t.Errorf("what was refused is in the trail: %s", d)
	}

	// The last moment; the longest time; the socket where the owner said so.
	good.At, good.For = r.Expires.Add(-time.Millisecond), MaxFor
	if _, err := Decide(t.Context(), db, good); err != nil {
		t.Errorf("in the last moment: %v", err)
	}
	if _, err := Decide(t.Context(), db, Decision{Run: "01L", Hash: local.Hash, By: auth.LocalOwner, Grant: true, OwnLocal: true, At: noon}); err != nil {
		t.Errorf("the socket for itself, as configured: %v", err)
	}
}

// Whatever an approval has become, it stays.
func TestDecidedIsFinal(t *testing.T) {
	for name, first := range map[string]func(*testing.T, *sql.Tx, Request) error{
		"granted": func(t *testing.T, tx *sql.Tx, r Request) error {
			_, err := DecideTx(t.Context(), tx, Decision{Run: r.Run, Hash: r.Hash, By: auth.LocalOwner, Grant: true, At: noon})
			return err
		},
		"denied": func(t *testing.T, tx *sql.Tx, r Request) error {
			_, err := DecideTx(t.Context(), tx, Decision{Run: r.Run, By: auth.LocalOwner, At: noon})
			return err
		},
		"expired": func(t *testing.T, tx *sql.Tx, r Request) error {
			_, err := ExpireTx(t.Context(), tx, r.Expires)
			return err
		},
		"withdrawn": func(t *testing.T, tx *sql.Tx, r Request) error {
			_, err := Withdraw(t.Context(), tx, r.Run, "tok", noon)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			r := request("01A", "tok", "x")
			ask(t, db, r)
			if err := db.Update(t.Context(), func(tx *sql.Tx) error { return first(t, tx, r) }); err != nil {
				t.Fatal(err)
			}
			before, err := Get(t.Context(), db, "01A")
			if err != nil || string(before.State) != name {
				t.Fatalf("%+v, %v", before, err)
			}
			want := ErrDecided
			if name == "expired" {
				want = ErrExpired
			}
			for _, grant := range []bool{true, false} {
				if _, err := Decide(t.Context(), db, Decision{Run: "01A", Hash: r.Hash, By: auth.LocalOwner, Grant: grant, At: noon}); !errors.Is(err, want) || name != "expired" && !strings.HasSuffix(err.Error(), name) {
					t.Errorf("decided again: %v", err)
				}
			}
			if ended, err := Expire(t.Context(), db, r.Expires.Add(time.Hour)); err != nil || len(ended) > 0 {
				t.Errorf("expired again: %v, %v", ended, err)
			}
			err = db.Update(t.Context(), func(tx *sql.Tx) error {
				if did, err := Withdraw(t.Context(), tx, "01A", "tok", noon); did || err != nil {
					t.Errorf("withdrawn again: %t, %v", did, err)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if after, err := Get(t.Context(), db, "01A"); err != nil || cmp.Diff(before, after) != "" {
				t.Errorf("%v\n%s", err, cmp.Diff(before, after))
			}
			if got := trail(t, db); len(got) != 2 {
				t.Errorf("the trail has %q", got)
			}
		})
	}
}

// Many decide at once, and somebody cancels, and time runs out: one of them counts, and the trail has that one.
func TestOneDecides(t *testing.T) {
	db := open(t)
	for i := range 20 {
		r := request(fmt.Sprintf("01A%02d", i), "tok", "x")
		ask(t, db, r)
		var mu sync.Mutex
		var won []string
		did := func(what string, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, what)
			case !errors.Is(err, ErrDecided) && !errors.Is(err, ErrExpired):
				t.Errorf("%s: %v", what, err)
			}
		}
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				grant := n%2 == 0
				a, err := Decide(context.Background(), db, Decision{Run: r.Run, Hash: r.Hash, By: auth.LocalOwner, Grant: grant, Reason: fmt.Sprint(n), At: noon})
				did(fmt.Sprintf("%s by=local reason=%d", a.State, n), err)
			})
		}
		wg.Go(func() {
			ended, err := Expire(context.Background(), db, r.Expires)
			if err == nil && len(ended) == 0 {
				err = ErrDecided
			}
			did("denied by= reason=", err)
		})
		wg.Go(func() {
			err := db.Update(context.Background(), func(tx *sql.Tx) error {
				ok, err := Withdraw(context.Background(), tx, r.Run, "tok", noon)
				if err == nil && !ok {
					err = ErrDecided
				}
				return err
			})
			did("denied by=tok reason=", err)
		})
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%q have decided", won)
		}
		lines := trail(t, db, "by", "reason")
		state, rest, _ := strings.Cut(won[0], " ")
		if len(lines) != 2*(i+1) || lines[len(lines)-1] != fmt.Sprintf("%s %s %s", state, r.Run, rest) {
			t.Fatalf("%q has decided, the trail says %q", won[0], lines[len(lines)-2:])
		}
	}
}

// Of two transactions that have both read it as pending only one can end it: the update itself says so.
func TestEndGuardsItself(t *testing.T) {
	db := open(t)
	a := ask(t, db, request("01A", "tok", "x"))
	a.Decided, a.DecidedBy = noon, "local"
	for i, state := range []State{Denied, Granted} {
		a.State = state
		err := db.Update(t.Context(), func(tx *sql.Tx) error { return end(t.Context(), tx, a) })
		if (err == nil) != (i == 0) || err != nil && !errors.Is(err, ErrDecided) {
			t.Errorf("%s: %v", state, err)
		}
	}
}

// What the caller does in the same transaction and the decision come together or not at all, with the audit event.
func TestDecisionRollsBack(t *testing.T) {
	db := open(t)
	r := request("01A", "tok", "x")
	ask(t, db, r)
	full := errors.New("the queue is full")
	for name, step := range map[string]func(*sql.Tx) error{
		"decide": func(tx *sql.Tx) error {
			_, err := DecideTx(t.Context(), tx, Decision{Run: "01A", Hash: r.Hash, By: auth.LocalOwner, Grant: true, At: noon})
			return err
		},
		"expire":   func(tx *sql.Tx) error { _, err := ExpireTx(t.Context(), tx, r.Expires); return err },
		"withdraw": func(tx *sql.Tx) error { _, err := Withdraw(t.Context(), tx, "01A", "tok", noon); return err },
	} {
		err := db.Update(t.Context(), func(tx *sql.Tx) error {
			if err := step(tx); err != nil {
				t.Fatal(err)
			}
			return full
		})
		if !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
		if a, err := Get(t.Context(), db, "01A"); err != nil || a.State != Pending || len(trail(t, db)) != 1 {
			t.Errorf("%s: %s, %v, trail %q", name, a.State, err, trail(t, db))
		}
	}
}

func TestExpire(t *testing.T) {
	db := open(t)
	const many = 2*expireAtOnce + 3
	for i := range many {
		ask(t, db, request(fmt.Sprintf("01A%04d", i), "tok", "x"))
	}
	late := request("01B", "tok", "x")
	late.Expires = noon.Add(time.Hour + time.Millisecond)
	ask(t, db, late)
	if ended, err := Expire(t.Context(), db, noon.Add(time.Hour-time.Millisecond)); err != nil || len(ended) > 0 {
		t.Errorf("too early: %d, %v", len(ended), err)
	}
	ended, err := Expire(t.Context(), db, noon.Add(time.Hour))
	if err != nil || len(ended) != many {
		t.Fatalf("%d, %v", len(ended), err)
	}
	for i, a := range ended {
		if a.Run != fmt.Sprintf("01A%04d", i) || a.State != Expired || !a.Decided.Equal(noon.Add(time.Hour)) || a.DecidedBy != "" {
			t.Fatalf("number %d is %+v", i, a)
		}
	}
	if a, err := Get(t.Context(), db, "01A0000"); err != nil || a.State != Expired || a.Code != "x" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := Get(t.Context(), db, "01B"); err != nil || a.State != Pending {
		t.Errorf("the late one: %+v, %v", a, err)
	}
	if got := trail(t, db, "by", "cause"); got[len(got)-1] != fmt.Sprintf("denied 01A%04d by= cause=timeout", many-1) || len(got) != 2*many+1 {
		t.Errorf("%d events, the last is %q", len(got), got[len(got)-1])
	}
}

func TestWithdraw(t *testing.T) {
	db := open(t)
	ask(t, db, request("01A", "tok", "x"))
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		if did, err := Withdraw(t.Context(), tx, "01B", "tok", noon); did || err != nil {
			t.Errorf("a run without a question: %t, %v", did, err)
		}
		did, err := Withdraw(t.Context(), tx, "01A", "tok", noon)
		if !did {
			t.Error("nothing was withdrawn")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"requested 01A", "denied 01A by=tok cause=canceled"}, trail(t, db, "by", "cause")); d != "" {
		t.Error(d)
	}
}

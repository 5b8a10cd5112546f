package approval

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/store"
)

func grant(t testing.TB, db *store.DB, r Request, by auth.Identity, d time.Duration) Approval {
	t.Helper()
	ask(t, db, r)
	a, err := Decide(t.Context(), db, Decision{Run: r.Run, Hash: r.Hash, By: by, Grant: true, For: d, At: noon})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCovered(t *testing.T) {
	db := open(t)
	r := request("01A", "tok", "print(1)\n")
	given := grant(t, db, r, auth.LocalOwner, time.Hour)
	other := request("01B", "tok", "print(2)\n")
	grant(t, db, other, auth.LocalOwner, 0)
	denied := request("01C", "tok", "print(3)\n")
	ask(t, db, denied)
	if _, err := Decide(t.Context(), db, Decision{Run: "01C", By: auth.LocalOwner, At: noon}); err != nil {
		t.Fatal(err)
	}
	ask(t, db, request("01D", "tok", "print(4)\n"))
	before := len(trail(t, db))
	// Not even a denial that says it is valid covers anything.
	if _, err := db.ExecContext(t.Context(), "UPDATE approvals SET valid_until = ? WHERE run IN ('01C', '01D')", noon.Add(time.Hour).UnixMilli()); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name  string
		token string
		hash  string
		at    time.Time
	}{
		{"another token", "tok2", r.Hash, noon},
		{"no token", "", r.Hash, noon},
		{"another request", "tok", sum("request print(5)\n"), noon},
		{"no hash", "tok", "", noon},
		{"the hash of the code", "tok", r.CodeSHA256, noon},
		{"a request that was granted for one run", "tok", other.Hash, noon},
		{"a request that was denied", "tok", denied.Hash, noon},
		{"a request that waits", "tok", sum("request print(4)\n"), noon},
		{"when it is over", "tok", r.Hash, noon.Add(time.Hour)},
		{"before it was given, as a clock that was set back says", "tok", r.Hash, noon.Add(-time.Millisecond)},
	} {
		if _, ok := covered(t, db, Use{Run: "01X", Token: test.token, Hash: test.hash, At: test.at}); ok {
			t.Errorf("%s: covered", test.name)
		}
	}
	if got := trail(t, db); len(got) != before {
		t.Errorf("what was not covered is in the trail: %q", got[before:])
	}
	for i, at := range []time.Time{noon, noon.Add(time.Hour - time.Millisecond)} {
		run := fmt.Sprint("01X", i)
		a, ok := covered(t, db, Use{Run: run, Token: "tok", Hash: r.Hash, At: at})
		want := given
		want.Code, want.Plan = "", nil
		if d := cmp.Diff(want, a); !ok || d != "" {
			t.Errorf("at %s: %t\n%s", at, ok, d)
		}
		lines := trail(t, db, "requestHash", "codeSha256", "by", "validUntilMs", "under")
		wantLine := fmt.Sprintf("granted %s requestHash=%s codeSha256=%s by=local validUntilMs=%v under=01A", run, r.Hash, r.CodeSHA256, float64(given.ValidUntil.UnixMilli()))
		if got := lines[len(lines)-1]; got != wantLine || len(lines) != before+i+1 {
			t.Errorf("the trail says %q, want %q", got, wantLine)
		}
	}
}

// Whose token was stolen may have granted what they never saw: with the token its grants end. Those of others stay.
func TestGrantsOfARevokedToken(t *testing.T) {
	db := open(t)
	stolen, other := token(t, db, "stolen", auth.Owner), token(t, db, "other", auth.Owner)
	first := request("01A", "tok", "x")
	grant(t, db, first, stolen, 2*time.Hour)
	use := Use{Run: "01X", Token: "tok", Hash: first.Hash, At: noon}
	if _, ok := covered(t, db, use); !ok {
		t.Fatal("not covered")
	}
	if _, err := auth.Revoke(t.Context(), db, auth.LocalOwner, "stolen", noon); err != nil {
		t.Fatal(err)
	}
	if a, ok := covered(t, db, use); ok {
		t.Errorf("covered by %+v", a)
	}
	grant(t, db, request("01B", "tok", "x"), other, time.Hour)
	if a, ok := covered(t, db, use); !ok || a.Run != "01B" {
		t.Errorf("the grant of another: %t, %q", ok, a.Run)
	}
	// A token that is not there at all is none that could have granted anything.
	if _, err := db.ExecContext(t.Context(), "UPDATE approvals SET decided_by = 'nobody' WHERE run = '01B'"); err != nil {
		t.Fatal(err)
	}
	if _, ok := covered(t, db, use); ok {
		t.Error("covered by a token that was never made")
	}
}

func TestRevoke(t *testing.T) {
	db := open(t)
	owner, runner := token(t, db, "phone", auth.Owner), token(t, db, "ci", auth.Runner)
	r := request("01A", "tok", "x")
	grant(t, db, r, owner, time.Hour)
	grant(t, db, request("01B", "tok", "y"), owner, 0)
	ask(t, db, request("01C", "tok", "z"))
	at := noon.Add(time.Minute)
	for _, test := range []struct {
		name string
		by   auth.Identity
		run  string
		at   time.Time
		want error
	}{
		{"by a runner", runner, "01A", at, auth.ErrForbidden},
		{"by nobody", auth.Identity{}, "01A", at, auth.ErrForbidden},
		{"another run", owner, "01X", at, ErrNotFound},
		{"a grant for one run", owner, "01B", at, ErrNoGrant},
		{"one that waits", owner, "01C", at, ErrNoGrant},
		{"a grant that is over", owner, "01A", noon.Add(time.Hour), ErrNoGrant},
	} {
		if _, err := Revoke(t.Context(), db, test.by, test.run, test.at); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	a, err := Revoke(t.Context(), db, auth.LocalOwner, "01A", at)
	if err != nil || a.State != Granted || !a.ValidUntil.Equal(at) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, ok := covered(t, db, Use{Run: "01X", Token: "tok", Hash: r.Hash, At: at}); ok {
		t.Error("it covers more")
	}
	if _, err := Revoke(t.Context(), db, owner, "01A", at); !errors.Is(err, ErrNoGrant) {
		t.Errorf("again: %v", err)
	}
	lines := trail(t, db, "by", "requestHash")
	if got, want := lines[len(lines)-1], "revoked 01A by=local requestHash="+r.Hash; got != want {
		t.Errorf("the trail says %q, want %q", got, want)
	}
	if n := len(lines); n != 6 {
		t.Errorf("%d events", n)
	}
}

func TestListAndPrevious(t *testing.T) {
	db := open(t)
	if _, ok, err := Previous(t.Context(), db, Approval{Subject: "lab:python main.py"}); ok || err != nil {
		t.Errorf("a version of nothing: %t, %v", ok, err)
	}
	var runs []Request
	for i, code := range []string{"one", "two", "three", "four"} {
		r := request(fmt.Sprint("01A", i), fmt.Sprint("tok", i%2), code)
		ask(t, db, r)
		runs = append(runs, r)
	}
	other := request("01A9", "tok0", "other")
	other.Subject = Subject("lab:python", "other.py")
	ask(t, db, other)
	decide := func(run string, hash string, yes bool, at time.Time) {
		t.Helper()
		if _, err := Decide(t.Context(), db, Decision{Run: run, Hash: hash, By: auth.LocalOwner, Grant: yes, At: at}); err != nil {
			t.Fatal(err)
		}
	}
	decide("01A2", runs[2].Hash, true, noon.Add(1*time.Minute))
	decide("01A0", runs[0].Hash, true, noon.Add(2*time.Minute)) // asked first, granted last
	decide("01A1", runs[1].Hash, false, noon.Add(3*time.Minute))
	decide("01A9", other.Hash, true, noon.Add(4*time.Minute))

	err := db.View(t.Context(), func(tx *sql.Tx) error {
		for run, want := range map[string]string{"01A3": "01A0", "01A1": "01A0", "01A0": "01A2", "01A2": "", "01A9": ""} {
			a, err := Get(t.Context(), tx, run)
			if err != nil {
				return err
			}
			before, ok, err := Previous(t.Context(), tx, a)
			if err != nil {
				return err
			}
			if ok != (want != "") || before.Run != want || ok && (before.Code == "" || before.Plan == nil) {
				t.Errorf("the version before %s is %q, want %q", run, before.Run, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		f    Filter
		want []string
	}{
		{"all", Filter{}, []string{"01A9", "01A3", "01A2", "01A1", "01A0"}},
		{"those that wait", Filter{State: Pending}, []string{"01A3"}},
		{"granted", Filter{State: Granted}, []string{"01A9", "01A2", "01A0"}},
		{"of a token", Filter{Token: "tok1"}, []string{"01A3", "01A1"}},
		{"of a subject", Filter{Subject: other.Subject}, []string{"01A9"}},
		{"a page", Filter{Limit: 2}, []string{"01A9", "01A3"}},
		{"the next page", Filter{Limit: 2, Before: "01A3"}, []string{"01A2", "01A1"}},
		{"several conditions", Filter{State: Granted, Token: "tok0", Before: "01A9"}, []string{"01A2", "01A0"}},
		{"nothing", Filter{State: "bogus"}, nil},
	} {
		list, err := List(t.Context(), db, test.f)
		var got []string
		for _, a := range list {
			got = append(got, a.Run)
			if a.Code != "" || a.Plan != nil || a.Hash == "" {
				t.Errorf("%s: %s has code or plan, or no hash", test.name, a.Run)
			}
		}
		if d := cmp.Diff(test.want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", test.name, err, d)
		}
	}
}

package approval

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// noon is when everything begins.
var noon = time.UnixMilli(1_780_000_000_000)

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

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// request is one that Ask takes.
func request(run, token, code string) Request {
	return Request{
		Run: run, Hash: sum("request " + code), CodeSHA256: sum(code), Subject: Subject("lab:python", "main.py"), Token: token, Rule: "memory",
		Detail: "memory 2GiB, where profile lab:python allows 512MiB", Plan: json.RawMessage(`{"profile":"lab:python"}`), Code: code,
		At: noon, Expires: noon.Add(time.Hour),
	}
}

// accept adds the row of a run that waits.
func accept(ctx context.Context, tx *sql.Tx, r Request) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO requests (run, token, session, hash, request, state, cancel, worker, accepted_at)
		VALUES (?, ?, '', ?, '{}', 'pending', 0, '', ?)`, r.Run, r.Token, r.Hash, r.At.UnixMilli())
	return err
}

func ask(t testing.TB, db *store.DB, r Request) (a Approval) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *sql.Tx) (err error) {
		if err := accept(t.Context(), tx, r); err != nil {
			return err
		}
		a, err = Ask(t.Context(), tx, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// token makes a real one.
func token(t testing.TB, db *store.DB, name string, role auth.Role) auth.Identity {
	t.Helper()
	tok, _, err := auth.Create(t.Context(), db, auth.New{By: auth.LocalOwner, Name: name, Role: role, At: noon})
	if err != nil {
		t.Fatal(err)
	}
	return auth.Identity{Token: tok.ID, Name: name, Role: role}
}

// trail returns the approval events, oldest first, as "name run key=value ..." with the values named.
func trail(t testing.TB, db *store.DB, keys ...string) (lines []string) {
	t.Helper()
	if _, err := audit.Verify(t.Context(), db); err != nil {
		t.Error(err)
	}
	events, err := audit.List(t.Context(), db, audit.Filter{Prefix: "approval_", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		var data map[string]any
		if err := json.Unmarshal(e.Data, &data); err != nil || data["intentId"] != e.Run {
			t.Errorf("%s has data %s, %v", e.Name, e.Data, err)
		}
		line := fmt.Sprintf("%s %s", strings.TrimPrefix(string(e.Name), "approval_"), e.Run)
		for _, k := range keys {
			if v, ok := data[k]; ok {
				line += fmt.Sprintf(" %s=%v", k, v)
			}
		}
		lines = append([]string{line}, lines...)
	}
	return lines
}

func covered(t testing.TB, db *store.DB, u Use) (a Approval, ok bool) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *sql.Tx) (err error) {
		a, ok, err = Covered(t.Context(), tx, u)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, ok
}

func TestAskKeepsWhatIsAskedFor(t *testing.T) {
	db := open(t)
	r := request("01A", "tok", "print(1)\n")
	asked := ask(t, db, r)
	got, err := Get(t.Context(), db, "01A")
	if err != nil {
		t.Fatal(err)
	}
	want := Approval{
		Run: "01A", Hash: r.Hash, CodeSHA256: r.CodeSHA256, Subject: "lab:python main.py", Token: "tok", Rule: "memory", Detail: r.Detail,
		Plan: r.Plan, Code: "print(1)\n", State: Pending, Requested: noon, Expires: noon.Add(time.Hour),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(asked, got); d != "" {
		t.Errorf("Ask returns something else than what is stored: %s", d)
	}
	want1 := []string{fmt.Sprintf("requested 01A requestHash=%s codeSha256=%s token=tok rule=memory", r.Hash, r.CodeSHA256)}
	if d := cmp.Diff(want1, trail(t, db, "requestHash", "codeSha256", "token", "rule")); d != "" {
		t.Error(d)
	}
	if _, err := Get(t.Context(), db, "01B"); !errors.Is(err, ErrNotFound) {
		t.Errorf("another run: %v", err)
	}
}

func TestAskRefuses(t *testing.T) {
	db := open(t)
	for name, spoil := range map[string]func(*Request){
		"no run":                           func(r *Request) { r.Run = "" },
		"no token":                         func(r *Request) { r.Token = "" },
		"no rule":                          func(r *Request) { r.Rule = "" },
		"no hash":                          func(r *Request) { r.Hash = "" },
		"an upper-case hash":               func(r *Request) { r.Hash = strings.ToUpper(r.Hash) },
		"a short hash":                     func(r *Request) { r.Hash = r.Hash[1:] },
		"other code than that of the hash": func(r *Request) { r.Code += "import os\n" },
		"code without a hash":              func(r *Request) { r.CodeSHA256 = "" },
		"no code with the hash of some":    func(r *Request) { r.Code = "" },
		"no subject":                       func(r *Request) { r.Subject = "" },
		"a subject that turns the text":    func(r *Request) { r.Subject = "lab:python \u202eyp.niam" },
		"a long subject":                   func(r *Request) { r.Subject = strings.Repeat("x", MaxSubjectBytes+1) },
		"no plan":                          func(r *Request) { r.Plan = nil },
		"a broken plan":                    func(r *Request) { r.Plan = []byte(`{"a":`) },
		"a long plan":                      func(r *Request) { r.Plan = []byte(`"` + strings.Repeat("x", MaxPlanBytes) + `"`) },
		"over before it began":             func(r *Request) { r.Expires = r.At },
	} {
		t.Run(name, func(t *testing.T) {
			r := request("01A", "tok", "print(1)\n")
			spoil(&r)
			err := db.Update(t.Context(), func(tx *sql.Tx) error {
				if err := accept(t.Context(), tx, r); err != nil {
					t.Fatal(err)
				}
				_, err := Ask(t.Context(), tx, r)
				return err
			})
			if err == nil {
				t.Error("it is asked")
			}
		})
	}
	if got := trail(t, db); len(got) > 0 {
		t.Errorf("what was refused is in the trail: %q", got)
	}
}

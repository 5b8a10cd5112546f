package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/silk-sandbox/silk/store"
)

// ErrNotFound is returned by [Get] and [Output] when no run has the id.
var ErrNotFound = errors.New("no such run")

// AmbiguousError is returned by [Get] when several runs have an id that begins as asked.
type AmbiguousError struct {
	Prefix string
	Runs   []string // some of them
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s is the beginning of several runs: %s, ...", e.Prefix, strings.Join(e.Runs, ", "))
}

// Entry is a record with what is stored beside it.
type Entry struct {
	Record Record
	Source string          // what the hand-off needs of a run that has no end yet; [Finish] drops it, and only [Source] reads it
	Plan   json.RawMessage // the plan as decided, nil when refused before there was one; values of the invoker's environment are replaced by hashes
}

// Begin writes the record of a run that is about to start. owner names the engine, see [Lost].
func Begin(ctx context.Context, tx *sql.Tx, owner string, e Entry) error {
	text, err := e.Record.encode()
	if err != nil {
		return err
	}
	return put(ctx, tx, owner, Sealed{entry: e, text: text})
}

// Sealed is a finished record with its signature, as it will be stored.
type Sealed struct {
	SHA256 string // of its canonical JSON
	KeyID  string // who signed it; "": nobody

	entry           Entry
	text, signature string
}

// Seal encodes the record of a run that has ended, and has it signed by by, who may be nil.
func Seal(e Entry, by Signer) (Sealed, error) {
	if e.Record.Outcome.Kind == "" {
		return Sealed{}, fmt.Errorf("finish record of run %s: it has no outcome", e.Record.Run)
	}
	e.Source = ""
	text, err := e.Record.encode()
	if err != nil {
		return Sealed{}, err
	}
	s := Sealed{SHA256: hashOf(text), entry: e, text: text}
	if by != nil {
		said, err := statement(text)
		if err != nil {
			return Sealed{}, err
		}
		if s.KeyID, s.signature, err = by.Sign(said); err != nil {
			return Sealed{}, err
		}
	}
	return s, nil
}

// Finish writes the complete record of a run, whether it was begun or not.
func Finish(ctx context.Context, tx *sql.Tx, s Sealed) error { return put(ctx, tx, "", s) }

// Envelope is the signed record of a run that has ended, as others can check it: see [Verify]. Errors: [ErrNotFound], [ErrUnsigned].
func Envelope(ctx context.Context, db Querier, run string) (_ []byte, err error) {
	rows, err := db.QueryContext(ctx, "SELECT record, signed_by, signature FROM runs WHERE id = ?", run)
	if err != nil {
		return nil, fmt.Errorf("read the record of run %s: %w", run, err)
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, fmt.Errorf("run %q: %w", run, errors.Join(ErrNotFound, rows.Err()))
	}
	var text string
	var s dsse.Signature
	if err := rows.Scan(&text, &s.KeyID, &s.Sig); err != nil {
		return nil, fmt.Errorf("read the record of run %s: %w", run, err)
	}
	if s.Sig == "" {
		return nil, fmt.Errorf("run %s: %w", run, ErrUnsigned)
	}
	return envelope(text, s)
}

// ErrUnsigned is returned by [Envelope] for a run that has not ended, or whose record is of a version of silk that signed none.
var ErrUnsigned = errors.New("its record is not signed: it has not ended, or is of an earlier version")

// Source is that of a run that was begun and has no end; empty if there is none.
func Source(ctx context.Context, tx *sql.Tx, run string) (source string, err error) {
	if err = tx.QueryRowContext(ctx, "SELECT source FROM runs WHERE id = ?", run).Scan(&source); err != nil {
		return "", fmt.Errorf("read what run %s is of: %w", run, err)
	}
	return source, nil
}

func put(ctx context.Context, tx *sql.Tx, owner string, s Sealed) error {
	r := s.entry.Record
	brief, err := json.Marshal(r.Brief())
	if err != nil {
		return fmt.Errorf("encode record of run %s: %w", r.Run, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO runs (id, started_at, client, profile, outcome, exit_code, driver, image, owner, plan, record, brief, source, signed_by, signature)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET profile = excluded.profile, outcome = excluded.outcome, exit_code = excluded.exit_code,
			driver = excluded.driver, image = excluded.image, owner = excluded.owner, plan = excluded.plan, record = excluded.record,
			brief = excluded.brief, source = excluded.source, signed_by = excluded.signed_by, signature = excluded.signature
		WHERE runs.outcome = ''`, // a finished record never changes
		r.Run, r.StartedAtMs, r.Client, r.Profile, r.Outcome.Kind, r.Outcome.ExitCode, r.Driver, r.Image, owner, string(s.entry.Plan), s.text, string(brief), s.entry.Source, s.KeyID, s.signature)
	if err != nil {
		return fmt.Errorf("write record of run %s: %w", r.Run, err)
	}
	return nil
}

// Get returns the run with the id, or the only one whose id begins with it (at least four characters, any case). Errors:
// [ErrNotFound], [*AmbiguousError].
func Get(ctx context.Context, db Querier, id string) (Entry, error) {
	const least = 4 // fewer match by accident, and a ULID begins with its time
	prefix := strings.ToUpper(id)
	if len(prefix) < least || strings.Trim(prefix, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
		return Entry{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	entries, err := query(ctx, db, "SELECT plan, record FROM runs WHERE id >= ? AND id < ? ORDER BY id LIMIT 3", prefix, prefix+"~")
	if err != nil {
		return Entry{}, err
	}
	switch {
	case len(entries) == 0:
		return Entry{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
	case len(entries) > 1:
		e := &AmbiguousError{Prefix: id}
		for _, entry := range entries {
			e.Runs = append(e.Runs, entry.Record.Run)
		}
		return Entry{}, e
	}
	return entries[0], nil
}

// Filter chooses records. Its zero value chooses the newest 100.
type Filter struct {
	Outcome string    // of this kind only; "running" for those that have none yet
	Profile string    // of this profile only
	Since   time.Time // started not before
	Before  string    // older than this run id: pass the last one of a page to get the next
	Limit   int       // at most; 0: 100
}

// List returns runs, the newest first.
func List(ctx context.Context, db *store.DB, f Filter) ([]Entry, error) {
	where, args := []string{"TRUE"}, []any{}
	add := func(cond string, arg any) { where, args = append(where, cond), append(args, arg) }
	if f.Outcome == "running" {
		where = append(where, "outcome = ''")
	} else if f.Outcome != "" {
		add("outcome = ?", f.Outcome)
	}
	if f.Profile != "" {
		add("profile = ?", f.Profile)
	}
	if !f.Since.IsZero() {
		add("started_at >= ?", f.Since.UnixMilli())
	}
	if f.Before != "" {
		add("id < ?", f.Before)
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	return query(ctx, db, "SELECT plan, record FROM runs WHERE "+strings.Join(where, " AND ")+" ORDER BY id DESC LIMIT ?", append(args, f.Limit)...)
}

// Lost returns the runs that have no outcome though their engine is gone: alive says whether the engine of that name
// still exists. Whoever ends them calls it inside the transaction that does.
func Lost(ctx context.Context, db Querier, alive func(owner string) bool) ([]Entry, error) {
	rows, err := db.QueryContext(ctx, "SELECT DISTINCT owner FROM runs WHERE outcome = ''")
	if err != nil {
		return nil, fmt.Errorf("read unfinished runs: %w", err)
	}
	var gone []string
	for rows.Next() {
		var owner string
		if err := rows.Scan(&owner); err != nil {
			return nil, errors.Join(fmt.Errorf("read unfinished runs: %w", err), rows.Close())
		}
		if !alive(owner) {
			gone = append(gone, owner)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, fmt.Errorf("read unfinished runs: %w", err)
	}
	var lost []Entry
	for _, owner := range gone {
		entries, err := query(ctx, db, "SELECT plan, record FROM runs WHERE outcome = '' AND owner = ? ORDER BY id", owner)
		if err != nil {
			return nil, err
		}
		lost = append(lost, entries...)
	}
	return lost, nil
}

// Querier is a *store.DB or a *sql.Tx.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func query(ctx context.Context, db Querier, text string, args ...any) ([]Entry, error) {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	defer rows.Close()
	var entries []Entry
	for rows.Next() {
		var plan, text string
		if err := rows.Scan(&plan, &text); err != nil {
			return nil, fmt.Errorf("read runs: %w", err)
		}
		var e Entry
		if err := json.Unmarshal([]byte(text), &e.Record); err != nil {
			return nil, fmt.Errorf("read runs: decode a record: %w", err)
		}
		if plan != "" {
			e.Plan = json.RawMessage(plan)
		}
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	return entries, nil
}

package skill

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/store"
)

// Status says whether a skill may be run.
type Status string

const (
	Active  Status = "active"
	Revoked Status = "revoked"
)

// Registered is a skill in the store. Its JSON form is the published one.
type Registered struct {
	Name             string          `json:"name"`
	PublisherAddress string          `json:"publisherAddress"`
	PublisherName    string          `json:"publisherName"`
	Manifest         json.RawMessage `json:"manifest"`
	ManifestHash     string          `json:"manifestHash"`
	Status           Status          `json:"status"`
	RegisteredAt     int64           `json:"registeredAt"` // Unix milliseconds
	RevokedAt        *int64          `json:"revokedAt"`    // null as long as it is active

	Image string `json:"image,omitempty"` // digest of the image that it runs on; empty: the one of its language
	Dir   string `json:"-"`               // of its files, on the host that registered it
}

// ErrNotFound is returned by [Get], [Revoke] and [Load] for a name that no skill has. Its text is the published one.
var ErrNotFound = errors.New(NotFound)

// ErrRevoked is returned by [Revoke] and [Load] for a skill that was revoked.
var ErrRevoked = errors.New("the skill is revoked")

// system is the intentId of events that belong to no run.
const system = "system"

// Origin is where a skill comes from.
type Origin struct {
	Dir   string // of its files, an absolute path; empty: one that nobody may name
	Image string // digest of the image that it is to run on; empty: the one of its language

	// Keep, if not nil, is called with the skill's name when it is about to be kept. Its error keeps it from that.
	Keep func(name string) error
}

// Register checks the skill whose manifest is text, and keeps it if nothing is wrong with it and its name was never taken. Either way there is
// an audit event, and the result says what came of it; the error is about the directory and the store.
func Register(ctx context.Context, db *store.DB, text []byte, from Origin, at time.Time) (Result, error) {
	s, r, err := Check(text, from.Dir)
	if err != nil {
		return r, err
	}
	err = db.Update(ctx, func(tx *sql.Tx) error {
		if r.Error == "" {
			if err := insert(ctx, tx, s, from, at, &r); err != nil {
				return err
			}
		}
		e, err := audit.New(system, audit.SkillRegistrationFailed, at, map[string]any{"intentId": system, "skillName": r.Name, "reason": r.Error})
		if r.Error == "" {
			data := map[string]any{
				"intentId": system, "skillName": r.Name, "manifestHash": s.Hash, "publisherAddress": strings.ToLower(s.Manifest.Publisher.Address),
			}
			if from.Image != "" {
				data["image"] = from.Image
			}
			e, err = audit.New(system, audit.SkillRegistered, at, data)
		}
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, &e)
	})
	if err != nil {
		return Result{Name: r.Name}, fmt.Errorf("register skill: %w", err)
	}
	return r, nil
}

// insert keeps s, unless its name is taken: also by a skill that was revoked.
func insert(ctx context.Context, tx *sql.Tx, s Skill, from Origin, at time.Time, r *Result) error {
	m := s.Manifest
	switch _, err := get(ctx, tx, m.Name); {
	case err == nil:
		r.Error = Duplicate
		return nil
	case !errors.Is(err, ErrNotFound):
		return err
	}
	text, err := json.Marshal(m.whole())
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO registered_skills (name, publisher_address, publisher_name, manifest, manifest_hash, status, registered_at, revoked_at, dir, image)
		VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)`, m.Name, m.Publisher.Address, m.Publisher.Name, string(text), s.Hash, string(Active), at.UnixMilli(), from.Dir, from.Image)
	if err == nil && from.Keep != nil {
		err = from.Keep(m.Name)
	}
	if err != nil {
		return err
	}
	r.Registered, r.ManifestHash = true, s.Hash
	return nil
}

const columns = "SELECT name, publisher_address, publisher_name, manifest, manifest_hash, status, registered_at, revoked_at, dir, image FROM registered_skills"

func scanRow(row interface{ Scan(...any) error }) (s Registered, err error) {
	var manifest, status string
	var revoked sql.NullInt64
	err = row.Scan(&s.Name, &s.PublisherAddress, &s.PublisherName, &manifest, &s.ManifestHash, &status, &s.RegisteredAt, &revoked, &s.Dir, &s.Image)
	s.Manifest, s.Status = json.RawMessage(manifest), Status(status)
	if revoked.Valid {
		s.RevokedAt = &revoked.Int64
	}
	return s, err
}

// querier is a store or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func get(ctx context.Context, q querier, name string) (Registered, error) {
	s, err := scanRow(q.QueryRowContext(ctx, columns+" WHERE name = ?", name))
	if errors.Is(err, sql.ErrNoRows) {
		return s, ErrNotFound
	}
	if err != nil {
		return s, fmt.Errorf("look for skill: %w", err)
	}
	return s, nil
}

// Get returns a skill, revoked or not.
func Get(ctx context.Context, db *store.DB, name string) (Registered, error) {
	return get(ctx, db, name)
}

// List returns the skills that are active, by name; with all the revoked ones too.
func List(ctx context.Context, db *store.DB, all bool) (list []Registered, err error) {
	where, args := " WHERE status = ?", []any{string(Active)}
	if all {
		where, args = "", nil
	}
	rows, err := db.QueryContext(ctx, columns+where+" ORDER BY name", args...)
	if err != nil {
		return nil, fmt.Errorf("list skills: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		s, err := scanRow(rows)
		if err != nil {
			return nil, fmt.Errorf("list skills: %w", err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list skills: %w", err)
	}
	return list, nil
}

// Revoke ends a skill: it is kept, with its name, and not run any more.
func Revoke(ctx context.Context, db *store.DB, name string, at time.Time) error {
	return db.Update(ctx, func(tx *sql.Tx) error {
		s, err := get(ctx, tx, name)
		if err != nil {
			return err
		}
		if s.Status != Active {
			return ErrRevoked
		}
		if _, err := tx.ExecContext(ctx, "UPDATE registered_skills SET status = ?, revoked_at = ? WHERE name = ?", string(Revoked), at.UnixMilli(), name); err != nil {
			return fmt.Errorf("revoke skill: %w", err)
		}
		e, err := audit.New(system, audit.SkillRevoked, at, map[string]any{"intentId": system, "skillName": name})
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, &e)
	})
}

// TamperedError says that a skill is not what was registered.
type TamperedError struct{ Result Result }

func (e *TamperedError) Error() string {
	text := "the skill " + e.Result.Name + " is not what was registered: " + e.Result.Error
	for _, f := range e.Result.ValidationErrors {
		text += "; " + strings.TrimSpace(f.Path+" "+f.Message)
	}
	for _, m := range e.Result.HashMismatches {
		what := "has another content"
		if m.Message != "" {
			what = m.Message
		}
		text += "; " + m.Path + ": " + what
	}
	return text
}

// Load returns a skill for a run, after everything that can have changed since it was registered was checked again: its row, its
// signature, its files. Whatever differs is a [*TamperedError], with the published name of what failed. Files are those that were compared:
// nothing is read once more.
func Load(ctx context.Context, db *store.DB, name string) (Skill, error) {
	row, err := Get(ctx, db, name)
	if err != nil {
		return Skill{}, err
	}
	if row.Status != Active {
		return Skill{}, ErrRevoked
	}
	s, r, err := verify(row.Manifest, row.Dir)
	if err != nil {
		return Skill{}, err
	}
	if r.Error == "" && (s.Hash != row.ManifestHash || s.Manifest.Name != row.Name) {
		r.Error = SignatureFailed
		r.ValidationErrors = fault("", "is another one than the one that was registered")
	}
	if r.Error != "" {
		r.Name = name
		return Skill{}, &TamperedError{r}
	}
	s.Image = row.Image
	return s, nil
}

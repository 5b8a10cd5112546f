// Package audit keeps the append-only trail of facts that matter for security: what ran, how it ended, what was refused.
//
// Events form one hash chain over the whole store, across processes: [Append] adds to it inside a transaction of the
// caller, [Verify] finds the first event that was changed, removed or put in between. Triggers in the schema forbid
// UPDATE and DELETE, so the trail is not changed by mistake; who can write the file can still cut the newest events off
// or build a new chain, which is what signed records and exported heads are for. Text that sandboxed code printed
// reaches the trail in one place only: the error of a failed run, bounded by [MaxErrorBytes]. How a run ended is its
// outcome, which only silk writes: a program can print the word oom, and its event has that error and outcome failed.
package audit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
	"github.com/oklog/ulid/v2"
)

// Name is the name of a kind of event.
type Name string

// The events. Their data is an object; intentId in it is the run id, as in the column.
const (
	SandboxStarted    Name = "sandbox_started"    // intentId, profile, memoryMb, networkMode, driver, image
	SandboxCompleted  Name = "sandbox_completed"  // intentId, profile, outcome ok, exitCode 0, durationMs
	SandboxError      Name = "sandbox_error"      // intentId, profile, outcome (a run.Kind), error, exitCode (absent on timeout)
	SecurityViolation Name = "security_violation" // intentId, type, details
	OutputTruncated   Name = "output_truncated"   // intentId, channel, bytes, kept
	HostRecovered     Name = "host_recovered"     // intentId, details: silk died during the run
)

// MaxErrorBytes bounds the text in the error of a [SandboxError].
const MaxErrorBytes = 4096

// zeroHash is the prev_hash of the first event.
var zeroHash = strings.Repeat("0", hex.EncodedLen(sha256.Size))

// Event is one fact. ID, CreatedAt, Seq, PrevHash and Hash are set by [Append].
type Event struct {
	ID        string          `json:"id"`
	Timestamp int64           `json:"timestamp"` // when it happened, Unix milliseconds
	Run       string          `json:"intent_id"` // run id
	Name      Name            `json:"event"`
	Data      json.RawMessage `json:"data"`       // an object
	CreatedAt int64           `json:"created_at"` // when it was written, Unix milliseconds
	Seq       int64           `json:"seq"`        // from 1, without gaps
	PrevHash  string          `json:"prev_hash"`
	Hash      string          `json:"hash"`
}

// New makes an event of run that happens at the given time. data must marshal to a JSON object; numbers in it must be
// exact as float64 (RFC 8785).
func New(run string, name Name, at time.Time, data map[string]any) (Event, error) {
	text, err := json.Marshal(data)
	if err == nil {
		text, err = jcs.Transform(text)
	}
	if err != nil {
		return Event{}, fmt.Errorf("encode %s event: %w", name, err)
	}
	return Event{Timestamp: at.UnixMilli(), Run: run, Name: name, Data: text}, nil
}

// Append adds events to the end of the chain, in order, and sets the fields of each that only the trail knows. tx must
// hold the write lock from its beginning (store.DB.Update does), or two writers could continue the same event.
func Append(ctx context.Context, tx *sql.Tx, events ...*Event) error {
	var seq int64
	hash := zeroHash
	err := tx.QueryRowContext(ctx, "SELECT seq, hash FROM audit_events ORDER BY seq DESC LIMIT 1").Scan(&seq, &hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read end of audit trail: %w", err)
	}
	for _, e := range events {
		seq++
		e.ID, e.CreatedAt = ulid.MustNew(ulid.Now(), rand.Reader).String(), time.Now().UnixMilli()
		e.Seq, e.PrevHash = seq, hash
		if e.Hash, err = e.sum(); err != nil {
			return err
		}
		hash = e.Hash
		_, err := tx.ExecContext(ctx, `INSERT INTO audit_events (id, timestamp, intent_id, event, data, created_at, seq, prev_hash, hash)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, e.ID, e.Timestamp, e.Run, string(e.Name), string(e.Data), e.CreatedAt, e.Seq, e.PrevHash, e.Hash)
		if err != nil {
			return fmt.Errorf("append audit event %s: %w", e.Name, err)
		}
	}
	return nil
}

// sum is the hash of e: SHA-256 over the canonical JSON (RFC 8785) of everything but the hash itself, with data as the
// text that is stored.
func (e Event) sum() (string, error) {
	text, err := json.Marshal(map[string]any{
		"id": e.ID, "timestamp": e.Timestamp, "intent_id": e.Run, "event": e.Name, "data": string(e.Data),
		"created_at": e.CreatedAt, "seq": e.Seq, "prev_hash": e.PrevHash,
	})
	if err == nil {
		text, err = jcs.Transform(text)
	}
	if err != nil {
		return "", fmt.Errorf("hash audit event %d: %w", e.Seq, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Filter chooses events. Its zero value chooses the newest 100.
type Filter struct {
	Run    string // of this run only
	Prefix string // event names that begin so: "sandbox_"
	Before int64  // seq below this one: pass the last Seq of a page to get the next
	Limit  int    // at most; 0: 100
}

// querier is a *sql.DB, a *store.DB or a *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

const columns = "id, timestamp, intent_id, event, data, created_at, seq, prev_hash, hash"

// List returns events, the newest first.
func List(ctx context.Context, db querier, f Filter) ([]Event, error) {
	where, args := []string{"TRUE"}, []any{}
	add := func(cond string, arg ...any) { where, args = append(where, cond), append(args, arg...) }
	if f.Run != "" {
		add("intent_id = ?", f.Run)
	}
	if f.Prefix != "" {
		add("substr(event, 1, ?) = ?", utf8.RuneCountInString(f.Prefix), f.Prefix)
	}
	if f.Before > 0 {
		add("seq < ?", f.Before)
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	args = append(args, f.Limit)
	var events []Event
	err := each(ctx, db, "SELECT "+columns+" FROM audit_events WHERE "+strings.Join(where, " AND ")+" ORDER BY seq DESC LIMIT ?", args, func(e Event) error {
		events = append(events, e)
		return nil
	})
	return events, err
}

// each calls visit with every event that the query finds.
func each(ctx context.Context, db querier, query string, args []any, visit func(Event) error) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read audit trail: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e Event
		var name, data string
		if err := rows.Scan(&e.ID, &e.Timestamp, &e.Run, &name, &data, &e.CreatedAt, &e.Seq, &e.PrevHash, &e.Hash); err != nil {
			return fmt.Errorf("read audit trail: %w", err)
		}
		e.Name, e.Data = Name(name), json.RawMessage(data)
		if err := visit(e); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read audit trail: %w", err)
	}
	return nil
}

// Head is the end of a chain. Two heads with the same Seq and Hash have the same history.
type Head struct {
	Seq  int64  `json:"seq"` // 0: no event yet
	Hash string `json:"hash"`
}

// BrokenError says where a chain stops being whole.
type BrokenError struct {
	Seq int64  // the first event that does not fit
	Why string // what is wrong with it
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("audit trail is broken at event %d: %s", e.Seq, e.Why)
}

// Verify reads the whole trail and returns its head. If an event was changed, removed or inserted, the error is a
// [*BrokenError] and the head is the end of the part that is whole.
func Verify(ctx context.Context, db querier) (Head, error) {
	head := Head{Hash: zeroHash}
	err := each(ctx, db, "SELECT "+columns+" FROM audit_events ORDER BY seq", nil, func(e Event) error {
		sum, err := e.sum()
		if err != nil {
			return &BrokenError{e.Seq, err.Error()}
		}
		switch {
		case e.Seq != head.Seq+1:
			return &BrokenError{head.Seq + 1, fmt.Sprintf("it is missing; the next one is %d", e.Seq)}
		case e.PrevHash != head.Hash:
			return &BrokenError{e.Seq, "it does not continue the one before"}
		case e.Hash != sum:
			return &BrokenError{e.Seq, "its content does not match its hash"}
		}
		head = Head{Seq: e.Seq, Hash: e.Hash}
		return nil
	})
	return head, err
}

// Package audit keeps the append-only trail of facts that matter for security: what ran, how it ended, what was refused.
//
// Events form one hash chain over the whole store, across processes: [Append] adds to it inside a transaction of the
// caller, [Verify] finds the first event that was changed, removed or put in between. The newest events are in a table,
// where triggers forbid UPDATE and DELETE; [Rotate] moves older ones into sealed, compressed files beside the database, in
// which the chain goes on, and removes the oldest files if the owner's [Policy] says so, leaving an event that says
// what is gone. [List], [After], [Verify] and [Export] read table and files as one trail.
//
// Who can write the files can still cut the newest events off or build a new chain: against that helps a [Head] that was
// kept elsewhere. Text that sandboxed code printed reaches the trail in one place only: the error of a failed run,
// bounded by [MaxErrorBytes]. How a run ended is its outcome, which only silk writes: a program can print the word oom,
// and its event has that error and outcome failed.
package audit

import (
	"bytes"
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

	"github.com/gowebpki/jcs"
	"github.com/oklog/ulid/v2"
)

// Name is the name of a kind of event.
type Name string

// The events. Their data is an object; intentId in it is the run id, as in the column. The events of a run's end have recordSha256, the
// hash of its record's canonical JSON, and keyId, who has signed that.
const (
	SandboxStarted    Name = "sandbox_started"    // intentId, profile, memoryMb, networkMode, driver, image
	SandboxCompleted  Name = "sandbox_completed"  // intentId, profile, outcome ok, exitCode 0, durationMs
	SandboxError      Name = "sandbox_error"      // intentId, profile, outcome (a run.Kind), error, exitCode (absent on timeout)
	SecurityViolation Name = "security_violation" // intentId, type, details
	PolicyDenied      Name = "policy_denied"      // intentId, rule, count, acts: what a rule refused with an errno; the first few acts
	NetworkDecision   Name = "network_decision"   // intentId, kind (tcp, udp, dns), host, port, allowed, count; rule and reason if refused; addr, sent, taken, durationMs if allowed
	MonitorDrop       Name = "monitor_drop"       // intentId, source, count: events that were seen and not delivered
	OutputTruncated   Name = "output_truncated"   // intentId, channel, bytes, kept
	HostRecovered     Name = "host_recovered"     // intentId, details: the end of the run was not recorded when it ended
	AlertFailed       Name = "alert_failed"       // intentId, sink, error: nobody was told of a violation that way
	ApprovalRequested Name = "approval_requested" // intentId, requestHash, codeSha256, token (who asks), rule, detail, expiresAtMs
	ApprovalGranted   Name = "approval_granted"   // intentId, requestHash, codeSha256, by, reason, validUntilMs (absent: this run only), under (run whose grant covers this one)
	ApprovalDenied    Name = "approval_denied"    // intentId, requestHash, by, cause (owner, timeout, canceled), reason
	ApprovalRevoked   Name = "approval_revoked"   // intentId, requestHash, by: a grant covers no more runs
	TokenCreated      Name = "token_created"      // intentId "system", token, name, role, by, expiresAtMs (absent: never), maxRunning, maxQueued
	TokenRevoked      Name = "token_revoked"      // intentId "system", token, name, by
	SkillRegistered   Name = "skill_registered"   // intentId "system", skillName, manifestHash, publisherAddress, image (if it has its own)
	SkillRevoked      Name = "skill_revoked"      // intentId "system", skillName
	Removed           Name = "audit_removed"      // intentId "system", firstSeq, lastSeq, lastHash, retentionMs: see Policy
)

// What becomes of records: package retention.
const (
	RecordHeld     Name = "record_held"       // intentId, reason, by
	RecordReleased Name = "record_released"   // intentId, by
	RunsRemoved    Name = "retention_removed" // intentId "system", what (record, output, artifacts), runs, bytes, reason
)

// SkillRegistrationFailed has intentId "system", skillName ("" if the manifest has none), reason.
const SkillRegistrationFailed Name = "skill_registration_failed"

// MaxErrorBytes bounds the text in the error of a [SandboxError].
const MaxErrorBytes = 4096

// MaxDataBytes bounds the data of one event, so that a reader of the trail needs little memory.
const MaxDataBytes = 256 << 10

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
// hold the write lock from its beginning (store.DB.Update does), or two writers could continue the same event. A first event
// beside files of another trail is refused with a [*StrayError].
func Append(ctx context.Context, tx *sql.Tx, events ...*Event) error {
	for _, e := range events {
		if err := e.check(); err != nil {
			return err
		}
	}
	var seq int64
	hash := zeroHash
	err := tx.QueryRowContext(ctx, "SELECT seq, hash FROM audit_events ORDER BY seq DESC LIMIT 1").Scan(&seq, &hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read end of audit trail: %w", err)
	}
	if seq == 0 {
		if err := mayBegin(ctx, tx); err != nil {
			return err
		}
	}
	var total int64
	for _, e := range events {
		seq++
		total += e.size()
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
	if _, err := tx.ExecContext(ctx, "UPDATE audit_size SET bytes = bytes + ?", total); err != nil {
		return fmt.Errorf("count audit events: %w", err)
	}
	return nil
}

// check refuses data that would not come back from a file as it went in, or that is too long.
func (e *Event) check() error {
	if len(e.Data) > MaxDataBytes {
		return fmt.Errorf("append audit event %s: its data has %d bytes, more than %d", e.Name, len(e.Data), MaxDataBytes)
	}
	if text, err := jcs.Transform(e.Data); err != nil || !bytes.Equal(text, e.Data) {
		return fmt.Errorf("append audit event %s: its data is not canonical JSON, which New makes", e.Name)
	}
	return nil
}

// size is what e counts for in the table: its data and 256 bytes for the rest. The migration counts alike.
func (e *Event) size() int64 { return int64(len(e.Data)) + 256 }
